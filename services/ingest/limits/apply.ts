import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { FaultError, type Fault } from '../errors.ts'
import { readIdempotencyKey } from '../request.ts'
import type { Limiter, Preflight } from './limiter.ts'
import { retryAfterSeconds, standingHeaders } from './standing.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * The request starts a preflight, of which a tenant has only few under way; `keyed` when a
     * repetition with the same Idempotency-Key starts none.
     */
    readonly preflight?: 'keyed' | 'keyless'
  }
  interface FastifyRequest {
    /** Gives the place of a request back; undefined when it has none. */
    releasePlace: (() => void) | undefined
  }
}

const CROWDED: Fault = {
  code: 'concurrent_jobs_limit',
  message: 'Too many requests are waiting for their preflight. Nothing was reserved. Send it ' +
    'again when one of them is answered.',
  retryAfterSeconds: 1,
}

/**
 * Counts a request of a tenant before its body is read: GET and HEAD by the limit of reads, all
 * others by that of POST. Every answer from then on tells where the tenant stands. Throws the fault
 * to answer with when there is no room for the request.
 */
export function createLimitRule (app: FastifyInstance, limiter: Limiter) {
  app.decorateRequest('releasePlace', undefined)
  // Not when the connection closes: the preflight of a client that left is still under way.
  app.addHook('onSend', async request => {
    request.releasePlace?.()
    request.releasePlace = undefined
  })

  return async function applyLimits (
    request: FastifyRequest, reply: FastifyReply, tenant: string
  ): Promise<void> {
    const kind = ['GET', 'HEAD'].includes(request.method) ? 'get' : 'post'
    const admission = await limiter.admit({ tenant, kind, ...preflightOf(request) })
    const { levels } = admission
    reply.headers(standingHeaders(levels))
    if (admission.kind === 'admitted') request.releasePlace = admission.release
    if (admission.kind === 'crowded') throw new FaultError(CROWDED)
    if (admission.kind === 'throttled') {
      throw new FaultError({ code: 'rate_limited', retryAfterSeconds: retryAfterSeconds(levels) })
    }
  }
}

function preflightOf (request: FastifyRequest): { readonly preflight?: Preflight } {
  const { preflight } = request.routeOptions.config
  if (preflight === undefined) return {}
  const header = preflight === 'keyed' ? request.headers['idempotency-key'] : undefined
  const idempotencyKey = readIdempotencyKey(header) ?? ''
  return { preflight: { requestId: request.id, idempotencyKey } }
}
