import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import type { CachedRecord, Claim } from '../../services/records/cache.ts'
import { redisRecordCache } from '../../services/records/redis-cache.ts'
import { cacheKeys, countEntries } from '../support/cache-entries.ts'
import { startRedis } from '../support/redis.ts'
import { cachedRecord } from '../support/stage-doubles.ts'

const DAY_MS = 86_400_000
const { redis } = await startRedis()
const onFault = (error: unknown) => { throw error }
const cache = redisRecordCache(redis, { onFault })
const tokens = Array.from({ length: 300 }, (_, row) => Buffer.alloc(16, `token ${row}`))
const scopeOf = (tenant: string) => ({ tenant, service: 'whatsapp', version: '1' } as const)
const claimOf = (job: string, usable: Claim['usable'] = () => true): Claim =>
  ({ job, leaseMs: 30_000, usable })

describe('the cache in Redis', () => {
  it('keeps each record under its own token, those alike included, for 90 days', async () => {
    const scope = scopeOf('org_1.live')
    const records = tokens.map((_, row) =>
      cachedRecord({ confidence: row % 7, fields: { carrier: 'Acmé "1"' } }))
    await cache.store(scope, Buffer.concat(tokens), records)
    const found = await cache.find(scope, Buffer.concat([...tokens, Buffer.alloc(16, 'other')]))
    expect(found).toEqual([...records, undefined])
    const { buckets, texts } = await cacheKeys(redis, 'c:{org_1.live}:')
    expect(texts).toHaveLength(7)
    for (const text of texts) expect(await redis.pttl(text)).toBeLessThanOrEqual(90 * DAY_MS)
    for (const key of [...texts, ...buckets]) {
      expect(await redis.pttl(key)).toBeGreaterThan(90 * DAY_MS - 60_000)
    }
  })

  it('forgets all whose common text was evicted, and keeps them anew', async () => {
    const scope = scopeOf('org_8.live')
    const three = Buffer.concat(tokens.slice(0, 3))
    const kept = cachedRecord({ confidence: 1 })
    await cache.store(scope, three, [kept, kept, cachedRecord({ confidence: 2 })])
    for (const text of (await cacheKeys(redis, 'c:{org_8.live}:')).texts) {
      if (String(await redis.get(text)).includes('"confidence":1')) await redis.del(text)
    }
    expect(await cache.find(scope, three))
      .toEqual([undefined, undefined, cachedRecord({ confidence: 2 })])
    expect(await cache.claim(scope, three, claimOf('job_1')))
      .toEqual(['mine', 'mine', cachedRecord({ confidence: 2 })])
    await cache.store(scope, three, [kept, kept, undefined])
    expect((await cache.find(scope, three)).slice(0, 2)).toEqual([kept, kept])
  })

  it('drops entries that hold nothing once a day, where others come', async () => {
    const scope = scopeOf('org_9.live')
    const start = 'c:{org_9.live}:'
    const of = (row: number) => tokens[row] ?? Buffer.alloc(16)
    await cache.store(scope, of(0), [cachedRecord({ confidence: 1 })])
    const ended = (await cacheKeys(redis, start)).texts
    await cache.store(scope, of(1), [cachedRecord({ confidence: 2 })])
    await redis.del(...ended)
    await cache.store(scope, of(2), [cachedRecord({ confidence: 3 })])
    expect(await countEntries(redis, start)).toBe(3)
    for (const bucket of (await cacheKeys(redis, start)).buckets) {
      await redis.pexpire(bucket, 90 * DAY_MS - 1)
    }
    await cache.store(scope, of(3), [cachedRecord({ confidence: 4 })])
    expect(await countEntries(redis, start)).toBe(3)
    expect((await cache.find(scope, Buffer.concat(tokens.slice(0, 4)))).map((one) =>
      one?.confidence)).toEqual([undefined, 2, 3, 4])
  })

  it('takes a tenth of the memory that a key for each entry would', async () => {
    const scope = scopeOf('org_10.live')
    const rows = 20_000
    const bytesNow = async () => Number(/used_memory:(\d+)/.exec(await redis.info('memory'))?.[1])
    const many = randomBytes(rows * 16)
    // As few different buckets as an organization with ten million contacts has for so many.
    for (let row = 0; row < rows; row++) many[row * 16] = 0
    const before = await bytesNow()
    const record = cachedRecord({ fields: { carrier: 'A carrier', region: 'A region' } })
    for (let row = 0; row < rows; row += 1_000) {
      const part = many.subarray(row * 16, (row + 1_000) * 16)
      await cache.store(scope, part, new Array<CachedRecord>(1_000).fill(record))
    }
    expect(await countEntries(redis, 'c:{org_10.live}:')).toBe(rows)
    expect((await bytesNow() - before) / rows).toBeLessThan(70)
  })
})

