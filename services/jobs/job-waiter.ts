import { LRUCache } from 'lru-cache'
import { setTimeout as delay } from 'node:timers/promises'
import { partsOf } from '../accounts/tenant.ts'
import { FairPool } from '../runtime/platform/limits.ts'
import type { Job } from './job.ts'
import { type JobFields, jobOf } from './job-record.ts'
import type { JobStore } from './store.ts'
import type { RedisClient } from '../runtime/platform/redis.ts'
import { OUTCOMES_CHANNEL } from './redis-keys.ts'

type JobWaiterOptions = {
  readonly store: Pick<JobStore, 'read'>
  readonly notifications: Notifications
  /** Maximum numbers of concurrent waits of this process, and of one organization in it. */
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
   * undefined for a job that Redis does not know. Organizations share the waits fairly: above its
   * share one does not wait at all, and its latest wait may end early. None waits after `stop`.
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
  const { maxWaits, maxWaitsPerTenant } = options
  const pool = new FairPool({
    capacity: maxWaits, maxPerName: Math.min(maxWaits, maxWaitsPerTenant),
  })

  const wait: JobWaiter['wait'] = async (
    { tenant, job, isDone, timeoutMs, signal }
  ) => {
    const endsAt = performance.now() + timeoutMs
    const evicted = new AbortController()
    const place = pool.open(partsOf(tenant).orgId, () => evicted.abort())
    const isPlaced = place.grow(1)
    const ends = AbortSignal.any([stopped.signal, evicted.signal, ...signal ? [signal] : []])
    try {
      for (;;) {
        const notified = notifications.next(job, ends)
        try {
          const found = await store.read(tenant, job)
          const leftMs = endsAt - performance.now()
          const isOver = !isPlaced || ends.aborted || leftMs <= 0
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
      place.release()
    }
  }

  return { wait, stop: () => stopped.abort(), waits: () => pool.total }
}

/** The next notification of one job. */
type NextNotification = {
  /**
   * Resolves at the notification, at the timeout, or when the wait is aborted; with the record that
   * came with it, which may be older than one that was read meanwhile. Large ones are left out.
   */
  readonly within: (timeoutMs: number) => Promise<JobFields | undefined>
  readonly unsubscribe: () => void
}

export type Notifications = {
  /**
   * Listens for the next notification of a job until `unsubscribe`. A caller listens before it
   * reads the job, so that no change is missed.
   */
  readonly next: (job: string, ends: AbortSignal) => NextNotification
  /**
   * The text that came with the end of a job; '' if there was none. Those of the latest jobs are
   * kept, because a job may end before anybody waits for it.
   */
  readonly attachedTo: (job: string) => string
}

/** Characters of attached texts that are kept, some thousand of one-row jobs. */
const MAX_ATTACHED = 4_000_000

/**
 * Subscribes to the changes of jobs: outcome, status and close. A message is the id of a job, then
 * its record as JSON after a space and a text after a line break, both optional. Notifications may
 * be lost, so those who wait poll too.
 * @param subscriber a dedicated connection: a subscribed one accepts no other commands.
 */
export async function subscribeToJobs (
  subscriber: Pick<RedisClient, 'on' | 'subscribe'>
): Promise<Notifications> {
  const notifications = new EventTarget()
  const attachedTo = new LRUCache<string, string>({
    maxSize: MAX_ATTACHED, sizeCalculation: text => text.length,
  })
  subscriber.on('message', (_channel, message: string) => {
    const [job = ''] = message.split(/[ \n]/, 1)
    const [detail = '', attached = ''] = message.slice(job.length).split(/\n(.*)/s)
    if (attached !== '') attachedTo.set(job, attached)
    notifications.dispatchEvent(new CustomEvent(job, { detail }))
  })
  await subscriber.subscribe(OUTCOMES_CHANNEL)
  return {
    attachedTo: job => attachedTo.get(job) ?? '',
    next: (job, ends) => {
      const over = new AbortController()
      const either = AbortSignal.any([ends, over.signal])
      const notified = new Promise<string>((resolve) => {
        const receive = (event: Event) => resolve((event as CustomEvent<string>).detail)
        notifications.addEventListener(job, receive, { once: true, signal: over.signal })
      })
      const within = async (timeoutMs: number) => {
        const late = delay(timeoutMs, '', { signal: either }).catch(() => '')
        return parse(await Promise.race([notified, late]))
      }
      return { within, unsubscribe: () => over.abort() }
    },
  }
}

function parse (record: string): JobFields | undefined {
  return record === '' ? undefined : JSON.parse(record) as JobFields
}
