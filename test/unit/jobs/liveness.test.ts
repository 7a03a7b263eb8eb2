import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { startLiveness } from '../../../services/jobs/submit.ts'
import { expectLifetime } from '../../support/lifetime.ts'
import { workerRedis as redis, emptyRedis } from '../../support/redis/worker.ts'

beforeEach(async () => {
  await emptyRedis()
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
})
afterEach(() => {
  vi.restoreAllMocks()
  vi.useRealTimers()
})

/** The life of a process that has just shown that it is alive. */
const beat = { key: 'alive:one', ms: 5_000 }

it('a process is gone when its heartbeat has expired, which ends with it', async () => {
  const other = await startLiveness(redis)
  const liveness = await expectLifetime(redis, beat, () => startLiveness(redis, 'one'))
  expect([liveness.own, other.own]).toEqual(['one', expect.stringMatching(/^[0-9a-f-]{36}$/)])
  expect(await other.isGone('one')).toBe(false)
  // It beats thrice in that time.
  await redis.pexpire(beat.key, 1_000_000)
  await expectLifetime(redis, beat, async () => { vi.advanceTimersByTime(1_500) })
  liveness.stop()
  await redis.del(beat.key)
  vi.advanceTimersByTime(60_000)
  expect([await other.isGone('one'), await liveness.isGone(other.own)]).toEqual([true, false])
  other.stop()
})

it('a heartbeat continues after an outage of Redis, at the start too', async () => {
  const outage = Object.assign(new Error('connect'), { code: 'ECONNREFUSED' })
  const set = vi.spyOn(redis, 'set').mockRejectedValueOnce(outage)
  const liveness = await startLiveness(redis, 'one')
  await redis.del(beat.key)
  set.mockRejectedValueOnce(outage)
  vi.advanceTimersByTime(1_500)
  expect(await liveness.isGone('one')).toBe(true)
  await expectLifetime(redis, beat, async () => { vi.advanceTimersByTime(1_500) })
  liveness.stop()
})
