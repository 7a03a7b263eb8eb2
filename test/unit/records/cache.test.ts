import { describe, expect, it } from 'vitest'
import { createRecordCache, type CacheCommands } from '../../../services/records/cache.ts'
import { cachedRecord, TENANT } from '../../support/stage-doubles.ts'

const scope = { tenant: TENANT, service: 'whatsapp', version: '2' } as const
const token = Buffer.from('00112233445566778899aabbccddeeff', 'hex')
const other = Buffer.alloc(16, 7)
const KEY = 'c:{org_1.live}:whatsapp:2:ABEiM0RVZneImaq7zN3u_w'

function createRedis () {
  const values = new Map<string, string>()
  const ttls: number[] = []
  const redis: CacheCommands = {
    find: async (keys) => keys.map((key) => values.get(key) ?? null),
    keep: async (keys, kept, ms) => {
      for (const [index, key] of keys.entries()) values.set(key, kept[index] ?? '')
      ttls.push(ms)
    },
  }
  return { redis, values, ttls }
}

describe('the cache of records', () => {
  it('finds what was stored under tenant, service, version and token, for 90 days', async () => {
    const { redis, values, ttls } = createRedis()
    const cache = createRecordCache(redis)
    await cache.store(scope, [{ token, record: cachedRecord() }])
    expect([...values.keys()]).toEqual([KEY])
    expect(ttls).toEqual([90 * 86_400_000])
    expect(await cache.find(scope, Buffer.concat([other, token])))
      .toEqual([undefined, cachedRecord()])
    expect(await cache.find({ ...scope, version: '1' }, token)).toEqual([undefined])
    expect(await cache.find({ ...scope, tenant: 'org_2.live' }, token)).toEqual([undefined])
  })

  it('keeps for each contact its own record, be it one object for several or not', async () => {
    const { redis } = createRedis()
    const cache = createRecordCache(redis)
    const shared = cachedRecord()
    const own = cachedRecord({ confidence: 7 })
    const third = Buffer.alloc(16, 9)
    await cache.store(scope, [
      { token, record: shared }, { token: other, record: own }, { token: third, record: shared },
    ])
    expect(await cache.find(scope, Buffer.concat([token, other, third])))
      .toEqual([shared, own, shared])
  })

  it('never keeps a record without a verdict', async () => {
    const { redis, values } = createRedis()
    const unknown = cachedRecord({ status: 'unknown', reason: 'no_answer' })
    await createRecordCache(redis).store(scope, [{ token, record: unknown }])
    expect(values.size).toBe(0)
  })

  it.each([
    ['no JSON', '{'],
    ['no record', '{"status":"valid"}'],
    ['null', 'null'],
    ['no verdict', JSON.stringify(cachedRecord({ status: 'unknown' }))],
    ['a reason of another release', JSON.stringify({ ...cachedRecord(), reason: 'new_one' })],
  ])('takes an entry that is %s for a miss', async (_what, text) => {
    const { redis, values } = createRedis()
    values.set(KEY, text)
    expect(await createRecordCache(redis).find(scope, token)).toEqual([undefined])
  })

  it('is all misses and keeps nothing while Redis is down, and says so', async () => {
    const down = async () => { throw new Error('down') }
    const faults: unknown[] = []
    const cache = createRecordCache({ find: down, keep: down },
      { onFault: (error) => faults.push(error) })
    expect(await cache.find(scope, Buffer.concat([token, other]))).toEqual([undefined, undefined])
    await cache.store(scope, [{ token, record: cachedRecord() }])
    expect(faults).toEqual([new Error('down'), new Error('down')])
  })

  it('asks nothing for no tokens', async () => {
    const cache = createRecordCache({
      find: async () => { throw new Error('asked') }, keep: async () => {},
    }, { onFault: (error) => { throw error } })
    expect(await cache.find(scope, Buffer.alloc(0))).toEqual([])
  })
})
