import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { type CreateJobBody, UUID_V4_PATTERN } from '../../schemas/api/create-job.ts'
import { API_VERSION } from '../../schemas/api/parts.ts'
import {
  type Caller, hashSecret, hasScope, isWellFormed, type KeyLookup, type Scope, scopesThatAllow,
} from '../accounts/api-keys.ts'
import { bodyHeaderError, takesBody } from './body.ts'
import type { Settings } from './config.ts'
import type { IngestDeps } from './deps.ts'
import { type ApiError, ApiException } from './errors.ts'
import { rateLimitHeaders } from './limits/limiter.ts'
import { accepts } from './response.ts'
import {
  createHttpsRule, PROTECTIVE_HEADERS, type PublicLimit,
} from '../runtime/platform/http-server.ts'
import { retryAfterSeconds } from '../runtime/platform/limits.ts'
import { clientNetwork } from '../runtime/platform/networks.ts'
import { sleep } from '../runtime/platform/retry.ts'
import { chooseLane } from '../runtime/platform/topics.ts'
import type { Lane } from '../topology.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The caller; undefined on public routes. */
    caller: Caller | undefined
  }
}

/** RFC 6797: for a year browsers use HTTPS only. */
const HSTS = { 'strict-transport-security': 'max-age=31536000' }

type Rules = Pick<Settings, 'trustedProxies'> & { readonly limit: PublicLimit }

/** All checks before the body is read, in one place for all routes. */
export function guardRoutes (
  app: FastifyInstance, deps: IngestDeps, { trustedProxies, limit }: Rules
): void {
  const readArrival = createHttpsRule(trustedProxies)
  const listMethods = collectMethods(app)
  const keys = new KeyGuard(deps)
  refreshLimitHeaders(app, deps)
  app.decorateRequest('caller', undefined)
  limitPublicRequests(app, limit)

  app.addHook('onRequest', async (request, reply) => {
    setCommonHeaders(reply)
    const { scope, produces = 'application/json' } = request.routeOptions.config
    const arrival = readArrival(request.raw)
    if (arrival === 'refused') throw new ApiException({ code: 'https_required' })
    if (arrival === 'https') reply.headers(HSTS)
    if (request.is404) {
      // A key counts where it is valid; the answer is the same with any key and during an outage.
      request.caller = await authenticate(request, keys).catch(() => undefined)
      if (request.caller === undefined) requirePublicLimit(request, reply, limit)
      else await applyLimits(deps, request, reply)
      return answerUnroutable(request, reply, listMethods(request))
    }
    if (scope !== undefined) {
      request.caller = await authenticate(request, keys).catch(error => {
        requirePublicLimit(request, reply, limit)
        throw error
      })
      await applyLimits(deps, request, reply)
      requireScopes(request.caller, [scope].flat())
    }
    const available = [produces].flat()
    if (!available.some(it => accepts(request.headers.accept, it))) {
      throw new ApiException({ code: 'not_acceptable', more: { available } })
    }
    const fault = takesBody(request) ? bodyHeaderError(request) : undefined
    if (fault !== undefined) throw fault
  })
}

/** The caller of a route with a scope; its absence would be a route without guard. */
export function requireCaller (request: FastifyRequest): Caller {
  if (request.caller === undefined) throw new Error('The route has no scope, so it has no caller.')
  return request.caller
}

/** Whether the key of a request that lasts may still be used; it can be revoked meanwhile. */
export async function isKeyValid (
  request: FastifyRequest, { findKey }: IngestDeps
): Promise<boolean> {
  return (await findKey(readSecret(request), request.clientAddress)).kind === 'ok'
}

/** Headers of every response, even to an invalid request. */
export function setCommonHeaders (reply: FastifyReply): void {
  reply.headers({
    'x-request-id': reply.request.id,
    'api-version': API_VERSION,
    ...PROTECTIVE_HEADERS,
  })
}

/** Far above what clients and proxies send. */
const MAX_HEADERS = 200

/** A path, or an absolute URL, of which only the path is used. */
const ADDRESS = /^(\/|https?:\/\/)/i

/**
 * Rejects requests that two servers in a row could parse differently, and requests that Node would
 * reject without a body, before all other checks. Closes a connection after its maximum number of
 * requests; pipelined requests beyond it are not executed.
 */
export function checkRequestSmuggling (app: FastifyInstance, mostRequests: number): void {
  const requests = new WeakMap<Socket, number>()
  app.addHook('onRequest', async ({ raw }, reply) => {
    const count = (requests.get(raw.socket) ?? 0) + 1
    requests.set(raw.socket, count)
    if (count >= mostRequests) reply.header('connection', 'close')
    const fault = smugglingFault(raw) ??
      (count > mostRequests ? { code: 'temporarily_unavailable' } : undefined)
    if (fault === undefined) return
    setCommonHeaders(reply)
    throw new ApiException(fault)
  })
}

