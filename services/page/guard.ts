import { timingSafeEqual } from 'node:crypto'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import cookies from '@fastify/cookie'
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import {
  type AccessActor, type AccessLog, INSTALLATION, recordRequests, type Requester,
} from '../accounts/access-log/access-log.ts'
import { secretDigest, type Session } from '../accounts/sessions.ts'
import {
  createHttpsRule, PROTECTIVE_HEADERS, type PublicLimit, sendRawResponse,
} from '../runtime/platform/http-server.ts'
import { clientAddress, parseNetworks } from '../runtime/platform/networks.ts'
import {
  type Access, choicesIn, field, isPermission, isRecent, may, needsRecent, type PageDeps,
  visitorRole,
  rolesWith, type Visitor,
} from './context.ts'
import { stepUpPath } from './layout.ts'
import { PageError } from './page-error.ts'

type Rules = { readonly trustedProxies: readonly string[], readonly limit: PublicLimit }

/** Allows only scripts and styles that are files of the page. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'",
  "connect-src 'self'", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'",
].join('; ')

const HEADERS = {
  'content-security-policy': CONTENT_SECURITY_POLICY,
  'referrer-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), microphone=(), geolocation=()',
  ...PROTECTIVE_HEADERS,
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
  const checkArrival = createHttpsRule(rules.trustedProxies)
  // Node would answer these itself, or not at all.
  app.server.on('checkExpectation', (...exchange) => { app.server.emit('request', ...exchange) })
  app.server.on('connect', (_request, socket) => {
    sendText(socket, 405, 'This is a web page and no proxy.')
  })
  app.register(cookies)
  app.decorateRequest('visitor', undefined)
  app.decorateRequest('isHttps', false)
  app.addHook('onRoute', requireDefinition)
  app.addHook('onRequest', async (request, reply) => {
    const arrival = checkArrival(request.raw)
    request.isHttps = arrival === 'https'
    reply.headers(arrival === 'https' ? { ...HEADERS, ...HTTPS_HEADERS } : HEADERS)
    const { url, config } = request.routeOptions
    // requireDefinition has checked at the start that every route has an access.
    const access = url === undefined ? 'everybody' : config.access as Access
    const mayBeSignedIn = access !== 'everybody' && sessionIdIn(request) !== ''
    if (!mayBeSignedIn) countPublic(request, reply, rules.limit)
    if (arrival === 'refused') throw new PageError('https_required')
    if (access !== 'everybody') request.visitor = await findVisitor(deps, request)
    if (mayBeSignedIn && request.visitor === undefined) countPublic(request, reply, rules.limit)
    // After the visitor is known, in whose access log it is.
    if (!SAFE_METHODS.includes(request.method)) rejectCrossSite(request)
    if (access === 'everybody') return
    if (request.visitor === undefined) throw new PageError('signed_out')
    requireAccess(request, request.visitor, access)
    // Scripts send the token in a header, so a large body is not read without a valid token.
    if (request.routeOptions.config.forScript === true) requireToken(request)
  })
  app.addHook('preHandler', async request => requireToken(request))
  app.addHook('onSend', async ({ visitor, clientAddress }, _reply, payload) => {
    if (visitor !== undefined) return
    const bytes = typeof payload === 'string' || Buffer.isBuffer(payload) ? payload.length : 0
    rules.limit.addBytes(clientAddress, bytes)
  })
}

/** A route without its access or its log entry fails the start, not the request of a stranger. */
function requireDefinition ({ method, url, config }: RouteOptions): void {
  const name = `${String(method)} ${url}`
  if (config?.access === undefined) throw new Error(`route ${name} has no access in its config`)
  const onlyReads = SAFE_METHODS.includes(String(method)) && !url.endsWith('.csv')
  if (!onlyReads && config.records === undefined) {
    throw new Error(`route ${name} has no records in its config: an action, or null`)
  }
}

