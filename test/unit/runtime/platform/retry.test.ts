import { expect, it } from 'vitest'
import {
  backoffMs, retry, retryForever, sleep, startRepeating, unlessAborted, withTimeout,
} from '../../../../services/runtime/platform/retry.ts'

const failing = (failures: number) => {
  let calls = 0
  return async () => {
    if (++calls <= failures) throw new Error(`failure ${calls}`)
    return calls
  }
}
const noSleep = { sleep: async () => {} }

it('backoff doubles up to the maximum, with full jitter', () => {
  const bound = (attempt: number) => backoffMs(attempt, { random: () => 1 })
  expect([1, 2, 3, 7, 8, 1_000].map(bound)).toEqual([100, 200, 400, 6_400, 10_000, 10_000])
  expect(backoffMs(3, { random: () => 0.5 })).toBe(200)
  expect(backoffMs(9, { random: () => 0 })).toBe(0)
})

it('unlessAborted has no result after an abort, whatever becomes of the work', async () => {
  // A rejection that nothing handles fails the run of the tests.
  const failed = Promise.reject(new Error('late'))
  expect(await unlessAborted(failed, AbortSignal.abort())).toBeUndefined()
  expect(await unlessAborted(Promise.resolve(7), AbortSignal.abort())).toBeUndefined()
  expect(await unlessAborted(Promise.resolve(7), new AbortController().signal)).toBe(7)
})

it('retryForever throws the reason of its signal, even during a pause', async () => {
  const life = new AbortController()
  const onRetry = () => setImmediate(() => life.abort(new Error('stopped')))
  const slow = { firstMs: 60_000, maxMs: 60_000, random: () => 1 }
  const options = { ...slow, signal: life.signal, onRetry }
  await expect(retryForever(failing(Infinity), options)).rejects.toThrow('stopped')
  await expect(sleep(60_000, life.signal)).rejects.toThrow('stopped')
})

it('retry throws the last failure', async () => {
  expect(await retry(3, failing(2), noSleep)).toBe(3)
  await expect(retry(3, failing(3), noSleep)).rejects.toThrow('failure 3')
})

it('withTimeout ends with the work or the timeout, and rejects with the work', async () => {
  await withTimeout(Promise.resolve(1), 60_000)
  await withTimeout(undefined, 60_000)
  await withTimeout(new Promise(() => {}), 1)
  await withTimeout(new Promise(() => {}), -1)
  await expect(withTimeout(failing(1)(), 60_000)).rejects.toThrow('failure 1')
})

it('a repeated action goes on after a failure, and ends before it is stopped', async () => {
  const failures: unknown[] = []
  const again = Promise.withResolvers<void>()
  const hold = Promise.withResolvers<void>()
  let runs = 0
  let isEnded = false
  const { stop } = startRepeating(1, async () => {
    runs += 1
    if (runs === 1) throw new Error('first')
    again.resolve()
    await hold.promise
    isEnded = true
  }, error => failures.push(error))
  await again.promise
  const stopped = stop()
  hold.resolve()
  await stopped
  expect([runs, isEnded, failures.map(String)]).toEqual([2, true, ['Error: first']])
})
