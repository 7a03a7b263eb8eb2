import type { FastifyInstance, FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import type { CreateJobBody } from '../../schemas/api/create-job.ts'
import { idempotencyFieldOf, idempotencyKeysOf } from '../jobs/job-record.ts'
import type { Submission, Submitter } from '../jobs/submit.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import type { RedisClient } from '../runtime/platform/redis.ts'
import { laneOf } from '../runtime/platform/topics.ts'
import { type Lane, LANES } from '../topology.ts'
import { ApiException } from './errors.ts'
import { callerOf } from './guard.ts'
import type { IngestDeps } from './deps.ts'
import { readIdempotencyKey } from './request.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * The request starts a preflight; `keyed` if a retry with the same Idempotency-Key does not.
     */
    readonly preflight?: 'keyed' | 'keyless'
  }
}

/** Without load shedding every request is admitted, however long others wait. */
export type AdmittingDeps = IngestDeps & { readonly loadShedding?: LoadShedding }

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
export function shedLoad (app: FastifyInstance, shedding: LoadShedding): void {
  const refuse = async (request: FastifyRequest, lane?: Lane) => {
    const { tenant } = callerOf(request)
    if (!shedding.rejects(tenant, lane)) return
    if (request.routeOptions.config.preflight === 'keyed') {
      const key = readIdempotencyKey(request.headers['idempotency-key']) ?? ''
      if (key !== '' && await shedding.isClaimed(tenant, key)) return
    }
    const name = lane ?? 'any'
    shedding.countRefusal(name)
    throw new ApiException({
      code: 'temporarily_unavailable',
      message: `${MESSAGES[name]} Nothing was reserved. Send it again after the seconds in ` +
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
    await refuse(request, laneOf((request.body as CreateJobBody).inputs.length))
  })
}

type LoadSheddingDeps = {
  readonly state: Pick<RedisClient, 'hexists'>
  readonly metrics: Metrics
  /** How long a preflight may wait before similar requests are rejected. */
  readonly overloadedAfterMs: number
  /** A monotonic clock, in milliseconds. */
  readonly now?: () => number
}

/**
 * Detects that the stages before `accept` are overloaded, by the pending preflights of this
 * process. A lane is overloaded when none of its preflights was decided for `overloadedAfterMs`
 * while one waited: its stages are down or paused. A tenant is overloaded in a lane when its own
 * oldest preflight is as old: it exceeds its share, and others need not wait for that. Stages
 * report nothing, so a dead consumer group is detected like a slow one, and an idle or new pipeline
 * is never overloaded. Each instance uses its own clients only: the stages are the same for all,
 * and reports of other instances would be older.
 *
 * The overload ends once a preflight is decided and no other one has waited for half that time.
 * Until then one request at a time is admitted, as a probe, while no other one is pending.
 */
export class LoadShedding {
  readonly #deps: LoadSheddingDeps
  readonly #lanes: Readonly<Record<Lane, Backlog>>
  /** Of each tenant in each lane. */
  readonly #tenants = new LRUCache<string, Backlog>({ max: MAX_BACKLOGS })

  constructor (deps: LoadSheddingDeps) {
    this.#deps = deps
    this.#lanes = {
      small: new Backlog(deps, { isLane: true }), bulk: new Backlog(deps, { isLane: true }),
    }
    for (const lane of LANES) {
      const backlog = this.#lanes[lane]
      deps.metrics.watch('preflight_oldest_age_seconds', { lane }, () => backlog.oldestMs() / 1_000)
      deps.metrics.watch('preflight_overloaded', { lane }, () => Number(backlog.isOverloaded()))
    }
  }

  /**
   * Whether a request of this tenant and lane is rejected; without a lane, whether both lanes
   * reject it.
   */
  rejects (tenant: string, lane?: Lane): boolean {
    return (lane === undefined ? LANES : [lane]).every(name => this.#lanes[name].rejects() ||
      this.#tenants.get(`${name} ${tenant}`)?.rejects() === true)
  }

  /**
   * Whether a request with the key waits for a job, or has one, so that a retry starts no
   * preflight.
   */
  async isClaimed (tenant: string, idempotencyKey: string): Promise<boolean> {
    const claims = await Promise.all(idempotencyKeysOf(tenant)
      .map(name => this.#deps.state.hexists(name, idempotencyFieldOf(idempotencyKey))))
    return claims.includes(1)
  }

  countRefusal (lane: Lane | 'any'): void {
    this.#deps.metrics.count('preflight_refusals_total', { lane })
  }

  /** The same submitter, with a watch on its preflights from claim to outcome. */
  watch ({ submit, quote }: Submitter): Submitter {
    const watched = async <T>(
      { tenant, inputs }: Submission, work: () => Promise<T>, isDecided: (outcome: T) => boolean
    ): Promise<T> => {
      const lane = laneOf(inputs.length)
      const name = `${lane} ${tenant}`
      const ofTenant = this.#tenants.get(name) ?? new Backlog(this.#deps, { isLane: false })
      this.#tenants.set(name, ofTenant)
      const ends = [this.#lanes[lane].start(), ofTenant.start()]
      let decided = false
      try {
        const outcome = await work()
        decided = isDecided(outcome)
        return outcome
      } finally {
        for (const end of ends) end(decided)
      }
    }
    return {
      submit: submission => watched(submission, () => submit(submission), outcome =>
        outcome.kind === 'accepted' ? !outcome.replayed : isDecidedByLookup(outcome)),
      quote: submission => watched(submission, () => quote(submission), outcome =>
        outcome.kind === 'quoted' || isDecidedByLookup(outcome)),
    }
  }
}

type Unaccepted = { readonly kind: 'reused' } |
  { readonly kind: 'refused', readonly refusal: { readonly code: string } }

/** Whether `lookup` decided it; the other codes also occur when the pipeline makes no progress. */
function isDecidedByLookup (outcome: Unaccepted): boolean {
  return outcome.kind === 'refused' && !['expired', 'internal'].includes(outcome.refusal.code)
}

/** Maximum number of tenants with tracked preflights, by lane. */
const MAX_BACKLOGS = 20_000

/**
 * The pending preflights of a lane (`isLane`) or of a tenant in it, and whether they wait too long,
 * by the start of the oldest one. In a lane the wait counts from the last decision: others need not
 * wait for that of a tenant.
 */
class Backlog {
  readonly #overloadedAfterMs: number
  readonly #now: () => number
  readonly #isLane: boolean
  /** In order of their start, so the first is the oldest. */
  readonly #startedAt = new Map<object, number>()
  #decidedAtMs = -Infinity
  #isOverloaded = false

  constructor (
    { overloadedAfterMs, now = () => performance.now() }: LoadSheddingDeps,
    { isLane }: { readonly isLane: boolean }
  ) {
    this.#overloadedAfterMs = overloadedAfterMs
    this.#now = now
    this.#isLane = isLane
  }

  oldestMs (): number {
    const [startedAtMs = this.#now()] = this.#startedAt.values()
    return this.#now() - startedAtMs
  }

  isOverloaded (): boolean {
    this.#isOverloaded ||= this.#waits(this.#overloadedAfterMs)
    return this.#isOverloaded
  }

  rejects (): boolean {
    return this.isOverloaded() && this.#startedAt.size > 0
  }

  /** Ends with whether the stages before `accept` decided it, so that they make progress. */
  start (): (decided: boolean) => void {
    const preflight = {}
    this.#startedAt.set(preflight, this.#now())
    return decided => {
      // No request may have checked this while the preflight got old.
      this.isOverloaded()
      this.#startedAt.delete(preflight)
      if (!decided) return
      if (this.#isLane) this.#decidedAtMs = this.#now()
      if (!this.#waits(this.#overloadedAfterMs / 2)) this.#isOverloaded = false
    }
  }

  #waits (atLeastMs: number): boolean {
    const [startedAtMs] = this.#startedAt.values()
    return startedAtMs !== undefined &&
      this.#now() - Math.max(startedAtMs, this.#decidedAtMs) >= atLeastMs
  }
}
