import { timingSafeEqual } from 'node:crypto'
import cookies from '@fastify/cookie'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { createHttpsRule } from '../../lib/https-rule.ts'
import { field, type PageParts, type Visitor } from './context.ts'
import { PageFault } from './page-fault.ts'

type Rules = { readonly trustedProxies: readonly string[] }

/** Nothing comes from elsewhere, nothing runs that is not a file of the page. */
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
const READING: readonly string[] = ['GET', 'HEAD']
/** The header that scripts send the token of their session in. */
const TOKEN_HEADER = 'x-form-token'
const TOKEN_FIELD = 'form_token'

/** Puts the rules before every route: HTTPS, headers, session, and no requests of other sites. */
export function guard (app: FastifyInstance, parts: PageParts, rules: Rules): void {
  const arrivalOf = createHttpsRule(rules.trustedProxies)
  app.register(cookies)
  app.decorateRequest('visitor', undefined)
  app.decorateRequest('isHttps', false)
  app.addHook('onRequest', async (request, reply) => {
    const arrival = arrivalOf(request.raw)
    request.isHttps = arrival === 'https'
    reply.headers(arrival === 'https' ? { ...HEADERS, ...HTTPS_HEADERS } : HEADERS)
    if (arrival === 'refused') throw new PageFault('https_required')
    const { access } = request.routeOptions.config
    if (!READING.includes(request.method)) refuseForeign(request)
    if (access === undefined) return
    request.visitor = await visitorOf(parts, request)
    if (request.visitor === undefined) throw new PageFault('signed_out')
    const { kind } = request.visitor.session.holder
    if (access !== 'anybody' && access !== kind) throw new PageFault('not_found')
    // Scripts send the token in a header, so that no byte of a large body is read without it.
    if (request.routeOptions.config.forScript === true) requireToken(request)
  })
  app.addHook('preHandler', async request => requireToken(request))
}

/** The token of the session, in a header or in the form: no other site can send it. */
function requireToken (request: FastifyRequest): void {
  if (READING.includes(request.method) || request.visitor === undefined) return
  const given = request.headers[TOKEN_HEADER] ?? field(request, TOKEN_FIELD)
  if (!isSame(String(given), request.visitor.session.token)) throw new PageFault('foreign')
}

/** The name of the cookie: browsers take the first one over HTTPS and from this host only. */
export function cookieName (isHttps: boolean): string {
  return isHttps ? '__Host-session' : 'session'
}

/**
 * The id of a session that a request carries; '' when it carries none. Over HTTPS only the cookie
 * with the prefix counts: any host beside this one and any plain connection can set the other.
 */
export function sessionIdIn (request: FastifyRequest): string {
  return request.cookies[cookieName(request.isHttps)] ?? ''
}

/** The signed-in browser a request comes from; undefined when it is not signed in. */
export async function visitorOf (
  { sessions }: Pick<PageParts, 'sessions'>, request: FastifyRequest
): Promise<Visitor | undefined> {
  const id = sessionIdIn(request)
  const session = id === '' ? undefined : await sessions.find(id)
  return session === undefined ? undefined : { id, session }
}

/** Browsers say where a request comes from; one that changes something comes from this page. */
function refuseForeign ({ headers }: FastifyRequest): void {
  const site = headers['sec-fetch-site']
  if (site !== undefined && site !== 'same-origin') throw new PageFault('foreign')
  if (headers.origin === undefined && site === undefined) throw new PageFault('foreign')
  if (headers.origin !== undefined && hostOf(headers.origin) !== headers.host) {
    throw new PageFault('foreign')
  }
}

function hostOf (origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined
}

function isSame (given: string, wanted: string): boolean {
  const [one, other] = [Buffer.from(given), Buffer.from(wanted)]
  return one.length === other.length && timingSafeEqual(one, other)
}
