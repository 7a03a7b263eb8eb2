import { describe, expect, it } from 'vitest'
import { type RecordCache, redisRecordCache } from '../../services/cache/cache.ts'
import { packChecks } from '../../services/cache/evidence.ts'
import { buildKeyPrefix } from '../../services/cache/tokens.ts'
import { redisDomainStore } from '../../services/verify/providers/mail-domains.ts'
import { startRedis } from '../support/redis/redis.ts'
import { cachedRecord } from '../support/stage-messages.ts'

type CacheClaim = Parameters<RecordCache['claim']>[2]

const { redis } = await startRedis()
const onFault = (error: unknown) => { throw error }
const cache = redisRecordCache(redis, { onFault })
const tokens = Array.from({ length: 300 }, (_, row) => Buffer.alloc(16, `token ${row}`))
const scopeOf = (tenant: string) => ({ tenant, service: 'whatsapp', version: '1' } as const)
const DAY_MS = 86_400_000
/** Longer than any test takes: no lease ends here because its time is over. */
const LEASE_MS = 3_600_000
const claimOf = (job: string, usable: CacheClaim['usable'] = () => true): CacheClaim =>
  ({ job, leaseMs: LEASE_MS, usable })

describe('the cache in Redis', () => {
  it('keeps each record under its own token, those alike included, for 90 days', async () => {
    const scope = scopeOf('org_1.live')
    const records = tokens.map((_, row) =>
      cachedRecord({ confidence: row % 7, fields: { carrier: 'Acmé "1"' } }))
    await cache.store(scope, Buffer.concat(tokens), records)
    const found = await cache.find(scope, Buffer.concat([...tokens, Buffer.alloc(16, 'other')]))
    expect(found).toEqual([...records, undefined])
    for (const key of await redis.keys('c:*')) {
      const leftMs = await redis.pttl(key)
      expect([leftMs > 89 * DAY_MS, leftMs <= 90 * DAY_MS]).toEqual([true, true])
    }
  })

  it('keeps apart what differs in one field only, and shares equal objects', async () => {
    const scope = scopeOf('org_10.live')
    const { fields } = cachedRecord()
    const records = [
      cachedRecord({ fields }), cachedRecord({ fields, confidence: 7 }),
      cachedRecord({ fields, status: 'invalid' }), cachedRecord({ fields, reason: 'no_dns' }),
      cachedRecord({ fields, job: 'job_"2"' }), cachedRecord({ fields, checkedAtMs: 5 }),
      cachedRecord({ fields, evidence: 1 }), cachedRecord({ fields }),
    ]
    const some = Buffer.concat(tokens.slice(0, records.length))
    await cache.store(scope, some, records)
    const found = await cache.find(scope, some)
    expect(found).toEqual(records)
    expect(found.at(-1)).toBe(found[0])
  })

  it('has entries of few bytes, whose evidence releases before it ignore', async () => {
    const scope = scopeOf('org_11.live')
    const evidence = packChecks({ numbering_plan: 'passed', carrier_range: 'caution' })
    await cache.store(scope, Buffer.concat(tokens.slice(0, 2)), [
      cachedRecord({ fields: {} }), cachedRecord({ fields: {}, evidence }),
    ])
    const texts = (await redis.mget(await redis.keys(`${buildKeyPrefix(scope)}*`))).toSorted()
    const { status, reason, confidence, checkedAtMs, job } = cachedRecord()
    const plain = [status, reason, confidence, {}, checkedAtMs, job]
    expect(texts).toEqual([[...plain, evidence], plain].map(entry => JSON.stringify(entry)))
  })

  const { status, reason, confidence, fields, checkedAtMs, job } = cachedRecord()
  const entry = [status, reason, confidence, fields, checkedAtMs, job]

  it.each([
    [[...entry, 'x'], true], [[...entry, -1], true], [[...entry, null], true], [entry, true],
    [['unknown', ...entry.slice(1)], false], [['valid', 'of_another_release', 7], false],
    [[], false], [['valid'], false], [null, false], [7, false],
  ])('reads %j as a record without evidence: %s', async (value, isRecord) => {
    expect(await foundIn(JSON.stringify(value))).toEqual(isRecord ? cachedRecord() : undefined)
  })

  it.each(['', '{', 'lease job_1'])('has no record for "%s"', async text => {
    expect(await foundIn(text)).toBe(undefined)
  })
})

