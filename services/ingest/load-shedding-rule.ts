import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Redis } from 'ioredis'
import type { CreateJobBody } from '../../schemas/api/create-job.ts'
import { idempotencyKeyOf } from '../jobs/redis-keys.ts'
import type { Metrics } from '../platform/metrics.ts'
import { laneOf } from '../platform/topics.ts'
import type { Lane } from '../topology.ts'
import { createLoadShedding, type LoadShedding } from './load-shedding.ts'
import { ApiException } from './errors.ts'
import { callerOf } from './guard.ts'
import type { IngestDeps } from './ports.ts'
import { readIdempotencyKey } from './request.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * The request starts a preflight; `keyed` if a retry with the same Idempotency-Key does not.
     */
    readonly preflight?: 'keyed' | 'keyless'
  }
}

export type LoadSheddingRule = {
  readonly admission: Pick<LoadShedding, 'rejects'>
  /**
   * Whether a request with the key waits for a job, or has one, so that a retry starts no
   * preflight.
   */
  readonly isClaimed: (tenant: string, idempotencyKey: string) => Promise<boolean>
  readonly metrics?: Pick<Metrics, 'count'>
}

/** Without a rule every request is admitted, however long others wait for their preflight. */
export type AdmittingDeps = IngestDeps & { readonly admission?: LoadSheddingRule }

/** A crashed consumer is replaced within this time. */
const RETRY_AFTER_SECONDS = 10

const MESSAGES = {
  small: 'Jobs of up to 1,000 inputs wait too long for their preflight now.',
  bulk: 'Jobs of more than 1,000 inputs wait too long for their preflight now.',
  any: 'Jobs wait too long for their preflight now.',
} as const

/**
 * Rejects requests under overload: before the body is read if both lanes are overloaded, or after
 * it if its lane is. Nothing is claimed or reserved by then. Retries of a request that has a job,
 * or waits for it, are admitted.
 */
export function shedLoad (app: FastifyInstance, rule: LoadSheddingRule): void {
  const refuse = async (request: FastifyRequest, lane?: Lane) => {
    const { tenant } = callerOf(request)
    if (!rule.admission.rejects(tenant, lane) || await isRepetition(request, rule)) return
    const name = lane ?? 'any'
    rule.metrics?.count('preflight_refusals_total', { lane: name })
    throw new ApiException({
      code: 'temporarily_unavailable',
      message: `${MESSAGES[name]} Nothing was reserved. Send it again after the seconds in ` +
        'Retry-After.',
      retryAfterSeconds: RETRY_AFTER_SECONDS,
    })
  }
  app.addHook('onRequest', async request => {
    if (startsPreflight(request)) await refuse(request)
  })
  app.addHook('preHandler', async request => {
    if (!startsPreflight(request)) return
    await refuse(request, laneOf((request.body as CreateJobBody).inputs.length))
  })
}

function startsPreflight ({ is404, routeOptions }: FastifyRequest): boolean {
  return !is404 && routeOptions.config.preflight !== undefined
}

async function isRepetition (
  request: FastifyRequest, { isClaimed }: LoadSheddingRule
): Promise<boolean> {
  if (request.routeOptions.config.preflight !== 'keyed') return false
  const key = readIdempotencyKey(request.headers['idempotency-key']) ?? ''
  return key !== '' && await isClaimed(callerOf(request).tenant, key)
}

type Connected = {
  readonly state: Pick<Redis, 'exists'>
  readonly metrics: Metrics
}

/** The watch of preflights, and the rule that rejects requests under overload. */
export function connectLoadShedding (
  { state, metrics }: Connected, settings: { readonly SHED_LOAD_AFTER_MS: number }
): { readonly admission: LoadShedding, readonly rule: LoadSheddingRule } {
  const admission = createLoadShedding({ overloadedAfterMs: settings.SHED_LOAD_AFTER_MS, metrics })
  const isClaimed = async (tenant: string, idempotencyKey: string) =>
    await state.exists(idempotencyKeyOf(tenant, idempotencyKey)) === 1
  return { admission, rule: { admission, isClaimed, metrics } }
}
