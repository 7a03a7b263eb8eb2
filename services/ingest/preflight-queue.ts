import { partsOf } from '../accounts/tenant.ts'
import { sleep } from '../runtime/platform/retry.ts'
import { laneOf } from '../runtime/platform/topics.ts'
import type { Submitter } from '../jobs/submit.ts'
import type { Submission } from '../jobs/send.ts'
import { ApiException } from './errors.ts'
import type { Limiter } from './limits/limiter.ts'

export type PreflightQueueOptions = {
  /** Maximum number of concurrent preflights of a tenant in each lane. */
  readonly maxPreflights: number
  /** Maximum number of rows of these preflights, unless a single one has more. */
  readonly maxRows: number
  /** Maximum time that a request waits in the queue. */
  readonly waitMs: number
  readonly limiter: Pick<Limiter, 'refund'>
}

type Waiting = { readonly rows: number, readonly start: () => void }
/** The preflights of one tenant in one lane: running and waiting. */
type LaneSlots = { running: number, rows: number, readonly waiting: Set<Waiting> }

/** A slot is free as soon as a preflight of the tenant ends, which takes seconds. */
const RETRY_AFTER_SECONDS = 5

/**
 * Limits the concurrent preflights and rows of each tenant in this process; further requests of the
 * tenant wait in order. So the stages before `accept` have little work of one tenant in front of
 * another one. Requests wait with complete bodies, so a slow body blocks no others, and a client
 * that sends a hundred jobs gets a hundred responses. A request that waits too long gets
 * `too_many_preflights`: nothing is claimed, and it counts towards no rate limit.
 */
export function queuePreflights (
  { submit, quote }: Submitter, options: PreflightQueueOptions
): Submitter {
  const enter = createSlots(options)
  const queued = async <T>(submission: Submission, work: () => Promise<T>): Promise<T> => {
    const leave = await enter(submission)
    try {
      return await work()
    } finally {
      leave()
    }
  }
  return {
    submit: submission => queued(submission, () => submit(submission)),
    quote: submission => queued(submission, () => quote(submission)),
  }
}

function createSlots ({ maxPreflights, maxRows, waitMs, limiter }: PreflightQueueOptions) {
  const lanes = new Map<string, LaneSlots>()
  const hasSpace = ({ running, rows }: LaneSlots, more: number) =>
    running === 0 || (running < maxPreflights && rows + more <= maxRows)
  const take = (slots: LaneSlots, rows: number) => {
    slots.running += 1
    slots.rows += rows
  }
  const leave = (name: string, slots: LaneSlots, rows: number) => {
    slots.running -= 1
    slots.rows -= rows
    for (const next of slots.waiting) {
      if (!hasSpace(slots, next.rows)) break
      slots.waiting.delete(next)
      take(slots, next.rows)
      next.start()
    }
    if (slots.running === 0) lanes.delete(name)
  }
  return async ({ tenant, inputs }: Submission): Promise<() => void> => {
    const rows = inputs.length
    const name = `${laneOf(rows)} ${tenant}`
    const slots = lanes.get(name) ?? { running: 0, rows: 0, waiting: new Set() }
    lanes.set(name, slots)
    if (slots.waiting.size === 0 && hasSpace(slots, rows)) take(slots, rows)
    else if (!await waitForSlot(slots, rows, waitMs)) throw await tooMany(tenant, limiter)
    return () => leave(name, slots, rows)
  }
}

/** True once a released slot was assigned; false after a timeout. */
async function waitForSlot (
  { waiting }: LaneSlots, rows: number, waitMs: number
): Promise<boolean> {
  const assigned = Promise.withResolvers<boolean>()
  const done = new AbortController()
  const waiter: Waiting = { rows, start: () => assigned.resolve(true) }
  waiting.add(waiter)
  const late = sleep(waitMs, done.signal)
    .then(() => assigned.resolve(!waiting.delete(waiter)), () => {})
  const isAssigned = await assigned.promise
  done.abort()
  await late
  return isAssigned
}

async function tooMany (tenant: string, limiter: Pick<Limiter, 'refund'>): Promise<ApiException> {
  await limiter.refund({ org: partsOf(tenant).orgId, kind: 'post' })
  return new ApiException({ code: 'too_many_preflights', retryAfterSeconds: RETRY_AFTER_SECONDS })
}
