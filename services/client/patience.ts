import { setTimeout as delay } from 'node:timers/promises'
import { ApiError } from './api-error.ts'
import { TimeoutError } from './transport.ts'

export type Patience = {
  /** Told once, before the first wait, why there is one. */
  readonly say: (line: string) => void
  readonly pause?: (milliseconds: number) => Promise<unknown>
  readonly now?: () => number
}

const NOT_NOW = [408, 429, 502, 503, 504]
const BROKEN_CONNECTION = /fetch failed|terminated/
const FIRST_WAIT_MS = 1_000
const LONGEST_WAIT_MS = 15_000
const GIVE_UP_AFTER_MS = 15 * 60_000
/** Jobs of the organization's other programs may take long; their end is certain. */
const GIVE_UP_SLOT_AFTER_MS = 12 * 3_600_000

/**
 * Does what can be done again until it is done, however long a service is away (15 minutes) or an
 * organization has as many jobs under way as it may (12 hours). Throws the last failure after that,
 * and every other failure at once.
 */
export async function patiently<T> (action: () => Promise<T>, patience: Patience): Promise<T> {
  const { say, pause = delay, now = Date.now } = patience
  let waitMs = FIRST_WAIT_MS
  let firstFailedAtMs: number | undefined
  for (;;) {
    try {
      return await action()
    } catch (error) {
      const forMs = patienceMs(error)
      if (firstFailedAtMs === undefined && forMs > 0) say(whyWaiting(error))
      firstFailedAtMs ??= now()
      if (now() - firstFailedAtMs >= forMs) throw error
      await pause(waitMs)
      waitMs = Math.min(waitMs * 2, LONGEST_WAIT_MS)
    }
  }
}

function patienceMs (error: unknown): number {
  if (error instanceof ApiError) {
    if (error.code === 'concurrent_jobs_limit') return GIVE_UP_SLOT_AFTER_MS
    return NOT_NOW.includes(error.status) ? GIVE_UP_AFTER_MS : 0
  }
  return isLostConnection(error) ? GIVE_UP_AFTER_MS : 0
}

/** `fetch` tells a connection that failed or broke off as a TypeError, as it does mistakes. */
export function isLostConnection (error: unknown): boolean {
  if (error instanceof TimeoutError) return true
  return error instanceof TypeError && BROKEN_CONNECTION.test(error.message)
}

function whyWaiting (error: unknown): string {
  if (!(error instanceof ApiError)) return 'The service does not answer; trying again.'
  return error.code === 'concurrent_jobs_limit'
    ? 'The organization has as many jobs under way as it may; waiting for one to end.'
    : `The service cannot serve this now (${error.status} ${error.code}); trying again.`
}
