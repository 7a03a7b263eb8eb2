import type { Log } from './log.ts'
import { withTimeout } from './retry.ts'

type ReadingOptions = {
  /** Named in logs. */
  readonly what: string
  readonly log: Pick<Log, 'warn'>
  /** A reading younger than this is told once more. */
  readonly everyMs?: number
  /** Whoever asks waits no longer than this; then the reading before is told. */
  readonly withinMs?: number
  /** A reading older than this is told no more. */
  readonly oldestMs?: number
  readonly now?: () => number
}

/**
 * A reading for metrics that has its price: made only when somebody asks, so that nothing is done
 * where nobody looks, and at most once in a while. Nothing is told when it fails, or is late for
 * long, as an old value would pass for a new one.
 */
export function createReading<T> (
  read: () => Promise<readonly T[]>, options: ReadingOptions
): () => Promise<readonly T[]> {
  const {
    what, log, everyMs = 10_000, withinMs = 500, oldestMs = 30_000, now = () => performance.now(),
  } = options
  let begunMs = -Infinity
  let underWay: Promise<void> | undefined
  let known: { readonly atMs: number, readonly found: readonly T[] } | undefined
  const start = async () => {
    begunMs = now()
    try {
      known = { found: await read(), atMs: now() }
    } catch (error) {
      known = undefined
      log.warn({ err: error }, `${what} cannot be read`)
    }
    underWay = undefined
  }
  return async () => {
    if (underWay === undefined && now() - begunMs >= everyMs) underWay = start()
    if (underWay !== undefined) await withTimeout(underWay, withinMs)
    return known === undefined || now() - known.atMs > oldestMs ? [] : known.found
  }
}
