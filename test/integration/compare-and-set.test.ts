import { expect, it } from 'vitest'
import { createCompareAndSet } from '../../services/runtime/platform/redis.ts'
import { startRedis } from '../support/redis/redis.ts'

const { redis } = await startRedis()

it('compare-and-set of a value in Redis ' +
  'happens only if it is unchanged, and keeps its expiry', async () => {
  const compareAndSet = createCompareAndSet(redis)
  await redis.set('text', 'a', 'PX', 86_400_000)
  expect(await compareAndSet('text', 'a', Buffer.from('b'))).toBe(true)
  expect(await compareAndSet('text', 'a', 'c')).toBe(false)
  expect(await redis.get('text')).toBe('b')
  expect(await redis.pttl('text')).toBeGreaterThan(80_000_000)
})
