import { setTimeout as delay } from 'node:timers/promises'

/**
 * Begins a piece of work at a fixed rate, whether earlier ones are done or not, until some other
 * work is over. Resolves with what each gave, in order; rejects with the first failure of any.
 */
export async function atARate<T> (
  everyMs: number, { until, work }: {
    readonly until: Promise<unknown>, readonly work: () => Promise<T>,
  }
): Promise<readonly T[]> {
  const over = new AbortController()
  const end = until.finally(() => over.abort())
  // Judged below, with all others; until then a failure must not end the process.
  end.catch(() => {})
  const begun: Promise<T>[] = []
  for (let nextAt = performance.now(); !over.signal.aborted; nextAt += everyMs) {
    const one = work()
    one.catch(() => {})
    begun.push(one)
    const pauseMs = Math.max(0, nextAt + everyMs - performance.now())
    await delay(pauseMs, undefined, { signal: over.signal }).catch(() => {})
  }
  await end
  return await Promise.all(begun)
}
