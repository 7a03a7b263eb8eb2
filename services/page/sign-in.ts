import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import type { Membership } from '../accounts/people.ts'
import type { SignedIn } from '../accounts/sessions.ts'
import { field, type PageDeps, type Visit } from './context.ts'
import { type CookieName, cookieName, findVisitor, toRequester, sessionIdIn } from './guard.ts'
import { html, type Html } from './html.ts'
import { type IdentityProvider, SignInError, type SignInFlow } from './identity-provider.ts'
import { findNotice, plainPage, sendHtml } from './layout.ts'
import { PageError } from './page-error.ts'

const FLOW_S = 600
const START = '/live/overview'
/** The pages to return to; no other address is ever a target. */
const BACK = /^\/(live|test)\/[a-z-]{1,20}$/

/**
 * Sign-in by links and through the provider, sign-out, and the redirect from `/`. Cookies of this
 * page are SameSite=Strict, so browsers do not send them when the provider redirects to `callback`.
 * That page goes on to `complete` by itself, which is a navigation within this site.
 */
export function signInRoutes (deps: PageDeps): readonly RouteOptions[] {
  const get = (
    url: string, handler: (request: FastifyRequest, reply: FastifyReply) => unknown
  ): RouteOptions => ({ method: 'GET', url, config: { access: 'everybody' }, handler })
  return [
    get('/', async (request, reply) => {
      const visitor = await findVisitor(deps, request)
      return reply.redirect(visitor ? startPath(visitor.session.subject) : '/sign-in', 303)
    }),
    get('/sign-in', (request, reply) => sendHtml(reply, signInView({
      notice: findNotice(request.query as Pick<Visit, 'notice'>),
      hasProvider: deps.identityProvider !== undefined,
      supportUrl: deps.supportUrl,
    }))),
    get('/sign-in/link', (_request, reply) => sendHtml(reply, confirmSignInView())),
    {
      method: 'POST',
      url: '/sign-in',
      // Recorded once the code of the link is known.
      config: { access: 'everybody', records: null },
      handler: async (request, reply) => {
        const subject = await deps.signInCodes.redeem(field(request, 'code'))
        if (subject === undefined) return reply.redirect('/sign-in?notice=link-spent', 303)
        await startSession(deps, { request, reply }, { subject })
        return reply.redirect(startPath(subject), 303)
      },
    },
    {
      method: 'POST',
      url: '/sign-out',
      config: { access: 'signed-in', records: 'session.ended' },
      handler: async (request, reply) => {
        await endSession(deps, request, reply)
        return reply.redirect('/sign-in?notice=left', 303)
      },
    },
    get('/sign-in/start', async (request, reply) => {
      const { back, again } = request.query as Readonly<Record<string, unknown>>
      const { url, flow } = await fromProvider(deps, request, provider =>
        provider.start({ back: returnPath(back), again: again === 'yes' }))
      const value = Buffer.from(JSON.stringify(flow)).toString('base64url')
      setCookie('sign-in', { request, reply }, value, FLOW_S)
      return reply.redirect(url, 303)
    }),
    get('/sign-in/callback', (request, reply) =>
      sendHtml(reply, returningView(readQuery(request)))),
    get('/sign-in/complete', (request, reply) => completeSignIn(deps, request, reply)),
  ]
}

type Received = { readonly request: FastifyRequest, readonly reply: FastifyReply }
type NewSession = { readonly subject: SignedIn, readonly authenticatedAtMs?: number }

/**
 * Ends the session that a browser has and starts another one, with a new id.
 * @throws PageError when the organization was erased.
 */
export async function startSession (
  { sessions, accessLog, organizations }: PageDeps,
  { request, reply }: Received,
  { subject, authenticatedAtMs }: NewSession
): Promise<void> {
  await sessions.end(sessionIdIn(request))
  if (subject.kind === 'customer' && await organizations.isErased(subject.orgId)) {
    throw new PageError('organization_erased')
  }
  const { id, session } = await sessions.create(subject, authenticatedAtMs)
  // A session whose id is in no cookie yet is of no use.
  await accessLog.append({
    ...toRequester({ id, session }), action: 'session.started', address: request.clientAddress,
  })
  setCookie('session', { request, reply }, id)
}

/** Sets a cookie that scripts cannot read and other sites do not cause to be sent. */
function setCookie (
  name: CookieName, { request: { isHttps }, reply }: Received, value: string, maxAge?: number
): void {
  reply.setCookie(cookieName(name, isHttps), value, {
    httpOnly: true,
    sameSite: 'strict',
    secure: isHttps,
    path: '/',
    maxAge,
  })
}

