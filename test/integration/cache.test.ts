import { describe, expect, it } from 'vitest'
import { cacheCommands, createRecordCache } from '../../services/records/cache.ts'
import { createLeases, leaseCommands } from '../../services/verify/leases.ts'
import { startRedis } from '../support/redis.ts'
import { cachedRecord } from '../support/stage-doubles.ts'

const { redis } = await startRedis()
const onFault = (error: unknown) => { throw error }
const tokens = Array.from({ length: 300 }, (_, row) => Buffer.alloc(16, `token ${row}`))
const scopeOf = (tenant: string) => ({ tenant, service: 'whatsapp', version: '1' } as const)

describe('the cache in Redis', () => {
  const cache = createRecordCache(cacheCommands(redis), { onFault })

  it('keeps each record under its own token, those alike included, for 90 days', async () => {
    const scope = scopeOf('org_1.live')
    const records = tokens.map((token, row) =>
      ({ token, record: cachedRecord({ confidence: row % 7, fields: { carrier: 'Acmé "1"' } }) }))
    await cache.store(scope, records)
    const found = await cache.find(scope, Buffer.concat([...tokens, Buffer.alloc(16, 'other')]))
    expect(found).toEqual([...records.map(({ record }) => record), undefined])
    for (const key of await redis.keys('c:*')) {
      expect(90 * 86_400_000 - await redis.pttl(key)).toBeLessThan(60_000)
    }
  })
})

describe('leases in Redis', () => {
  const leases = createLeases(leaseCommands(redis), { leaseMs: 30_000, onFault })
  const scope = scopeOf('org_2.live')
  const [first, second, third] = tokens as [Buffer, Buffer, Buffer]

  it('belong to the first owner until they are released, and end by themselves', async () => {
    expect(await leases.take(scope, [first, second], 'job_1')).toEqual([true, true])
    expect(await leases.take(scope, [third, second], 'job_2')).toEqual([true, false])
    expect(await leases.take(scope, [second], 'job_1')).toEqual([true])
    await leases.release(scope, [third], 'job_1')
    await leases.release(scope, [first, second], 'job_1')
    expect(await leases.take(scope, [third], 'job_1')).toEqual([false])
    expect(await leases.take(scope, [second, third], 'job_2')).toEqual([true, true])
    const [key = ''] = await redis.keys('l:*')
    const leftMs = await redis.pttl(key)
    expect(leftMs).toBeGreaterThan(0)
    expect(leftMs).toBeLessThanOrEqual(30_000)
  })
})
