import type { Log } from './log.ts'
import { withTimeout } from './retry.ts'

type ReadingOptions = {
  /** Name in logs. */
  readonly name: string
  readonly log: Pick<Log, 'warn'>
  /** A younger value is returned without a new read. */
  readonly minAgeMs?: number
  /** A caller waits no longer than this for a read; then it gets the previous value. */
  readonly timeoutMs?: number
  /** An older value is not returned. */
  readonly maxAgeMs?: number
  readonly now?: () => number
}

/**
 * An expensive read for metrics: runs only when metrics are scraped, and at most once per
 * `minAgeMs`. Returns nothing after a failure or when the last value is too old, because an old
 * value would look current.
 */
export function createCachedReading<T> (
  read: () => Promise<readonly T[]>, options: ReadingOptions
): () => Promise<readonly T[]> {
  const {
    name, log, minAgeMs = 10_000, timeoutMs = 500, maxAgeMs = 30_000, now = () => performance.now(),
  } = options
  let startedMs = -Infinity
  let running: Promise<void> | undefined
  let last: { readonly atMs: number, readonly found: readonly T[] } | undefined
  const start = async () => {
    startedMs = now()
    try {
      last = { found: await read(), atMs: now() }
    } catch (error) {
      last = undefined
      log.warn({ err: error }, `failed to read ${name} for metrics`)
    }
    running = undefined
  }
  return async () => {
    if (running === undefined && now() - startedMs >= minAgeMs) running = start()
    if (running !== undefined) await withTimeout(running, timeoutMs)
    return last === undefined || now() - last.atMs > maxAgeMs ? [] : last.found
  }
}