/** What the cache finds where an entry has this text. */
async function foundIn (text: string) {
  const scope = scopeOf('org_12.live')
  const [token = Buffer.alloc(16)] = tokens
  await redis.set(Buffer.concat([Buffer.from(buildKeyPrefix(scope)), token]), text)
  const [first, again] = await cache.find(scope, Buffer.concat([token, token]))
  expect(again).toEqual(first)
  return first
}

it('records of jobs whose tokens are of different versions ' +
  'are found by misses of the first version, and kept 3 days by the others', async () => {
  const [oldA, oldB, newA, newB] = tokens as [Buffer, Buffer, Buffer, Buffer]
  const before = scopeOf('org_8.live')
  const old = Buffer.concat([oldA, oldB])
  const fresh = Buffer.concat([newA, newB])
  const rotated = { ...before, version: '2', rotated: { versions: ['1'], tokens: old } }
  const [first, second] = [1, 2].map(confidence => cachedRecord({ confidence }))
  await cache.store(before, old, [first, undefined])
  expect(await cache.find(rotated, fresh)).toEqual([first, undefined])
  await cache.store(rotated, fresh, [undefined, second])
  expect(await cache.find(before, old)).toEqual([first, second])
  expect(await cache.find({ ...rotated, rotated: null }, fresh)).toEqual([undefined, second])
  expect(await cache.find(scopeOf('org_9.live'), old)).toEqual([undefined, undefined])
  const lasting = await Promise.all([['1', oldB], ['2', newB]].map(async ([version, token]) =>
    await redis.pttl(Buffer.concat([
      Buffer.from(buildKeyPrefix({ ...before, version: String(version) })), token as Buffer,
    ]))))
  expect(lasting.map(ms => Math.ceil(ms / DAY_MS))).toEqual([3, 90])
})

describe('leases in Redis', () => {
  const [first, second, third] = tokens as [Buffer, Buffer, Buffer]
  const both = Buffer.concat([first, second])

  it('belong to the first job until they are released, and end by themselves', async () => {
    const scope = scopeOf('org_2.live')
    expect(await cache.claim(scope, both, claimOf('job_1'))).toEqual(['mine', 'mine'])
    const others = Buffer.concat([third, second])
    expect(await cache.claim(scope, others, claimOf('job_2'))).toEqual(['mine', 'leased'])
    expect(await cache.claim(scope, second, claimOf('job_1'))).toEqual(['mine'])
    expect(await cache.find(scope, both)).toEqual([undefined, undefined])
    await cache.release(scope, third, 'job_1')
    await cache.release(scope, both, 'job_1')
    expect(await cache.claim(scope, third, claimOf('job_1'))).toEqual(['leased'])
    expect(await cache.claim(scope, others, claimOf('job_2'))).toEqual(['mine', 'mine'])
    const [key = ''] = await redis.keys(`${buildKeyPrefix(scope)}*`)
    const leftMs = await redis.pttl(key)
    expect(leftMs).toBeGreaterThan(0)
    expect(leftMs).toBeLessThanOrEqual(LEASE_MS)
  })

  it('end with the verdict, which answers every waiting job', async () => {
    const scope = scopeOf('org_3.live')
    await cache.claim(scope, both, claimOf('job_1'))
    const record = cachedRecord({ job: 'job_1' })
    await cache.store(scope, both, [record, cachedRecord({ status: 'unknown', job: 'job_1' })])
    expect(await cache.claim(scope, both, claimOf('job_2'))).toEqual([record, 'leased'])
    await cache.release(scope, both, 'job_1')
    expect(await cache.claim(scope, both, claimOf('job_2'))).toEqual([record, 'mine'])
  })

  it('replace unusable records, for one job only', async () => {
    const scope = scopeOf('org_4.live')
    await cache.store(scope, both, [cachedRecord({ confidence: 1 }), cachedRecord()])
    const picky = ({ confidence }: { confidence: number }) => confidence > 1
    expect(await cache.claim(scope, both, claimOf('job_1', picky)))
      .toEqual(['mine', cachedRecord()])
    expect(await cache.claim(scope, both, claimOf('job_2', picky)))
      .toEqual(['leased', cachedRecord()])
    await redis.set((await redis.keys(`${buildKeyPrefix(scope)}*`))[0] ?? '', 'of another release')
    // Both read it before one of them replaces it.
    const answers = await Promise.all(['job_3', 'job_4'].map(async job =>
      (await cache.claim(scope, both, claimOf(job, picky))).filter(answer => answer === 'mine')))
    expect(answers.map(({ length }) => length)).toEqual([1, 0])
  })
})

