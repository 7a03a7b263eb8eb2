// Which request of a tenant runs next: preflights by slots, expensive reads one at a time.
import { partsOf } from '../accounts/tenant.ts'
import type { Submission } from '../jobs/send.ts'
import type { Submitter } from '../jobs/submit.ts'
import { type Capacity, createCapacity, createSerialQueues } from '../runtime/platform/limits.ts'
import { laneOf } from '../runtime/platform/topics.ts'
import { ApiException } from './errors.ts'
import type { Limiter } from './limits/limiter.ts'

type PreflightQueueOptions = {
  /** Maximum number of concurrent preflights of a tenant in each lane. */
  readonly maxPreflights: number
  /** Maximum number of rows of these preflights, unless a single one has more. */
  readonly maxRows: number
  /** Maximum time that a request waits in the queue. */
  readonly waitMs: number
  readonly limiter: Pick<Limiter, 'refund'>
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
  { submit, quote }: Submitter,
  { maxPreflights, maxRows, waitMs, limiter }: PreflightQueueOptions
): Submitter {
  const lanes = new Map<string, LaneUse>()
  const queues = createSerialQueues()
  const queued = async <T>({ tenant, inputs }: Submission, work: () => Promise<T>): Promise<T> => {
    const rows = inputs.length
    const name = `${laneOf(rows)} ${tenant}`
    const lane = lanes.get(name) ??
      { requests: 0, running: createCapacity(maxPreflights), rows: createCapacity(maxRows) }
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
        await limiter.refund({ org: partsOf(tenant).orgId, kind: 'post' })
        throw new ApiException({
          code: 'too_many_preflights', retryAfterSeconds: PREFLIGHT_RETRY_SECONDS,
        })
      }
      try {
        return await work()
      } finally {
        lane.running.release(1)
        lane.rows.release(rows)
      }
    } finally {
      lane.requests -= 1
      if (lane.requests === 0) lanes.delete(name)
    }
  }
  return {
    submit: submission => queued(submission, () => submit(submission)),
    quote: submission => queued(submission, () => quote(submission)),
  }
}

/** Requests of one tenant that wait in this process, beside the one that runs. */
const MAX_WAITING_READS = 10
const READ_RETRY_SECONDS = 2

/**
 * Limits expensive reads to one per tenant in this process; further ones wait in order, so that one
 * tenant never uses more than a share of it.
 * @throws ApiException `rate_limited` when too many wait.
 */
export function createTenantGate () {
  const queues = createSerialQueues()
  const requests = new Map<string, number>()
  return async <T>(tenant: string, read: () => Promise<T>): Promise<T> => {
    const before = requests.get(tenant) ?? 0
    if (before > MAX_WAITING_READS) {
      throw new ApiException({
        code: 'rate_limited',
        message: 'Too many requests of this kind are running for this account. Send it again ' +
          'after the seconds in Retry-After.',
        retryAfterSeconds: READ_RETRY_SECONDS,
      })
    }
    requests.set(tenant, before + 1)
    try {
      return await queues.take(tenant, read)
    } finally {
      const left = (requests.get(tenant) ?? 0) - 1
      if (left > 0) requests.set(tenant, left)
      else requests.delete(tenant)
    }
  }
}
