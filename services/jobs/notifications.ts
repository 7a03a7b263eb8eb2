import type { Redis } from 'ioredis'
import { LRUCache } from 'lru-cache'
import { setTimeout as delay } from 'node:timers/promises'
import type { JobFields } from './job-record.ts'
import { OUTCOMES_CHANNEL } from './redis-keys.ts'

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
  subscriber: Pick<Redis, 'on' | 'subscribe'>
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
