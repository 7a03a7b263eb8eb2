import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { requesterOf } from './access.ts'
import { field, type PageDeps } from './context.ts'
import { cookieName, sessionIdIn, visitorOf } from './guard.ts'
import { html, type Html } from './html.ts'
import { noticeOf, plainPage, sendHtml } from './layout.ts'
import { PageError } from './page-error.ts'
import type { SignedIn } from '../accounts/sessions.ts'

/** Sign-in by links, sign-out, and the redirect from `/`. */
export function linkSignInRoutes (deps: PageDeps): readonly RouteOptions[] {
  return [
    {
      method: 'GET',
      url: '/',
      config: { access: 'everybody' },
      handler: async (request, reply) => {
        const visitor = await visitorOf(deps, request)
        return reply.redirect(visitor ? startPathOf(visitor.session.subject) : '/sign-in', 303)
      },
    },
    {
      method: 'GET',
      url: '/sign-in',
      config: { access: 'everybody' },
      handler: (request, reply) => sendHtml(reply, signInView({
        notice: noticeOf(request), hasProvider: deps.identityProvider !== undefined,
      })),
    },
    {
      method: 'GET',
      url: '/sign-in/link',
      config: { access: 'everybody' },
      handler: (_request, reply) => sendHtml(reply, confirmSignInView()),
    },
    {
      method: 'POST',
      url: '/sign-in',
      // Recorded once the code of the link is known.
      config: { access: 'everybody', records: null },
      handler: (request, reply) => signIn(deps, request, reply),
    },
    {
      method: 'POST',
      url: '/sign-out',
      config: { access: 'signed-in', records: 'session.ended' },
      handler: (request, reply) => signOut(deps, request, reply),
    },
  ]
}

async function signIn (
  deps: PageDeps, request: FastifyRequest, reply: FastifyReply
): Promise<FastifyReply> {
  const subject = await deps.signInCodes.redeem(field(request, 'code'))
  if (subject === undefined) return reply.redirect('/sign-in?notice=link-spent', 303)
  await startSession(deps, { request, reply }, { subject })
  return reply.redirect(startPathOf(subject), 303)
}

type NewSession = { readonly subject: SignedIn, readonly authenticatedAtMs?: number }

/**
 * Ends the session that a browser has and starts another one, with a new id.
 * @throws PageError when the organization was erased.
 */
export async function startSession (
  { sessions, accessLog, organizations }:
  Pick<PageDeps, 'sessions' | 'accessLog' | 'organizations'>,
  { request, reply }: { readonly request: FastifyRequest, readonly reply: FastifyReply },
  { subject, authenticatedAtMs }: NewSession
): Promise<void> {
  await sessions.end(sessionIdIn(request))
  if (subject.kind === 'customer' && await organizations.isErased(subject.orgId)) {
    throw new PageError('organization_erased')
  }
  const { id, session } = await sessions.create(subject, authenticatedAtMs)
  // A session whose id is in no cookie yet is of no use.
  await accessLog.append({
    ...requesterOf({ id, session }), action: 'session.started', address: request.clientAddress,
  })
  const { isHttps } = request
  reply.setCookie(cookieName(isHttps), id, {
    httpOnly: true, sameSite: 'strict', secure: isHttps, path: '/',
  })
}

async function signOut (
  deps: PageDeps, request: FastifyRequest, reply: FastifyReply
): Promise<FastifyReply> {
  await endSession(deps, request, reply)
  return reply.redirect('/sign-in?notice=left', 303)
}

/** Ends the session of a browser and removes its cookie. */
export async function endSession (
  { sessions }: Pick<PageDeps, 'sessions'>, request: FastifyRequest, reply: FastifyReply
): Promise<void> {
  await sessions.end(sessionIdIn(request))
  for (const isHttps of [true, false]) {
    reply.clearCookie(cookieName(isHttps), { path: '/', secure: isHttps })
  }
}

function startPathOf (subject: SignedIn): string {
  return subject.kind === 'operator' ? '/pipeline' : '/live/overview'
}

type SignInOptions = { readonly notice: Html | undefined, readonly hasProvider: boolean }

/** Offers the sign-in through the provider, if there is one, and explains links. */
export function signInView ({ notice, hasProvider }: SignInOptions): Html {
  return plainPage({
    title: 'Sign in',
    body: html`
      <div class="narrow">
        <h1>Sign in</h1>
        ${notice}
        ${hasProvider
          ? html`<p><a class="button" href="/sign-in/start">Sign in</a></p>
            <details><summary>Sign in with a link</summary>${linkHelp}</details>`
          : linkHelp}
      </div>`,
  })
}

const linkHelp = html`
  <p>A link signs in one browser, once, within ten minutes. Ask the operator of this installation
    for one. This command creates it:</p>
  <pre><code>npm run admin -- sign-in --org ORG_ID</code></pre>
  <p class="hint">Operators of the pipeline pass <code>--operator</code> instead of
    <code>--org ORG_ID</code>.</p>`

/**
 * The page of a sign-in link. A script reads the code behind the # and only the button submits it,
 * so that a preview of the link does not use it up.
 */
export function confirmSignInView (): Html {
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