/** The error for a request with an invalid path, for which no hook runs. Sets its headers. */
export function guardBadPath (
  { raw }: FastifyRequest, reply: FastifyReply, { limit, trustedProxies }: Rules
): PageError {
  reply.headers(HEADERS)
  const address = clientAddress(raw, parseNetworks(trustedProxies, 'TRUSTED_PROXIES'))
  return publicError(address, reply, limit) ?? new PageError('not_found')
}

/** Responds directly on the socket to data that is no request. */
export function answerBadData (error: Error & { readonly code?: string }, socket: Socket): void {
  const { code = '' } = error
  // A client that reset the connection gets no response.
  if (code === 'ECONNRESET' || !socket.writable) socket.destroy()
  else sendText(socket, BAD_DATA[code] ?? 400, 'The request could not be read.')
}

function sendText (socket: Duplex, status: number, text: string): void {
  const headers = { ...HEADERS, 'content-type': 'text/plain; charset=utf-8' }
  sendRawResponse(socket, { status, headers, body: `${text}\n` })
}

const BAD_DATA: Readonly<Record<string, number>> = {
  ERR_HTTP_REQUEST_TIMEOUT: 408, HPE_CHUNK_EXTENSIONS_OVERFLOW: 413, HPE_HEADER_OVERFLOW: 431,
}

/**
 * Counts a request without a session; the error if its client may send none now. Closes the
 * connection then, so that what is pipelined behind costs nothing.
 */
function publicError (
  address: string, reply: FastifyReply, limit: PublicLimit
): PageError | undefined {
  const waitSeconds = limit.take(address)
  if (waitSeconds === 0) return undefined
  reply.headers({ 'retry-after': String(waitSeconds), connection: 'close' })
  return new PageError('too_many_requests')
}

function countPublic (request: FastifyRequest, reply: FastifyReply, limit: PublicLimit): void {
  const error = publicError(request.clientAddress, reply, limit)
  if (error !== undefined) throw error
}

/** Rejects a visitor who is of another kind, has another role, or authenticated long ago. */
function requireAccess (request: FastifyRequest, visitor: Visitor, access: Access): void {
  const { kind } = visitor.session.subject
  if (access === 'signed-in') return
  if (access === 'person' && visitor.person !== undefined) return
  if (access === 'operator' && kind === 'operator') return
  if (!isPermission(access) || kind !== 'customer') throw new PageError('not_found')
  if (!may(visitor, access)) {
    throw new PageError('forbidden', `This needs the role ${rolesWith(access)}; yours is ` +
      `${visitorRole(visitor)}. Ask an owner of your organization.`)
  }
  if (needsRecent(access) && !isRecent(visitor)) throw stepUpError(request, visitor)
}

function stepUpError ({ url }: FastifyRequest, { person }: Visitor): PageError {
  if (person === undefined) {
    return new PageError('step_up', 'Secrets and people can be changed for ten minutes after a ' +
      'link was used. Nothing was changed. Ask the operator of this installation for a new link.')
  }
  // The page with the form: the path of a form may have no page.
  const back = url.split(/[/?]/).slice(0, 3).join('/')
  return new PageError('step_up', 'Keys, secrets and people can be changed for five minutes ' +
    'after you signed in. Nothing was changed. Confirm who you are, then fill in the form again.',
  { path: stepUpPath(back), text: 'Confirm' })
}

/** Rejects a form or script request without the token of the session, which no other site knows. */
function requireToken (request: FastifyRequest): void {
  if (SAFE_METHODS.includes(request.method) || request.visitor === undefined) return
  const sent = Buffer.from(String(request.headers[TOKEN_HEADER] ?? field(request, TOKEN_FIELD)))
  const expected = Buffer.from(request.visitor.session.token)
  if (sent.length !== expected.length || !timingSafeEqual(sent, expected)) {
    throw new PageError('forged_request')
  }
}

export type CookieName = 'session' | 'sign-in'

