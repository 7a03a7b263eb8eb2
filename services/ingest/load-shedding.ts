import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Redis } from 'ioredis'
import { LRUCache } from 'lru-cache'
import type { CreateJobBody } from '../../schemas/api/create-job.ts'
import { idempotencyFieldOf, idempotencyKeysOf } from '../jobs/redis-keys.ts'
import type { Submission } from '../jobs/send.ts'
import type { Submitter } from '../jobs/submit.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import { laneOf } from '../runtime/platform/topics.ts'
import { type Lane, LANES } from '../topology.ts'
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
  readonly state: Pick<Redis, 'hexists'>
  readonly metrics: Metrics
}

/** The watch of preflights, and the rule that rejects requests under overload. */
export function connectLoadShedding (
  { state, metrics }: Connected, settings: { readonly SHED_LOAD_AFTER_MS: number }
): { readonly admission: LoadShedding, readonly rule: LoadSheddingRule } {
  const admission = createLoadShedding({ overloadedAfterMs: settings.SHED_LOAD_AFTER_MS, metrics })
  const isClaimed = async (tenant: string, idempotencyKey: string) => {
    const found = await Promise.all(idempotencyKeysOf(tenant)
      .map(name => state.hexists(name, idempotencyFieldOf(idempotencyKey))))
    return found.includes(1)
  }
  return { admission, rule: { admission, isClaimed, metrics } }
}

type LoadShedding = {
  /**
   * Whether a request of this tenant and lane is rejected; without a lane, whether both lanes
   * reject it.
   */
  readonly rejects: (tenant: string, lane?: Lane) => boolean
  /** The same submitter, with a watch on its preflights from claim to outcome. */
  readonly watch: (submitter: Submitter) => Submitter
}

type LoadSheddingOptions = {
  /** How long a preflight may wait before similar requests are rejected. */
  readonly overloadedAfterMs: number
  readonly metrics?: Pick<Metrics, 'watch'>
  /** A monotonic clock, in milliseconds. */
  readonly now?: () => number
}

/** Ends a preflight. `decided`: the stages before `accept` decided it, so they make progress. */
type EndPreflight = (decided: boolean) => void

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
export function createLoadShedding (
  { overloadedAfterMs, metrics, now = () => performance.now() }: LoadSheddingOptions
): LoadShedding {
  const lanes = {
    small: createLaneBacklogs(overloadedAfterMs, now),
    bulk: createLaneBacklogs(overloadedAfterMs, now),
  }
  for (const lane of LANES) {
    metrics?.watch('preflight_oldest_age_seconds', { lane }, () => lanes[lane].oldestMs() / 1_000)
    metrics?.watch('preflight_overloaded', { lane }, () => Number(lanes[lane].isOverloaded()))
  }
  const watched = async <T>(
    { tenant, inputs }: Submission, work: () => Promise<T>, isDecided: (outcome: T) => boolean
  ): Promise<T> => {
    const end = lanes[laneOf(inputs.length)].start(tenant)
    let decided = false
    try {
      const outcome = await work()
      decided = isDecided(outcome)
      return outcome
    } finally {
      end(decided)
    }
  }
  return {
    rejects: (tenant, lane) =>
      (lane === undefined ? LANES : [lane]).every(one => lanes[one].rejects(tenant)),
    watch: ({ submit, quote }) => ({
      submit: submission => watched(submission, () => submit(submission), outcome =>
        outcome.kind === 'accepted' ? !outcome.replayed : isDecidedByLookup(outcome)),
      quote: submission => watched(submission, () => quote(submission), outcome =>
        outcome.kind === 'quoted' || isDecidedByLookup(outcome)),
    }),
  }
}

type Unaccepted = { readonly kind: 'reused' } |
  { readonly kind: 'refused', readonly refusal: { readonly code: string } }

/** Whether `lookup` decided it; the other codes also occur when the pipeline makes no progress. */
function isDecidedByLookup (outcome: Unaccepted): boolean {
  return outcome.kind === 'refused' && !['expired', 'internal'].includes(outcome.refusal.code)
}

/** Maximum number of tenants with tracked preflights. */
const MAX_TENANTS = 10_000

function createLaneBacklogs (overloadedAfterMs: number, now: () => number) {
  let decidedAtMs = -Infinity
  const createForTenant = () => createBacklog(overloadedAfterMs, startedAtMs => now() - startedAtMs)
  const all = createBacklog(
    overloadedAfterMs, startedAtMs => now() - Math.max(startedAtMs, decidedAtMs))
  const tenants = new LRUCache<string, ReturnType<typeof createBacklog>>({ max: MAX_TENANTS })
  return {
    isOverloaded: all.isOverloaded,
    oldestMs: () => now() - (all.oldest() ?? now()),
    rejects: (tenant: string): boolean => all.rejects() || tenants.get(tenant)?.rejects() === true,
    start: (tenant: string): EndPreflight => {
      const own = tenants.get(tenant) ?? createForTenant()
      tenants.set(tenant, own)
      const ends = [all.start(now()), own.start(now())]
      return decided => {
        // No request may have checked this while the preflight got old.
        all.isOverloaded()
        own.isOverloaded()
        if (decided) decidedAtMs = now()
        for (const end of ends) end(decided)
      }
    },
  }
}

/** The pending preflights, and whether they wait too long, by the start of the oldest one. */
function createBacklog (overloadedAfterMs: number, waitingMs: (startedAtMs: number) => number) {
  // In order of their start, so the first is the oldest.
  const startedAt = new Map<object, number>()
  let overloaded = false
  const oldest = (): number | undefined => {
    const [first] = startedAt.values()
    return first
  }
  const waits = (atLeastMs: number): boolean => {
    const startedAtMs = oldest()
    return startedAtMs !== undefined && waitingMs(startedAtMs) >= atLeastMs
  }
  const isOverloaded = (): boolean => {
    overloaded ||= waits(overloadedAfterMs)
    return overloaded
  }
  return {
    oldest,
    isOverloaded,
    rejects: (): boolean => isOverloaded() && startedAt.size > 0,
    start: (startedAtMs: number): EndPreflight => {
      const preflight = {}
      startedAt.set(preflight, startedAtMs)
      return decided => {
        startedAt.delete(preflight)
        if (decided && !waits(overloadedAfterMs / 2)) overloaded = false
      }
    },
  }
}
