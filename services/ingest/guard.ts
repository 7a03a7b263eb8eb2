import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { API_VERSION } from '../../schemas/api/root.ts'
import type { Caller } from '../accounts/api-keys.ts'
import type { Scope } from '../accounts/key-store.ts'
import { createHttpsRule, type PublicLimit } from '../runtime/platform/http-server.ts'
import { retryAfterSeconds } from '../runtime/platform/limits.ts'
import { authenticate, requireScopes, createKeyGuard } from './authenticate.ts'
import { ApiException, type ApiError } from './errors.ts'
import { bodyHeaderError } from './json-body.ts'
import { type Limiter, rateLimitHeaders } from './limits/limiter.ts'
import { accepts } from './negotiation.ts'
import type { IngestDeps } from './ports.ts'
import { traceRequests } from './request-spans.ts'
import type { Settings } from './config.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The required scope, or several; a route without one is public. */
    readonly scope?: Scope | readonly Scope[]
    /** Media types of the response; the handler chooses between several. */
    readonly produces?: string | readonly string[]
    readonly takesBody?: boolean
  }
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
  const requireHttps = createHttpsCheck(trustedProxies)
  const methodsOf = collectMethods(app)
  const applyLimits = createLimitRule(deps.limiter)
  app.addHook('onSend', createLimitHeaders(deps.limiter))
  const findKey = createKeyGuard(deps.findKey)
  app.decorateRequest('caller', undefined)
  traceRequests(app)
  limitPublicRequests(app, limit)

  app.addHook('onRequest', async (request, reply) => {
    setCommonHeaders(reply)
    const { scope, produces, takesBody } = request.routeOptions.config
    requireHttps(request, reply)
    if (request.is404) {
      // A key counts where it is valid; the answer is the same with any key and during an outage.
      request.caller = await authenticate(request, findKey).catch(() => undefined)
      if (request.caller === undefined) requirePublicLimit(request, reply, limit)
      else await applyLimits(request, reply, request.caller.org)
      return answerUnroutable(request, reply, methodsOf(request))
    }
    if (scope !== undefined) {
      request.caller = await authenticate(request, findKey).catch(error => {
        requirePublicLimit(request, reply, limit)
        throw error
      })
      await applyLimits(request, reply, request.caller.org)
      requireScopes(request.caller, [scope].flat())
    }
    const available = produces === undefined ? [] : [produces].flat()
    if (produces !== undefined && !available.some(it => accepts(request.headers.accept, it))) {
      throw new ApiException({ code: 'not_acceptable', more: { available } })
    }
    const fault = takesBody === true ? bodyHeaderError(request) : undefined
    if (fault !== undefined) throw fault
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

/**
 * Creates the check that a request came over HTTPS, or from this machine. Every response over HTTPS
 * has the HSTS header.
 */
export function createHttpsCheck (trustedProxies: readonly string[]) {
  const arrivalOf = createHttpsRule(trustedProxies)

  return function requireHttps (request: FastifyRequest, reply: FastifyReply): void {
    const arrival = arrivalOf(request.raw)
    if (arrival === 'refused') throw new ApiException({ code: 'https_required' })
    if (arrival === 'https') reply.headers(HSTS)
  }
}

/**
 * Applies the rate limits of an organization: GET and HEAD by the limit of reads, all others by
 * that of POST. Adds the rate-limit headers to the response.
 * @throws ApiException when a limit is reached.
 */
function createLimitRule (limiter: Pick<Limiter, 'admit'>) {
  return async (request: FastifyRequest, reply: FastifyReply, org: string): Promise<void> => {
    const kind = ['GET', 'HEAD'].includes(request.method) ? 'get' : 'post'
    const { kind: answer, levels } = await limiter.admit({ org, kind })
    reply.headers({ ...rateLimitHeaders(levels), 'retry-after': '0' })
    if (answer === 'throttled') {
      throw new ApiException({ code: 'rate_limited', retryAfterSeconds: retryAfterSeconds(levels) })
    }
  }
}

/**
 * A preflight takes up to `ACCEPT_WITHIN_MS` and as long in the queue before it, so its answer
 * reads the limits again: those of its beginning are no longer true.
 */
function createLimitHeaders (limiter: Pick<Limiter, 'levels'>) {
  return async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    if (request.routeOptions.config.preflight === undefined) return
    if (!reply.hasHeader('ratelimit-limit')) return
    const { org } = callerOf(request)
    reply.headers(rateLimitHeaders(await limiter.levels({ org, kind: 'post' })))
  }
}

/** The caller of a route with a scope; its absence would be a route without guard. */
export function callerOf (request: FastifyRequest): Caller {
  if (request.caller === undefined) throw new Error('The route has no scope, so it has no caller.')
  return request.caller
}

/** Headers of every response, even to an invalid request. */
export function setCommonHeaders (reply: FastifyReply): void {
  reply.headers({
    'x-request-id': reply.request.id,
    'api-version': API_VERSION,
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  })
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