/** Ends the session of a browser and removes its cookie. */
export async function endSession (
  { sessions }: PageDeps, request: FastifyRequest, reply: FastifyReply
): Promise<void> {
  await sessions.end(sessionIdIn(request))
  for (const isHttps of [true, false]) {
    reply.clearCookie(cookieName('session', isHttps), { path: '/', secure: isHttps })
  }
}

async function completeSignIn (
  deps: PageDeps, request: FastifyRequest, reply: FastifyReply
): Promise<FastifyReply> {
  const flow = readFlow(request)
  // Each flow completes once, successful or not.
  setCookie('sign-in', { request, reply }, '', 0)
  if (flow === undefined) throw new PageError('sign_in_failed')
  const { identity, authenticatedAtMs } = await fromProvider(deps, request, provider =>
    provider.complete(readQuery(request), flow))
  const memberships = await deps.people.membershipsOf(identity)
  const before = (await findVisitor(deps, request))?.session.subject
  const current = memberships.find(({ orgId }) =>
    before?.kind === 'customer' && before.orgId === orgId)
  const membership = current ?? memberships[0]
  if (membership === undefined) {
    throw new PageError('not_a_member', identity.email === ''
      ? 'The sign-in provider does not confirm your e-mail address, which the first sign-in ' +
        'needs. Have it verified there, then sign in again.'
      : `${identity.email} is not a member of an organization here, or belongs to another ` +
        'account at the sign-in provider. Ask an owner of your organization, or the operator of ' +
        'this installation.')
  }
  await startSession(deps, { request, reply }, {
    subject: toSubject(membership), authenticatedAtMs,
  })
  const isChosen = current !== undefined || memberships.length === 1
  return reply.redirect(isChosen ? returnPath(flow.back) : '/live/account', 303)
}

/** The subject of a session of a member. */
export function toSubject ({ orgId, person: { id, generation } }: Membership) {
  return { kind: 'customer', orgId, person: { id, generation } } as const
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

const readQuery = ({ url }: FastifyRequest) => new URL(url, 'http://page').searchParams

const returnPath = (back: unknown) => BACK.test(String(back)) ? String(back) : START

/** The flow that this browser has started; undefined without one. */
function readFlow ({ cookies, isHttps }: FastifyRequest): SignInFlow | undefined {
  const text = Buffer.from(cookies[cookieName('sign-in', isHttps)] ?? '', 'base64url').toString()
  try {
    const { state, nonce, verifier, back, again } = JSON.parse(text) as Record<string, unknown>
    return {
      state: String(state),
      nonce: String(nonce),
      verifier: String(verifier),
      back: returnPath(back),
      again: again === true,
    }
  } catch {
    return undefined
  }
}

function startPath (subject: SignedIn): string {
  return subject.kind === 'operator' ? '/pipeline' : START
}

type SignInOptions = {
  readonly notice: Html | undefined
  readonly hasProvider: boolean
  readonly supportUrl: string
}

/** Offers the sign-in through the provider, if there is one, and explains links. */
function signInView ({ notice, hasProvider, supportUrl }: SignInOptions): Html {
  return plainPage({
    title: 'Sign in',
    body: html`
      <div class="narrow">
        <h1>Sign in</h1>
        ${notice}
        ${hasProvider
          ? html`<p><a class="button" href="/sign-in/start">Sign in</a></p>
            <details><summary>Sign in with a link</summary>${linkHelp(supportUrl)}</details>`
          : linkHelp(supportUrl)}
      </div>`,
  })
}

/** How customers get a link; operators find the command in the documentation. */
function linkHelp (supportUrl: string): Html {
  return html`
    <p>You sign in with a personal link. It works once, in one browser, within ten minutes.</p>
    <p>${supportUrl === ''
      ? 'Your contact at the service sends you one.'
      : html`<a class="button quiet" href="${supportUrl}">Ask for a link</a>`}</p>`
}

/**
 * The page of a sign-in link. A script reads the code behind the # and only the button submits it,
 * so that a preview of the link does not use it up.
 */
function confirmSignInView (): Html {
  return plainPage({
    title: 'Sign in',
    scripts: ['sign-in.js'],
    body: html`
      <div class="narrow">
        <h1>Sign in</h1>
        <p>This link signs this browser in. It works once.</p>
        <form method="post" action="/sign-in">
          <input type="hidden" name="code" value="">
          <button class="button" type="submit" autofocus>Sign in</button>
        </form>
        <noscript><p>This page needs JavaScript to read the code of the link.</p></noscript>
      </div>`,
  })
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