describe('leases in Redis', () => {
  const [first, second, third] = tokens as [Buffer, Buffer, Buffer]
  const both = Buffer.concat([first, second])

  it('belong to the first job until they are released, and end by themselves', async () => {
    const scope = scopeOf('org_2.live')
    expect(await cache.claim(scope, both, claimOf('job_1'))).toEqual(['mine', 'mine'])
    const others = Buffer.concat([third, second])
    expect(await cache.claim(scope, others, claimOf('job_2'))).toEqual(['mine', 'held'])
    expect(await cache.claim(scope, second, claimOf('job_1'))).toEqual(['mine'])
    expect(await cache.find(scope, both)).toEqual([undefined, undefined])
    await cache.release(scope, third, 'job_1')
    await cache.release(scope, both, 'job_1')
    expect(await cache.claim(scope, third, claimOf('job_1'))).toEqual(['held'])
    expect(await cache.claim(scope, others, claimOf('job_2'))).toEqual(['mine', 'mine'])
    const [lease = ''] = (await cacheKeys(redis, 'c:{org_2.live}:')).texts
    const leftMs = await redis.pttl(lease)
    expect(leftMs).toBeGreaterThan(0)
    expect(leftMs).toBeLessThanOrEqual(30_000)
  })

  it('end with the verdict, which answers whoever waited', async () => {
    const scope = scopeOf('org_3.live')
    await cache.claim(scope, both, claimOf('job_1'))
    const record = cachedRecord({ job: 'job_1' })
    await cache.store(scope, both, [record, cachedRecord({ status: 'unknown', job: 'job_1' })])
    expect(await cache.claim(scope, both, claimOf('job_2'))).toEqual([record, 'held'])
    await cache.release(scope, both, 'job_1')
    expect(await cache.claim(scope, both, claimOf('job_2'))).toEqual([record, 'mine'])
  })

  it('take the place of records that may not be used, for one job alone', async () => {
    const scope = scopeOf('org_4.live')
    await cache.store(scope, both, [cachedRecord({ confidence: 1 }), cachedRecord()])
    const picky = ({ confidence }: { confidence: number }) => confidence > 1
    expect(await cache.claim(scope, both, claimOf('job_1', picky)))
      .toEqual(['mine', cachedRecord()])
    expect(await cache.claim(scope, both, claimOf('job_2', picky)))
      .toEqual(['held', cachedRecord()])
    for (const text of (await cacheKeys(redis, 'c:{org_4.live}:')).texts) {
      const isHeld = String(await redis.get(text)).startsWith('lease')
      if (isHeld) await redis.set(text, 'of another release')
    }
    const answers = await cache.claim(scope, both, claimOf('job_3', picky))
    expect(answers.filter((answer) => answer === 'mine')).toHaveLength(1)
  })
})

describe('leases of jobs whose tokens are of different versions', () => {
  const [oldA, oldB, newA, newB] = tokens as [Buffer, Buffer, Buffer, Buffer]
  const old = Buffer.concat([oldA, oldB])
  const fresh = Buffer.concat([newA, newB])
  const before = scopeOf('org_5.live')
  const rotated = { ...before, version: '2', others: { versions: ['1'], tokens: old } }

  it('keep the other from the same check, whichever came first', async () => {
    const [rowA, rowB] = [0, 1].map(row => ({
      ...rotated, others: { versions: ['1'], tokens: row === 0 ? oldA : oldB },
    }))
    expect(await cache.claim(before, oldA, claimOf('job_old'))).toEqual(['mine'])
    expect(await cache.claim(rotated, fresh, claimOf('job_new'))).toEqual(['held', 'mine'])
    expect(await cache.claim(before, old, claimOf('job_old'))).toEqual(['mine', 'held'])
    expect(await cache.claim(rotated, fresh, claimOf('job_new'))).toEqual(['held', 'mine'])

    // A verdict of either is the other's, and what got none is free for both.
    const bought = cachedRecord({ job: 'job_new' })
    await cache.store(rowB!, newB, [bought])
    expect(await cache.claim(before, oldB, claimOf('job_old'))).toEqual([bought])
    await cache.release(before, oldA, 'job_old')
    expect(await cache.claim(rowA!, newA, claimOf('job_new'))).toEqual(['mine'])
    await cache.release(rowA!, newA, 'job_new')
    expect(await cache.claim(before, oldA, claimOf('job_old'))).toEqual(['mine'])
  })

  it('leave alone what only some of the versions have a usable record of', async () => {
    const scope = { ...rotated, tenant: 'org_6.live' }
    const stale = cachedRecord({ confidence: 1 })
    const usable: Claim['usable'] = ({ confidence }) => confidence > 1
    await cache.store({ ...scope, others: null }, fresh, [stale, stale])
    await cache.store({ ...scope, version: '1', others: null }, oldB, [cachedRecord()])
    expect(await cache.claim(scope, fresh, claimOf('job_1', usable)))
      .toEqual(['mine', cachedRecord()])
    expect(await cache.claim(scope, fresh, claimOf('job_2', usable)))
      .toEqual(['held', cachedRecord()])
  })
})

describe('offers in Redis', () => {
  it('stand where nothing usable does, each its own, for 90 days, seen by all', async () => {
    const scope = scopeOf('org_7.live')
    const all = Buffer.concat(tokens)
    const records = tokens.map((_, row) => cachedRecord({ confidence: row % 99, job: 'job_1' }))
    const theirs = cachedRecord({ job: 'job_2', fields: { carrier: 'Acmé' } })
    const [first, second, third] = tokens as [Buffer, Buffer, Buffer]
    await cache.store(scope, first, [theirs])
    await cache.store(scope, second, [cachedRecord({ confidence: 100 })])
    await cache.claim(scope, third, claimOf('job_3'))
    const usable: Claim['usable'] = ({ confidence }) => confidence < 100
    const expected = [theirs, records[1], 'held', ...records.slice(3)]
    expect(await cache.offer(scope, all, { records, usable })).toEqual(expected)
    expect(await cache.find(scope, all)).toEqual(expected.with(2, undefined))
    const other = tokens.map(() => cachedRecord({ job: 'job_4' }))
    expect(await cache.offer(scope, all, { records: other, usable })).toEqual(expected)
    const { texts } = await cacheKeys(redis, 'c:{org_7.live}:')
    const lasting = await Promise.all(texts.map((text) => redis.pttl(text)))
    expect(lasting.filter((ms) => ms <= 30_000)).toHaveLength(1)
    expect(lasting.filter((ms) => ms > 89 * DAY_MS)).toHaveLength(lasting.length - 1)
  })
})