/**
 * The name of a cookie in requests. Over HTTPS its prefix makes browsers accept it only from this
 * host over HTTPS.
 */
export function cookieName (name: CookieName, isHttps: boolean): string {
  return isHttps ? `__Host-${name}` : name
}

/**
 * The session id in the cookie of a request; '' when there is none. Over HTTPS only the cookie with
 * the prefix counts: another host or a plain connection can set the other cookie.
 */
export function sessionIdIn (request: FastifyRequest): string {
  return request.cookies[cookieName('session', request.isHttps)] ?? ''
}

/**
 * The signed-in browser that sent a request; undefined when its session does not exist, the person
 * was removed or signed out everywhere, or the organization was erased.
 */
export async function findVisitor (
  deps: PageDeps, request: FastifyRequest
): Promise<Visitor | undefined> {
  const id = sessionIdIn(request)
  const session = id === '' ? undefined : await deps.sessions.find(id)
  return session && await visitorIn(deps, id, session)
}

async function visitorIn (
  { people, organizations }: PageDeps, id: string, session: Session
): Promise<Visitor | undefined> {
  const { subject } = session
  if (subject.kind === 'operator') return { id, session }
  if (await organizations.isErased(subject.orgId)) return undefined
  if (subject.person === undefined) return { id, session }
  const person = await people.find(subject.orgId, subject.person.id)
  return person?.generation === subject.person.generation ? { id, session, person } : undefined
}

/** Whether a visitor is still signed in with the same role. Does not restart the idle time. */
export async function isStillSignedIn (deps: PageDeps, visitor: Visitor): Promise<boolean> {
  const { id, session } = visitor
  if (!await deps.sessions.exists(id)) return false
  const current = await visitorIn(deps, id, session)
  return current !== undefined && visitorRole(current) === visitorRole(visitor)
}

/** Rejects a request from another site, by the headers that browsers add. */
function rejectCrossSite ({ headers }: FastifyRequest): void {
  const site = headers['sec-fetch-site']
  if (site !== undefined && site !== 'same-origin') throw new PageError('forged_request')
  if (headers.origin === undefined && site === undefined) throw new PageError('forged_request')
  if (headers.origin !== undefined && URL.parse(headers.origin)?.host !== headers.host) {
    throw new PageError('forged_request')
  }
}

/** Records the requests of signed-in browsers in the access log, as their routes say. */
export function recordPageRequests (app: FastifyInstance, log: AccessLog): void {
  recordRequests(app, {
    log,
    isRefusal: error => error instanceof PageError && error.content.status === 403,
    requesterOf: request => {
      if (request.visitor === undefined) return undefined
      const { mode } = (request.params ?? {}) as { readonly mode?: string }
      const fields = RECORDED_FIELDS.map(name => [name, choicesIn(request, name)] as const)
        .filter(([, values]) => values.length > 0)
        .map(([name, values]) => [name, values.join(',')])
      const details = { ...mode !== undefined && { mode }, ...Object.fromEntries(fields) }
      return { ...toRequester(request.visitor), details }
    },
  })
}

/** Fields of forms that an entry repeats: no names, and no addresses of people and webhooks. */
const RECORDED_FIELDS = [
  'scope', 'networks', 'days', 'hours', 'role', 'enabled', 'event', 'usd', 'cache',
]

const SHOWN_DIGITS = 16

/**
 * Who is signed in, for the access log. A link names no person; the beginning of the digest of its
 * session names the browser.
 */
export function toRequester ({ id, session: { subject } }: Visitor): Requester {
  const isCustomer = subject.kind === 'customer'
  const person = isCustomer ? subject.person : undefined
  const actor: AccessActor = person === undefined
    ? { kind: 'link', id: secretDigest(id).slice(0, SHOWN_DIGITS) }
    : { kind: 'person', id: person.id }
  return { organization: isCustomer ? subject.orgId : INSTALLATION, actor }
}
