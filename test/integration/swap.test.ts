import { describe, expect, it } from 'vitest'
import { createSwap } from '../../services/lib/swap.ts'
import { startRedis } from '../support/redis.ts'

const { redis } = await startRedis()

describe('changing a value in Redis', () => {
  it('happens only when it is still the one that was seen, and keeps its expiry', async () => {
    const swap = createSwap(redis)
    await redis.set('text', 'a', 'PX', 86_400_000)
    await redis.hset('hash', { field: 'a' })
    expect(await swap({ key: 'text' }, 'a', Buffer.from('b'))).toBe(true)
    expect(await swap({ key: 'text' }, 'a', 'c')).toBe(false)
    expect(await redis.get('text')).toBe('b')
    expect(await redis.pttl('text')).toBeGreaterThan(80_000_000)
    expect(await swap({ key: 'hash', field: 'field' }, 'a', 'b')).toBe(true)
    expect(await swap({ key: 'hash', field: 'other' }, 'a', 'b')).toBe(false)
    expect(await redis.hgetall('hash')).toEqual({ field: 'b' })
  })
})
