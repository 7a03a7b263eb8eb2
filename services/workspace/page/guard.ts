import { timingSafeEqual } from 'node:crypto'
import cookies from '@fastify/cookie'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { createHttpsRule } from '../../platform/http-server.ts'
import { field, type PageDeps, type Visitor } from './context.ts'
import { PageError } from './page-error.ts'

type Rules = { readonly trustedProxies: readonly string[] }

/** Allows only scripts and styles that are files of the page. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'",
  "connect-src 'self'", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'",
].join('; ')

const HEADERS = {
  'content-security-policy': CONTENT_SECURITY_POLICY,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), microphone=(), geolocation=()',
  'cache-control': 'no-store',
}

const HTTPS_HEADERS = { 'strict-transport-security': 'max-age=31536000' }
const SAFE_METHODS: readonly string[] = ['GET', 'HEAD']
/** Scripts send the token of their session in this header. */
const TOKEN_HEADER = 'x-form-token'
const TOKEN_FIELD = 'form_token'

/**
 * Adds the checks that run before every route: HTTPS, response headers, session, access, and
 * cross-site request forgery.
 */
export function guardPages (app: FastifyInstance, deps: PageDeps, rules: Rules): void {
  const arrivalOf = createHttpsRule(rules.trustedProxies)
  app.register(cookies)
  app.decorateRequest('visitor', undefined)
  app.decorateRequest('isHttps', false)
  app.addHook('onRequest', async (request, reply) => {
    const arrival = arrivalOf(request.raw)
    request.isHttps = arrival === 'https'
    reply.headers(arrival === 'https' ? { ...HEADERS, ...HTTPS_HEADERS } : HEADERS)
    if (arrival === 'refused') throw new PageError('https_required')
    const { access } = request.routeOptions.config
    if (!SAFE_METHODS.includes(request.method)) rejectCrossSite(request)
    if (access === undefined) return
    request.visitor = await visitorOf(deps, request)
    if (request.visitor === undefined) throw new PageError('signed_out')
    const { kind } = request.visitor.session.subject
    if (access !== 'any' && access !== kind) throw new PageError('not_found')
    // Scripts send the token in a header, so a large body is not read without a valid token.
    if (request.routeOptions.config.forScript === true) requireToken(request)
  })
  app.addHook('preHandler', async request => requireToken(request))
}

/** Rejects a form or script request without the token of the session, which no other site knows. */
function requireToken (request: FastifyRequest): void {
  if (SAFE_METHODS.includes(request.method) || request.visitor === undefined) return
  const given = request.headers[TOKEN_HEADER] ?? field(request, TOKEN_FIELD)
  if (!isSame(String(given), request.visitor.session.token)) throw new PageError('forged_request')
}

/**
 * The name of the session cookie. Over HTTPS its prefix makes browsers accept it only from this
 * host over HTTPS.
 */
export function cookieName (isHttps: boolean): string {
  return isHttps ? '__Host-session' : 'session'
}

/**
 * The session id in the cookie of a request; '' when there is none. Over HTTPS only the cookie with
 * the prefix counts: another host or a plain connection can set the other cookie.
 */
export function sessionIdIn (request: FastifyRequest): string {
  return request.cookies[cookieName(request.isHttps)] ?? ''
}

/** The signed-in browser that sent a request; undefined when its session does not exist. */
export async function visitorOf (
  { sessions }: Pick<PageDeps, 'sessions'>, request: FastifyRequest
): Promise<Visitor | undefined> {
  const id = sessionIdIn(request)
  const session = id === '' ? undefined : await sessions.find(id)
  return session === undefined ? undefined : { id, session }
}

/** Rejects a request from another site, by the headers that browsers add. */
function rejectCrossSite ({ headers }: FastifyRequest): void {
  const site = headers['sec-fetch-site']
  if (site !== undefined && site !== 'same-origin') throw new PageError('forged_request')
  if (headers.origin === undefined && site === undefined) throw new PageError('forged_request')
  if (headers.origin !== undefined && hostOf(headers.origin) !== headers.host) {
    throw new PageError('forged_request')
  }
}

function hostOf (origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined
}

function isSame (given: string, expected: string): boolean {
  const [one, other] = [Buffer.from(given), Buffer.from(expected)]
  return one.length === other.length && timingSafeEqual(one, other)
}