describe('leases of jobs whose tokens are of different versions', () => {
  const [oldA, oldB, newA, newB] = tokens as [Buffer, Buffer, Buffer, Buffer]
  const old = Buffer.concat([oldA, oldB])
  const fresh = Buffer.concat([newA, newB])
  const before = scopeOf('org_5.live')
  const rotated = { ...before, version: '2', rotated: { versions: ['1'], tokens: old } }

  it('prevent duplicate checks by the other, in either order', async () => {
    const [rowA, rowB] = [0, 1].map(row => ({
      ...rotated, rotated: { versions: ['1'], tokens: row === 0 ? oldA : oldB },
    }))
    expect(await cache.claim(before, oldA, claimOf('job_old'))).toEqual(['mine'])
    expect(await cache.claim(rotated, fresh, claimOf('job_new'))).toEqual(['leased', 'mine'])
    expect(await cache.claim(before, old, claimOf('job_old'))).toEqual(['mine', 'leased'])
    expect(await cache.claim(rotated, fresh, claimOf('job_new'))).toEqual(['leased', 'mine'])

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
    const usable: CacheClaim['usable'] = ({ confidence }) => confidence > 1
    await cache.store({ ...scope, rotated: null }, fresh, [stale, stale])
    await cache.store({ ...scope, version: '1', rotated: null }, oldB, [cachedRecord()])
    expect(await cache.claim(scope, fresh, claimOf('job_1', usable)))
      .toEqual(['mine', cachedRecord()])
    expect(await cache.claim(scope, fresh, claimOf('job_2', usable)))
      .toEqual(['leased', cachedRecord()])
  })
})

it('offers in Redis ' +
  'fill only entries without a usable record, for 90 days, visible to all', async () => {
  const scope = scopeOf('org_7.live')
  const all = Buffer.concat(tokens)
  const records = tokens.map((_, row) => cachedRecord({ confidence: row % 99, job: 'job_1' }))
  const theirs = cachedRecord({ job: 'job_2', fields: { carrier: 'Acmé' } })
  const [first, second, third] = tokens as [Buffer, Buffer, Buffer]
  await cache.store(scope, first, [theirs])
  await cache.store(scope, second, [cachedRecord({ confidence: 100 })])
  await cache.claim(scope, third, claimOf('job_3'))
  const usable: CacheClaim['usable'] = ({ confidence }) => confidence < 100
  const expected = [theirs, records[1], 'leased', ...records.slice(3)]
  expect(await cache.offer(scope, all, { records, usable })).toEqual(expected)
  expect(await cache.find(scope, all)).toEqual(expected.with(2, undefined))
  const other = tokens.map(() => cachedRecord({ job: 'job_4' }))
  expect(await cache.offer(scope, all, { records: other, usable })).toEqual(expected)
  const lasting = await Promise.all((await redis.keys(`${buildKeyPrefix(scope)}*`)).map(
    async (key) => await redis.pttl(key)))
  expect(lasting.filter((ms) => ms > 89 * DAY_MS)).toHaveLength(299)
})

describe('results of mail domains in Redis', () => {
  const domains = redisDomainStore(redis, 'mail-domain', onFault)

  it('are found until they expire, under a digest of the domain', async () => {
    expect(await domains.read('plain.org')).toBeUndefined()
    await domains.write('plain.org', 'accepts mx.*1.org', LEASE_MS)
    const found = await domains.read('plain.org')
    expect(found).toEqual({ text: 'accepts mx.*1.org', ttlMs: expect.any(Number) })
    expect(found?.ttlMs).toBeGreaterThan(0)
    expect(found?.ttlMs).toBeLessThanOrEqual(LEASE_MS)
    const [key = '', ...others] = await redis.keys('mail-domain:*')
    expect([others, key.includes('plain')]).toEqual([[], false])
  })

  it('are missing while Redis is unavailable', async () => {
    const faults: unknown[] = []
    const closed = redis.duplicate({ enableOfflineQueue: false, lazyConnect: true })
    const cut = redisDomainStore(closed, 'mail-domain', error => faults.push(error))
    await cut.write('plain.org', 'refuses', LEASE_MS)
    expect(await cut.read('plain.org')).toBeUndefined()
    expect(faults).toHaveLength(2)
  })
})
