import { setTimeout as delay } from 'node:timers/promises'

/**
 * An open-loop load generator: starts `work` at a constant rate, whether earlier calls have ended
 * or not, until `until` settles. Resolves with all results in order of their start; rejects with
 * the first failure.
 */
export async function atConstantRate<T> (
  everyMs: number, { until, work }: {
    readonly until: Promise<unknown>, readonly work: () => Promise<T>,
  }
): Promise<readonly T[]> {
  const stop = new AbortController()
  const end = until.finally(() => stop.abort())
  // Both kinds of rejections are awaited below; until then they must not end the process.
  end.catch(() => {})
  const started: Promise<T>[] = []
  for (let nextAt = performance.now(); !stop.signal.aborted; nextAt += everyMs) {
    const call = work()
    call.catch(() => {})
    started.push(call)
    const pauseMs = Math.max(0, nextAt + everyMs - performance.now())
    await delay(pauseMs, undefined, { signal: stop.signal }).catch(() => {})
  }
  await end
  return await Promise.all(started)
}
