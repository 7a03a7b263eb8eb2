import type { Job } from './job.ts'
import { jobOf } from './job-record.ts'
import type { Notifications } from './notifications.ts'
import type { JobStore } from './store.ts'

export type JobWaiterOptions = {
  readonly store: Pick<JobStore, 'read'>
  readonly notifications: Notifications
  /** Maximum numbers of concurrent waits of this process, and of one tenant in it. */
  readonly maxWaits: number
  readonly maxWaitsPerTenant: number
  readonly pollMs?: number
}

export type JobWait = {
  readonly tenant: string
  readonly job: string
  readonly isDone: (job: Job) => boolean
  readonly timeoutMs: number
  /** Ends the wait early. */
  readonly signal?: AbortSignal
}

export type JobWaiter = {
  /**
   * The state of a job once `isDone` accepts it, or the latest one at the end of the wait;
   * undefined for a job that Redis does not know. Does not wait at all above the maximum number of
   * waits, and after `stop`.
   */
  readonly wait: (wait: JobWait) => Promise<Job | undefined>
  /** Ends all waits with the latest state of their jobs. */
  readonly stop: () => void
  /** The number of waits under way, at most `maxWaits`. */
  readonly waits: () => number
}

/** A lost notification delays an answer by this time at most. */
const POLL_MS = 1_000

/** Lets requests wait for changes of jobs: notified by pub/sub, with polling as the fallback. */
export function createJobWaiter (options: JobWaiterOptions): JobWaiter {
  const { store, notifications, pollMs = POLL_MS } = options
  const stopped = new AbortController()
  const slots = createSlots(options)

  const wait: JobWaiter['wait'] = async (
    { tenant, job, isDone, timeoutMs, signal }
  ) => {
    const endsAt = performance.now() + timeoutMs
    const ends = signal === undefined ? stopped.signal : AbortSignal.any([stopped.signal, signal])
    const leave = slots.take(tenant)
    try {
      for (;;) {
        const notified = notifications.next(job, ends)
        try {
          const found = await store.read(tenant, job)
          const leftMs = endsAt - performance.now()
          const isOver = leave === undefined || ends.aborted || leftMs <= 0
          if (found === undefined || isDone(found) || isOver) return found
          const record = await notified.within(Math.min(pollMs, leftMs))
          // Only the record of an ended job cannot be older than what was read.
          if (record?.['ended'] !== '1') continue
          const ended = jobOf(tenant, record)
          if (isDone(ended)) return ended
        } finally {
          notified.unsubscribe()
        }
      }
    } finally {
      leave?.()
    }
  }

  return { wait, stop: () => stopped.abort(), waits: slots.taken }
}

/** Counts the waits by tenant. Taking a slot returns how to leave it; undefined if none is free. */
function createSlots (
  { maxWaits, maxWaitsPerTenant }: Pick<JobWaiterOptions, 'maxWaits' | 'maxWaitsPerTenant'>
) {
  const waits = new Map<string, number>()
  let total = 0
  const add = (tenant: string, change: 1 | -1) => {
    const own = (waits.get(tenant) ?? 0) + change
    total += change
    if (own === 0) waits.delete(tenant)
    else waits.set(tenant, own)
  }
  const take = (tenant: string): (() => void) | undefined => {
    if (total >= maxWaits || (waits.get(tenant) ?? 0) >= maxWaitsPerTenant) return undefined
    add(tenant, 1)
    return () => add(tenant, -1)
  }
  return { take, taken: () => total }
}
