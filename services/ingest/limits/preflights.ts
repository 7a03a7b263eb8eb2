import { LRUCache } from 'lru-cache'
import { isSampleTenant, parseTenant } from '../../accounts/tenant.ts'
import { toIdempotencyField, toIdempotencyKeys } from '../../jobs/job-record.ts'
import type { SubmitOutcome, Submitter } from '../../jobs/submit.ts'
import { Capacity, SerialQueues } from '../../runtime/platform/limits.ts'
import type { Metrics } from '../../runtime/platform/metrics.ts'
import type { RedisClient } from '../../runtime/platform/redis.ts'
import { chooseLane } from '../../runtime/platform/topics.ts'
import { type Lane, LANES } from '../../topology.ts'
import { ApiException } from '../errors.ts'
import type { RequestLimiter } from './limiter.ts'

type PreflightQueueOptions = {
  /** Maximum number of concurrent preflights of a tenant in each lane. */
  readonly maxPreflights: number
  /** Maximum number of rows of these preflights, unless a single one has more. */
  readonly maxRows: number
  /** Maximum time that a request waits in the queue. */
  readonly waitMs: number
  readonly limiter: Pick<RequestLimiter, 'refund'>
}

/** The preflights of one tenant in one lane. */
type LaneUse = { requests: number, readonly running: Capacity, readonly rows: Capacity }

/** A slot is free as soon as a preflight of the tenant ends, which takes seconds. */
const PREFLIGHT_RETRY_SECONDS = 5

/**
 * Limits the concurrent preflights and rows of each tenant in this process; further requests of the
 * tenant wait in order. So the stages before `accept` have little work of one tenant in front of
 * another one. Requests wait with complete bodies, so a slow body blocks no others, and a client
 * that sends a hundred jobs gets a hundred responses. A request that waits too long gets
 * `too_many_preflights`: nothing is claimed, and it counts towards no rate limit.
 */
export function queuePreflights (
  submit: Submitter, { maxPreflights, maxRows, waitMs, limiter }: PreflightQueueOptions
): Submitter {
  const lanes = new Map<string, LaneUse>()
  const queues = new SerialQueues()
  return async submission => {
    const { tenant, inputs } = submission
    const rows = inputs.length
    const name = `${chooseLane(rows)} ${tenant}`
    const lane = lanes.get(name) ??
      { requests: 0, running: new Capacity(maxPreflights), rows: new Capacity(maxRows) }
    lanes.set(name, lane)
    lane.requests += 1
    const late = AbortSignal.timeout(waitMs)
    try {
      // Only the first request waits for a slot. Those behind it came later and are late later.
      const isLate = await queues.take(name, async () => {
        await lane.running.untilFree(late)
        await lane.rows.untilFree(late, () => Math.min(rows, maxRows) - 1)
        if (late.aborted) return true
        lane.running.take(1)
        lane.rows.take(rows)
        return false
      })
      if (isLate) {
        // A sample took nothing: its quote did, and is answered without it.
        if (!isSampleTenant(tenant)) {
          await limiter.refund({ org: parseTenant(tenant).orgId, kind: 'post' })
        }
        throw new ApiException({
          code: 'too_many_preflights', retryAfterSeconds: PREFLIGHT_RETRY_SECONDS,
        })
      }
      try {
        return await submit(submission)
      } finally {
        lane.running.release(1)
        lane.rows.release(rows)
      }
    } finally {
      lane.requests -= 1
      if (lane.requests === 0) lanes.delete(name)
    }
  }
}

type LoadSheddingDeps = {
  readonly state: RedisClient
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
    const claims = await Promise.all(toIdempotencyKeys(tenant)
      .map(name => this.#deps.state.hexists(name, toIdempotencyField(idempotencyKey))))
    return claims.includes(1)
  }

  countRefusal (lane: Lane | 'any'): void {
    this.#deps.metrics.count('preflight_refusals_total', { lane })
  }

  /** The same submitter, with a watch on its preflights from claim to outcome. */
  watch (submit: Submitter): Submitter {
    return async submission => {
      const { tenant, inputs } = submission
      const lane = chooseLane(inputs.length)
      const name = `${lane} ${tenant}`
      const ofTenant = this.#tenants.get(name) ?? new Backlog(this.#deps, { isLane: false })
      this.#tenants.set(name, ofTenant)
      const ends = [this.#lanes[lane].start(), ofTenant.start()]
      let decided = false
      try {
        const outcome = await submit(submission)
        decided = isDecidedByLookup(outcome)
        return outcome
      } finally {
        for (const end of ends) end(decided)
      }
    }
  }
}

/** Whether `lookup` decided it; other outcomes also occur when the pipeline makes no progress. */
function isDecidedByLookup (outcome: SubmitOutcome): boolean {
  if (outcome.kind === 'accepted') return !outcome.replayed
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
