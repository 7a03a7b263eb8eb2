import type { Redis } from 'ioredis'
import { setTimeout as delay } from 'node:timers/promises'
import { OUTCOMES_CHANNEL } from './redis-keys.ts'

/** The next notification of one job. */
type NextNotification = {
  /**
   * Resolves with the notification, at the timeout, or when the wait is aborted; with the text that
   * is attached to the notification, '' without one.
   */
  readonly within: (timeoutMs: number) => Promise<string>
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
  const notifications = new EventTarget()
  subscriber.on('message', (_channel, text) => {
    const [job = ''] = text.split(' ', 1)
    notifications.dispatchEvent(new CustomEvent(job, { detail: text.slice(job.length + 1) }))
  })
  await subscriber.subscribe(OUTCOMES_CHANNEL)
  return {
    next: (job, ends) => {
      const over = new AbortController()
      const either = AbortSignal.any([ends, over.signal])
      const notified = new Promise<string>((resolve) => {
        const listener = (event: Event) => resolve((event as CustomEvent<string>).detail)
        notifications.addEventListener(job, listener, { once: true, signal: over.signal })
      })
      const within = async (timeoutMs: number) => {
        const late = delay(timeoutMs, '', { signal: either }).catch(() => '')
        return await Promise.race([notified, late])
      }
      return { within, unsubscribe: () => over.abort() }
    },
  }
}