function smugglingFault (raw: IncomingMessage): ApiError | undefined {
  const names = raw.rawHeaders.filter((_text, index) => index % 2 === 0)
  if (names.length > MAX_HEADERS) {
    const message = `The request has more than ${MAX_HEADERS} headers. Send fewer.`
    return { code: 'headers_too_large', message }
  }
  const hosts = names.filter(name => name.toLowerCase() === 'host').length
  // HTTP/1.0 has no such header.
  if (hosts > 1 || (hosts === 0 && raw.httpVersion === '1.1')) {
    return { code: 'invalid_request', param: 'Host', message: 'Send exactly one Host header.' }
  }
  if (!ADDRESS.test(raw.url ?? '')) return { code: 'not_found' }
  const coding = raw.headers['transfer-encoding']
  if (coding === undefined) return undefined
  if (raw.httpVersion === '1.1' && coding.trim().toLowerCase() === 'chunked') return undefined
  return {
    code: 'invalid_request',
    param: 'Transfer-Encoding',
    message: 'Transfer-Encoding can only be chunked, over HTTP/1.1.',
  }
}

/** Longer than any key; a longer header is rejected without being parsed. */
const MAX_HEADER_CHARACTERS = 256

/**
 * The caller of a request.
 * @throws ApiException for an invalid key. Every well-formed key costs the same, one hash and one
 * lookup by that hash, so the response time reveals nothing about existing keys.
 */
async function authenticate (request: FastifyRequest, keys: KeyGuard): Promise<Caller> {
  const { clientAddress: address } = request
  const lookup = await keys.find(readSecret(request), address)
  switch (lookup.kind) {
    case 'ok': return lookup.key
    case 'throttled': throw new ApiException({
      code: 'rate_limited',
      message: 'Too many requests with unknown API keys came from this address. Check the key, ' +
        'and wait at least the seconds in Retry-After.',
      retryAfterSeconds: lookup.retryAfterSeconds,
    })
    case 'foreign_address': throw new ApiException({
      code: 'address_not_allowed',
      message: `The API key may not be used from the address ${address}. Send the request from ` +
        'one of its networks, or add this one to a new key in the workspace.',
    })
    default: throw new ApiException({ code: `${lookup.kind}_key` })
  }
}

/** The bearer secret, '' without one; a request with two Authorization headers is malformed. */
function readSecret (request: FastifyRequest): string {
  const names = request.raw.rawHeaders.filter((_text, index) => index % 2 === 0)
  const sent = names.filter(name => name.toLowerCase() === 'authorization').length
  const header = request.headers.authorization ?? ''
  if (header === '') return ''
  if (sent > 1 || header.length > MAX_HEADER_CHARACTERS) return 'malformed'
  return /^Bearer +(\S+)$/i.exec(header)?.[1] ?? 'malformed'
}

const UUID_V4 = new RegExp(UUID_V4_PATTERN)

/** The key in lower case, '' without the header, undefined if it is not a UUID v4. */
export function readIdempotencyKey (
  header: string | readonly string[] | undefined
): string | undefined {
  if (header === undefined) return ''
  const key = typeof header === 'string' ? header.toLowerCase() : ''
  return UUID_V4.test(key) ? key : undefined
}

/** @throws ApiException if the key lacks a scope. */
function requireScopes (caller: Caller, scopes: readonly Scope[]): void {
  const missing = scopes.find(scope => !hasScope(caller.scopes, scope))
  if (missing === undefined) return
  throw new ApiException({
    code: 'insufficient_scope',
    message: `The API key lacks the scope ${scopesThatAllow(missing).join(' or ')}. Use a key ` +
      'that has it.',
  })
}

const WINDOW_MS = 60_000
/** A client with more unknown keys guesses them. */
const MAX_UNKNOWN = 60
/** Maximum numbers of tracked clients and keys; the least recently used are forgotten. */
const REMEMBERED = { clients: 50_000, keys: 10_000 } as const
/** Distinguishes the unknown keys of a client. */
const DIGEST_CHARACTERS = 12
/** How long the keys of throttled clients are gathered for one read of Redis. */
const GATHER_MS = 50
/** Maximum number of keys of such a read; those above it are refused. */
const MAX_GATHERED = 1_000

/** Reads the clock at each use, without a timer. */
const CLOCK = { perf: { now: () => performance.now() }, ttlResolution: 0 }

/** The unknown keys that a client has sent, and how often it sent one of them. */
type UnknownKeys = { readonly digests: readonly number[], readonly requests: number }

const NONE: UnknownKeys = { digests: [], requests: 0 }

