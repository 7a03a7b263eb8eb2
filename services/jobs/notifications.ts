import type { Redis } from 'ioredis'
import { setTimeout as delay } from 'node:timers/promises'
import type { JobFields } from './job-record.ts'
import { OUTCOMES_CHANNEL } from './redis-keys.ts'

/** What a notification carries; empty if there was none. */
export type Notification = {
  /** May be older than one that was read meanwhile. Large ones are left out. */
  readonly record?: JobFields
  /** Text for the requests that wait for the job. */
  readonly attached?: string
}

/** The next notification of one job. */
type NextNotification = {
  /** Resolves with the notification, at the timeout, or when the wait is aborted. */
  readonly within: (timeoutMs: number) => Promise<Notification>
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
  subscriber.on('message', (_channel, message: string) => {
    const [job = ''] = message.split(/[ \n]/, 1)
    notifications.dispatchEvent(new CustomEvent(job, { detail: message.slice(job.length) }))
  })
  await subscriber.subscribe(OUTCOMES_CHANNEL)
  return {
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

/** The record as JSON after a space, then the attached text after a line break; both optional. */
function parse (content: string): Notification {
  const [record = '', attached] = content.split(/\n(.*)/s)
  return {
    ...record !== '' && { record: JSON.parse(record) as JobFields },
    ...attached !== undefined && { attached },
  }
}
