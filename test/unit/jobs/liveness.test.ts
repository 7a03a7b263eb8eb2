import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { startLiveness } from '../../../services/jobs/submit.ts'

beforeEach(() => { vi.useFakeTimers() })
afterEach(() => { vi.useRealTimers() })

/** The used part of Redis: keys that expire, and failures to come. */
function redisDouble () {
  const keys = new Map<string, number>()
  const failures: Error[] = []
  return {
    keys,
    failures,
    redis: {
      set: async (...[key, , , ms]: [string, string, string, number]) => {
        const failure = failures.shift()
        if (failure !== undefined) throw failure
        keys.set(key, Date.now() + ms)
        return 'OK'
      },
      exists: async (key: string) => (keys.get(key) ?? 0) > Date.now() ? 1 : 0,
    } as unknown as Parameters<typeof startLiveness>[0],
  }
}

describe('the heartbeat of a process', () => {
  it('keeps it alive, and expires after it stops', async () => {
    const { redis, keys } = redisDouble()
    const other = await startLiveness(redis)
    const liveness = await startLiveness(redis, 'one')
    expect(other.own).not.toBe('one')
    expect([liveness.own, [...keys.keys()].at(-1)]).toEqual(['one', 'alive:one'])
    await vi.advanceTimersByTimeAsync(60_000)
    expect(await other.isGone('one')).toBe(false)
    liveness.stop()
    await vi.advanceTimersByTimeAsync(3_000)
    expect(await other.isGone('one')).toBe(false)
    await vi.advanceTimersByTimeAsync(3_000)
    expect(await other.isGone('one')).toBe(true)
    expect(await liveness.isGone(other.own)).toBe(false)
    other.stop()
  })

  it('continues after an outage of Redis, at the start too', async () => {
    const { redis, failures } = redisDouble()
    const outage = () => Object.assign(new Error('connect'), { code: 'ECONNREFUSED' })
    failures.push(outage())
    const starting = startLiveness(redis, 'one')
    await vi.advanceTimersByTimeAsync(1_000)
    const liveness = await starting
    failures.push(outage(), outage())
    await vi.advanceTimersByTimeAsync(10_000)
    expect(await liveness.isGone('one')).toBe(false)
    liveness.stop()
  })
})