/**
 * Looks up keys and limits the unknown well-formed ones of each client per minute, because each
 * lookup costs a read of Redis: 60 different keys, and 60 requests with keys that it repeats. A
 * program with a wrong key so affects no other user of its address. Above 60 different keys only
 * those are looked up that this process has found valid, or that exist: that is read for the keys
 * of all such clients at once, a bounded number of times a second. So nobody who guesses keys makes
 * a new customer of the same address wait.
 */
class KeyGuard {
  readonly #deps: IngestDeps
  readonly #unknown = new LRUCache<string, UnknownKeys>({
    max: REMEMBERED.clients, ttl: WINDOW_MS, noUpdateTTL: true, ...CLOCK,
  })

  /** Keys that were valid at their last lookup. */
  readonly #valid = new LRUCache<string, true>({ max: REMEMBERED.keys })

  /** The keys that are gathered now; undefined if there are none. */
  #gathered: { readonly hashes: Set<string>, readonly existing: Promise<ReadonlySet<string>> } |
    undefined

  constructor (deps: IngestDeps) {
    this.#deps = deps
  }

  /** The result of a lookup, or how long the client must wait before its next one. */
  async find (secret: string, address: string): Promise<KeyLookup | {
    readonly kind: 'throttled', readonly retryAfterSeconds: number
  }> {
    const { findKey } = this.#deps
    if (!isWellFormed(secret)) return await findKey(secret, address)
    const client = clientNetwork(address)
    const hash = hashSecret(secret)
    const digest = Number.parseInt(hash.slice(0, DIGEST_CHARACTERS), 16)
    if (this.#isThrottled(client, digest) && !this.#valid.has(hash) && !await this.#exists(hash)) {
      const leftMs = this.#unknown.getRemainingTTL(client)
      return { kind: 'throttled', retryAfterSeconds: Math.max(1, Math.ceil(leftMs / 1_000)) }
    }
    const lookup = await findKey(secret, address)
    if (lookup.kind === 'ok') this.#valid.set(hash, true)
    else if (lookup.kind !== 'foreign_address') this.#valid.delete(hash)
    if (lookup.kind === 'invalid') this.#count(client, digest)
    return lookup
  }

  #isThrottled (client: string, digest: number): boolean {
    const { digests, requests } = this.#unknown.get(client) ?? NONE
    return digests.length >= MAX_UNKNOWN || (requests >= MAX_UNKNOWN && digests.includes(digest))
  }

  async #exists (hash: string): Promise<boolean> {
    const { hashes, existing } = this.#gathered ??= this.#gather()
    if (hashes.size >= MAX_GATHERED && !hashes.has(hash)) return false
    hashes.add(hash)
    return (await existing).has(hash)
  }

  #gather () {
    const hashes = new Set<string>()
    const find = async () => {
      await sleep(GATHER_MS)
      this.#gathered = undefined
      return await this.#deps.findExistingKeys([...hashes])
    }
    return { hashes, existing: find() }
  }

  #count (client: string, digest: number): void {
    const { digests, requests } = this.#unknown.get(client) ?? NONE
    this.#unknown.set(client, {
      digests: digests.includes(digest) ? digests : [...digests, digest], requests: requests + 1,
    })
  }
}

/**
 * Applies the rate limits of the caller's organization: GET and HEAD by the limit of reads, all
 * others by that of POST. Adds the rate-limit headers to the response.
 * @throws ApiException when a limit is reached.
 */
async function applyLimits (
  { limiter }: IngestDeps, request: FastifyRequest, reply: FastifyReply
): Promise<void> {
  const kind = ['GET', 'HEAD'].includes(request.method) ? 'get' : 'post'
  const { kind: answer, levels } = await limiter.admit({ org: requireCaller(request).org, kind })
  reply.headers({ ...rateLimitHeaders(levels), 'retry-after': '0' })
  if (answer === 'throttled') {
    throw new ApiException({ code: 'rate_limited', retryAfterSeconds: retryAfterSeconds(levels) })
  }
}

/**
 * A preflight takes up to `ACCEPT_WITHIN_MS` and as long in the queue before it, so its answer
 * reads the limits again: those of its beginning are no longer true.
 */
function refreshLimitHeaders (app: FastifyInstance, { limiter }: IngestDeps): void {
  app.addHook('onSend', async (request, reply) => {
    if (request.routeOptions.config.preflight === undefined) return
    if (!reply.hasHeader('ratelimit-limit')) return
    const { org } = requireCaller(request)
    reply.headers(rateLimitHeaders(await limiter.levels({ org, kind: 'post' })))
  })
}

/**
 * Limits requests without a valid key. One that may have a key is counted if it turns out to have
 * none: a customer is served behind any address.
 */
