import type { Redis } from 'ioredis'
import { EventEmitter } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import type { JobFields } from './job-record.ts'
import { OUTCOMES_CHANNEL } from './redis-keys.ts'

/** The next notification of one job. */
type NextNotification = {
  /**
   * Resolves with the notification, at the timeout, or when the wait is aborted. The record that
   * may come with a notification may be older than one that was read meanwhile.
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
}

/**
 * Subscribes to the changes of jobs: outcome, visible status and close. Notifications may be lost,
 * so those who wait poll too.
 * @param subscriber a dedicated connection: a subscribed one accepts no other commands.
 */
export async function subscribeToJobs (
  subscriber: Pick<Redis, 'on' | 'subscribe'>
): Promise<Notifications> {
  const notifications = new EventEmitter().setMaxListeners(0)
  subscriber.on('message', (_channel, message: string) => {
    const [job = '', record] = message.split(/ (.*)/s)
    notifications.emit(job, record)
  })
  await subscriber.subscribe(OUTCOMES_CHANNEL)
  return {
    next: (job, ends) => {
      const over = new AbortController()
      const either = AbortSignal.any([ends, over.signal])
      const notified = Promise.withResolvers<JobFields | undefined>()
      const receive = (record?: string) =>
        notified.resolve(record === undefined ? undefined : JSON.parse(record) as JobFields)
      notifications.once(job, receive)
      const within = async (timeoutMs: number) => {
        const late = delay(timeoutMs, undefined, { signal: either }).catch(() => undefined)
        return await Promise.race([notified.promise, late])
      }
      const unsubscribe = () => {
        notifications.off(job, receive)
        over.abort()
      }
      return { within, unsubscribe }
    },
  }
}
