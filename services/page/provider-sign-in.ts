import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import type { Identity, Membership } from '../accounts/people.ts'
import type { PageDeps } from './context.ts'
import { visitorOf } from './guard.ts'
import { html, type Html } from './html.ts'
import { type IdentityProvider, SignInError, type SignInFlow } from './identity-provider.ts'
import { plainPage, sendHtml } from './layout.ts'
import { PageError } from './page-error.ts'
import { linkSignInRoutes, startSession } from './sign-in.ts'

const FLOW_S = 600
const START = '/live/overview'
/** The pages to return to; no other address is ever a target. */
const BACK = /^\/(live|test)\/[a-z-]{1,20}$/

/**
 * Sign-in by links and through the provider. Cookies of this page are SameSite=Strict, so browsers
 * do not send them when the provider redirects to `callback`. That page goes on to `complete` by
 * itself, which is a navigation within this site.
 */
export function signInRoutes (deps: PageDeps): readonly RouteOptions[] {
  return [
    ...linkSignInRoutes(deps),
    {
      method: 'GET',
      url: '/sign-in/start',
      config: { access: 'everybody' },
      handler: async (request, reply) => {
        const { back, again } = request.query as Readonly<Record<string, unknown>>
        const { url, flow } = await fromProvider(deps, request, provider =>
          provider.start({ back: pathOf(back), again: again === 'yes' }))
        const value = Buffer.from(JSON.stringify(flow)).toString('base64url')
        setFlowCookie(request, reply, { value, maxAge: FLOW_S })
        return reply.redirect(url, 303)
      },
    },
    {
      method: 'GET',
      url: '/sign-in/callback',
      config: { access: 'everybody' },
      handler: (request, reply) => sendHtml(reply, returningView(queryOf(request))),
    },
    {
      method: 'GET',
      url: '/sign-in/complete',
      config: { access: 'everybody' },
      handler: (request, reply) => completeSignIn(deps, request, reply),
    },
  ]
}

async function completeSignIn (
  deps: PageDeps, request: FastifyRequest, reply: FastifyReply
): Promise<FastifyReply> {
  const flow = flowIn(request)
  // Each flow completes once, successful or not.
  setFlowCookie(request, reply, { value: '', maxAge: 0 })
  if (flow === undefined) throw new PageError('sign_in_failed')
  const { identity, authenticatedAtMs } = await fromProvider(deps, request, provider =>
    provider.complete(queryOf(request), flow))
  const memberships = await deps.people.membershipsOf(identity)
  const before = (await visitorOf(deps, request))?.session.subject
  const known = memberships.find(({ orgId }) =>
    before?.kind === 'customer' && before.orgId === orgId)
  const membership = known ?? memberships[0]
  if (membership === undefined) throw notAMember(identity)
  await startSession(deps, { request, reply }, {
    subject: subjectOf(membership), authenticatedAtMs,
  })
  const isChosen = known !== undefined || memberships.length === 1
  return reply.redirect(isChosen ? pathOf(flow.back) : '/live/account', 303)
}

/** The subject of a session of a member. */
export function subjectOf ({ orgId, person: { id, generation } }: Membership) {
  return { kind: 'customer', orgId, person: { id, generation } } as const
}

function notAMember ({ email }: Identity): PageError {
  return new PageError('not_a_member', email === ''
    ? 'The sign-in provider does not confirm your e-mail address, which the first sign-in needs. ' +
      'Have it verified there, then sign in again.'
    : `${email} is not a member of an organization here, or belongs to another account at the ` +
      'sign-in provider. Ask an owner of your organization, or the operator of this installation.')
}

/** Calls the provider; its failures become the page that a person reads. */
async function fromProvider<T> (
  { identityProvider }: PageDeps, { log, id }: FastifyRequest,
  call: (provider: IdentityProvider) => Promise<T>
): Promise<T> {
  if (identityProvider === undefined) throw new PageError('not_found')
  try {
    return await call(identityProvider)
  } catch (error) {
    if (!(error instanceof SignInError)) throw error
    log.warn({ request: id, kind: error.kind, reason: error.message }, 'sign-in failed')
    throw new PageError(error.kind === 'unavailable' ? 'provider_unavailable' : 'sign_in_failed')
  }
}

const queryOf = ({ url }: FastifyRequest) => new URL(url, 'http://page').searchParams

const pathOf = (back: unknown) => BACK.test(String(back)) ? String(back) : START

const flowCookie = (isHttps: boolean) => isHttps ? '__Host-sign-in' : 'sign-in'

function setFlowCookie (
  { isHttps }: FastifyRequest, reply: FastifyReply,
  { value, maxAge }: { readonly value: string, readonly maxAge: number }
): void {
  reply.setCookie(flowCookie(isHttps), value, {
    httpOnly: true, sameSite: 'strict', secure: isHttps, path: '/', maxAge,
  })
}

/** The flow that this browser has started; undefined without one. */
function flowIn ({ cookies, isHttps }: FastifyRequest): SignInFlow | undefined {
  const text = Buffer.from(cookies[flowCookie(isHttps)] ?? '', 'base64url').toString()
  try {
    const { state, nonce, verifier, back, again } = JSON.parse(text) as Record<string, unknown>
    return {
      state: String(state),
      nonce: String(nonce),
      verifier: String(verifier),
      back: pathOf(back),
      again: again === true,
    }
  } catch {
    return undefined
  }
}

function returningView (query: URLSearchParams): Html {
  const next = `/sign-in/complete?${query}`
  return plainPage({
    title: 'Sign in',
    next,
    body: html`
      <div class="narrow">
        <h1>Signing in</h1>
        <p><a class="button" href="${next}">Continue</a></p>
      </div>`,
  })
}