function limitPublicRequests (app: FastifyInstance, limit: PublicLimit): void {
  const counted = new WeakSet<FastifyRequest>()
  app.addHook('onRequest', async (request, reply) => {
    const { routeOptions: { config }, headers, is404 } = request
    const mayHaveCaller = is404 || config.scope !== undefined
    if (mayHaveCaller && headers.authorization !== undefined) return
    counted.add(request)
    const waitSeconds = limit.take(request.clientAddress)
    if (waitSeconds > 0) refusePublic(reply, waitSeconds)
  })
  app.addHook('onSend', async (request, _reply, payload) => {
    if (request.caller !== undefined) return
    if (!counted.has(request)) limit.take(request.clientAddress)
    const bytes = typeof payload === 'string' || Buffer.isBuffer(payload) ? payload.length : 0
    limit.addBytes(request.clientAddress, bytes)
  })
}

/** Refuses a request that has turned out to have no valid key if its client may send none now. */
function requirePublicLimit (
  { clientAddress }: FastifyRequest, reply: FastifyReply, limit: PublicLimit
): void {
  const waitSeconds = limit.waitSeconds(clientAddress)
  if (waitSeconds > 0) refusePublic(reply, waitSeconds)
}

/** Closes the connection as well, so that what is pipelined behind costs nothing. */
function refusePublic (reply: FastifyReply, waitSeconds: number): never {
  setCommonHeaders(reply)
  reply.header('connection', 'close')
  throw new ApiException(publicLimitError(waitSeconds))
}

/** The error for a request without a valid key above the limit of its client, or of all. */
export function publicLimitError (retryAfterSeconds: number): ApiError {
  return {
    code: 'rate_limited',
    message: 'Too many requests without a valid API key came from this address. Wait at least ' +
      'the seconds in Retry-After.',
    retryAfterSeconds,
  }
}

/** Collects all routes, to distinguish a wrong method from a wrong path. */
function collectMethods (app: FastifyInstance): (request: FastifyRequest) => readonly string[] {
  const routes: { readonly pattern: RegExp, readonly method: string }[] = []
  app.addHook('onRoute', ({ method, url }) => {
    const pattern = new RegExp(`^${url.replace(/:[^/]+/g, '[^/]+').replaceAll('.', '\\.')}/?$`)
    routes.push(...[method].flat().map(name => ({ pattern, method: name })))
  })
  return request => {
    const path = request.url.split('?')[0] ?? ''
    return routes.filter(route => route.pattern.test(path)).map(route => route.method)
  }
}

/** Responds to OPTIONS of an existing path; throws the error for all other requests. */
function answerUnroutable (
  request: FastifyRequest, reply: FastifyReply, methods: readonly string[]
): FastifyReply {
  if (methods.length === 0) throw new ApiException({ code: 'not_found' })
  const allow = [...methods, 'OPTIONS'].join(', ')
  if (request.method === 'OPTIONS') return reply.code(204).header('allow', allow).send()
  throw new ApiException({ code: 'method_not_allowed', headers: { allow } })
}

/** A crashed consumer is replaced within this time. */
const RETRY_AFTER_SECONDS = 10

const OVERLOADED = {
  small: 'Jobs of up to 1,000 inputs wait too long for their preflight now.',
  bulk: 'Jobs of more than 1,000 inputs wait too long for their preflight now.',
  any: 'Jobs wait too long for their preflight now.',
} as const

/**
 * Rejects requests under overload: before the body is read if both lanes are overloaded, or after
 * it if its lane is. Nothing is claimed or reserved by then. Retries of a request that has a job,
 * or waits for it, are admitted.
 */
export function shedLoad (app: FastifyInstance, { loadShedding }: IngestDeps): void {
  const refuse = async (request: FastifyRequest, lane?: Lane) => {
    const { tenant } = requireCaller(request)
    if (!loadShedding.rejects(tenant, lane)) return
    if (request.routeOptions.config.preflight === 'keyed') {
      const key = readIdempotencyKey(request.headers['idempotency-key']) ?? ''
      if (key !== '' && await loadShedding.isClaimed(tenant, key)) return
    }
    const name = lane ?? 'any'
    loadShedding.countRefusal(name)
    throw new ApiException({
      code: 'temporarily_unavailable',
      message: `${OVERLOADED[name]} Nothing was reserved. Send it again after the seconds in ` +
        'Retry-After.',
      retryAfterSeconds: RETRY_AFTER_SECONDS,
    })
  }
  const startsPreflight = ({ is404, routeOptions }: FastifyRequest) =>
    !is404 && routeOptions.config.preflight !== undefined
  app.addHook('onRequest', async request => {
    if (startsPreflight(request)) await refuse(request)
  })
  app.addHook('preHandler', async request => {
    if (!startsPreflight(request)) return
    await refuse(request, chooseLane((request.body as CreateJobBody).inputs.length))
  })
}
