import { describe, expect, it } from 'vitest'
import {
  createRecordCache, type CacheClaim, type Offer, keyPrefixOf,
} from '../../../services/cache/cache.ts'
import {
  type CacheCommands, type Entries, tokenCount, claimEntries, type CachedRecord, createWriter,
} from '../../../services/cache/entries.ts'
import { splitTokens } from '../../support/cache-double.ts'
import { cachedRecord, TENANT } from '../../support/stage-doubles.ts'

const scope = { tenant: TENANT, service: 'whatsapp', version: '2' } as const
const token = Buffer.from('00112233445566778899aabbccddeeff', 'hex')
const other = Buffer.alloc(16, 7)
const claimOf = (job: string): CacheClaim => ({ job, leaseMs: 30_000, usable: () => true })
const offerOf = (...records: CachedRecord[]): Offer => ({ records, usable: () => true })
const KEY = `${keyPrefixOf(scope)}00112233445566778899aabbccddeeff`

function createRedis () {
  const values = new Map<string, string>()
  const ttls: number[] = []
  const namesOf = ({ keyPrefix, tokens }: Entries) =>
    splitTokens(tokens).map((one) => keyPrefix + one.toString('hex'))
  const redis: CacheCommands = {
    find: async (entries) => namesOf(entries).map((name) => values.get(name) ?? null),
    put: async (entries, kept, ms) => {
      for (const [index, name] of namesOf(entries).entries()) values.set(name, kept[index] ?? '')
      ttls.push(ms)
    },
    // Of one version only; those of several are tried on Redis itself.
    claim: async ([entries], own, { ms, stale }) => {
      ttls.push(ms)
      return namesOf(entries as Entries).map((name, row) => {
        const held = values.get(name) ?? null
        if (held !== null && !stale.includes(held)) return held
        values.set(name, own[row] ?? '')
        return null
      })
    },
    release: async (entries, lease) => {
      for (const name of namesOf(entries)) if (values.get(name) === lease) values.delete(name)
    },
    erase: async (entries, lease) => {
      for (const name of namesOf(entries)) {
        if (values.get(name)?.startsWith(lease) !== true) values.delete(name)
      }
    },
  }
  return { redis, values, ttls }
}

describe('the cache of records', () => {
  it('finds what was stored under tenant, service, version and token, for 90 days', async () => {
    const { redis, values, ttls } = createRedis()
    const cache = createRecordCache(redis)
    await cache.store(scope, token, [cachedRecord()])
    expect([...values.keys()]).toEqual([KEY])
    expect(ttls).toEqual([90 * 86_400_000])
    expect(await cache.find(scope, Buffer.concat([other, token])))
      .toEqual([undefined, cachedRecord()])
    expect(await cache.find({ ...scope, version: '1' }, token)).toEqual([undefined])
    expect(await cache.find({ ...scope, tenant: 'org_2.live' }, token)).toEqual([undefined])
  })

  it('finds misses under another version, and stores under both', async () => {
    const { redis, values, ttls } = createRedis()
    const cache = createRecordCache(redis)
    const before = { ...scope, version: '1' }
    const old = Buffer.concat([Buffer.alloc(16, 1), Buffer.alloc(16, 2)])
    await cache.store(before, old, [cachedRecord({ confidence: 1 }), undefined])
    const fresh = Buffer.concat([token, other])
    const rotated = { ...scope, rotated: { versions: ['1'], tokens: old } }
    expect(await cache.find(rotated, fresh)).toEqual([cachedRecord({ confidence: 1 }), undefined])
    await cache.store(rotated, fresh, [undefined, cachedRecord({ confidence: 2 })])
    expect(await cache.find(before, old))
      .toEqual([cachedRecord({ confidence: 1 }), cachedRecord({ confidence: 2 })])
    expect(await cache.find(scope, fresh)).toEqual([undefined, cachedRecord({ confidence: 2 })])
    expect(values.size).toBe(3)
    expect(ttls).toEqual([90 * 86_400_000, 90 * 86_400_000, 86_400_000])
  })

  it('stores a record per contact, shared object or not', async () => {
    const { redis } = createRedis()
    const cache = createRecordCache(redis)
    const shared = cachedRecord()
    const own = cachedRecord({ confidence: 7 })
    const third = Buffer.alloc(16, 9)
    const tokens = Buffer.concat([token, other, third])
    await cache.store(scope, tokens, [shared, own, shared])
    expect(await cache.find(scope, tokens))
      .toEqual([shared, own, shared])
  })

  it('never keeps a record without a verdict', async () => {
    const { redis, values } = createRedis()
    const unknown = cachedRecord({ status: 'unknown', reason: 'no_answer' })
    await createRecordCache(redis).store(scope, token, [unknown])
    expect(values.size).toBe(0)
  })

  it.each([
    ['no JSON', '{'],
    ['no record', '["valid"]'],
    ['null', 'null'],
    ['no verdict', createWriter()(cachedRecord({ status: 'unknown' }))],
    ['a lease', 'lease job_1'],
    ['a reason of another release', createWriter()(cachedRecord({ reason: 'new_one' as never }))],
  ])('treats an entry that is %s as a miss', async (_what, text) => {
    const { redis, values } = createRedis()
    values.set(KEY, text)
    expect(await createRecordCache(redis).find(scope, token)).toEqual([undefined])
  })

  it('has only misses while Redis is down, and reports the error', async () => {
    const down = async () => { throw new Error('down') }
    const faults: unknown[] = []
    const commands = { find: down, put: down, claim: down, release: down, erase: down }
    const cache = createRecordCache(commands, { onFault: (error) => faults.push(error) })
    expect(await cache.find(scope, Buffer.concat([token, other]))).toEqual([undefined, undefined])
    await cache.store(scope, token, [cachedRecord()])
    expect(await cache.claim(scope, Buffer.concat([token, other]), claimOf('job_1')))
      .toEqual(['mine', 'mine'])
    expect(await cache.offer(scope, token, offerOf(cachedRecord()))).toEqual([cachedRecord()])
    await cache.release(scope, token, 'job_1')
    expect(faults).toEqual(new Array(5).fill(new Error('down')))
    // An erasure must not be taken for done.
    await expect(cache.erase(scope, token)).rejects.toThrow('down')
  })

  it('sends no command without tokens', async () => {
    const fail = async () => { throw new Error('unexpected call') }
    const commands = { find: fail, put: fail, claim: fail, release: fail, erase: fail }
    const cache = createRecordCache(commands, { onFault: (error) => { throw error } })
    const none = Buffer.alloc(0)
    expect(await cache.find(scope, none)).toEqual([])
    expect(await cache.claim(scope, none, claimOf('job_1'))).toEqual([])
    expect(await cache.offer(scope, none, offerOf())).toEqual([])
    await cache.release(scope, none, 'job_1')
    await cache.erase(scope, none)
    await cache.store(scope, token, [undefined])
  })
})

describe('a lease', () => {
  const tokens = Buffer.concat([token, other])

  it('belongs to the first job until a verdict replaces it', async () => {
    const { redis, values } = createRedis()
    const cache = createRecordCache(redis)
    expect(await cache.claim(scope, token, claimOf('job_1'))).toEqual(['mine'])
    expect(values.get(KEY)).toBe('lease job_1')
    expect(await cache.claim(scope, tokens, claimOf('job_2'))).toEqual(['leased', 'mine'])
    expect(await cache.claim(scope, tokens, claimOf('job_1'))).toEqual(['mine', 'leased'])
    await cache.store(scope, tokens, [cachedRecord()])
    expect(await cache.claim(scope, tokens, claimOf('job_2'))).toEqual([cachedRecord(), 'mine'])
    await cache.release(scope, tokens, 'job_2')
    expect(await cache.claim(scope, tokens, claimOf('job_1'))).toEqual([cachedRecord(), 'mine'])
  })

  it('takes the place of what may not be used or cannot be read', async () => {
    const { redis, values } = createRedis()
    const cache = createRecordCache(redis)
    await cache.store(scope, tokens, [cachedRecord(), cachedRecord({ confidence: 7 })])
    const usable: CacheClaim['usable'] = ({ confidence }) => confidence === 7
    expect(await cache.claim(scope, tokens, { ...claimOf('job_1'), usable }))
      .toEqual(['mine', cachedRecord({ confidence: 7 })])
    values.set(KEY, '{')
    expect(await cache.claim(scope, token, claimOf('job_2'))).toEqual(['mine'])
  })

  it('is not claimed if the entry was replaced in between', async () => {
    const { redis, values } = createRedis()
    values.set(KEY, '{')
    const cache = createRecordCache({
      ...redis,
      claim: async (...args) => {
        const answer = await redis.claim(...args)
        if (values.get(KEY) === '{') values.set(KEY, 'lease job_2')
        return answer
      },
    })
    expect(await cache.claim(scope, token, claimOf('job_1'))).toEqual(['leased'])
  })
})

describe('an offer', () => {
  const tokens = Buffer.concat([token, other])
  const own = cachedRecord({ job: 'job_1' })
  const theirs = cachedRecord({ job: 'job_2', confidence: 7 })

  it('is stored for 90 days unless another record came first', async () => {
    const { redis, ttls } = createRedis()
    const cache = createRecordCache(redis)
    await cache.store(scope, other, [theirs])
    expect(await cache.offer(scope, tokens, offerOf(own, own))).toEqual([own, theirs])
    expect(ttls).toEqual([90 * 86_400_000, 90 * 86_400_000])
    expect(await cache.offer(scope, tokens, offerOf(theirs, own))).toEqual([own, theirs])
    expect(await cache.find(scope, tokens)).toEqual([own, theirs])
  })

  it('returns the earlier offer when it is repeated', async () => {
    const cache = createRecordCache(createRedis().redis)
    await cache.offer(scope, token, offerOf(own))
    const later = { ...own, checkedAtMs: own.checkedAtMs + 1 }
    expect(await cache.offer(scope, token, offerOf(later))).toEqual([own])
  })

  it('does not replace a lease', async () => {
    const { redis, values } = createRedis()
    values.set(KEY, 'lease job_2')
    expect(await createRecordCache(redis).offer(scope, tokens, offerOf(own, own)))
      .toEqual(['leased', own])
    expect(values.get(KEY)).toBe('lease job_2')
  })

  it('takes the place of what may not be used or cannot be read', async () => {
    const { redis, values } = createRedis()
    const cache = createRecordCache(redis)
    await cache.store(scope, tokens, [cachedRecord({ confidence: 1 }), theirs])
    const usable: Offer['usable'] = ({ confidence }) => confidence > 1
    expect(await cache.offer(scope, tokens, { records: [own, own], usable }))
      .toEqual([own, theirs])
    values.set(KEY, '{')
    expect(await cache.offer(scope, token, offerOf(own))).toEqual([own])
    expect(await cache.find(scope, tokens)).toEqual([own, theirs])
  })
})

describe('the prefixes of entry names', () => {
  it('are unique per scope, short, and in one slot for all versions', () => {
    const scopes = [
      scope, { ...scope, version: '1' }, { ...scope, service: 'telegram' },
      { ...scope, tenant: 'org_2.live' },
    ] as const
    expect(new Set(scopes.map(keyPrefixOf)).size).toBe(4)
    for (const one of scopes) expect(keyPrefixOf(one)).toMatch(/^c:\{[\w-]{6}\}[12]:$/)
    const [own, older] = scopes.map(one => /\{.*\}/.exec(keyPrefixOf(one))?.[0])
    expect(older).toBe(own)
  })

  it('are the same for the two carrier services, which make the same check', () => {
    const carriers = ['carrier-single', 'carrier-lookup'] as const
    expect(new Set(carriers.map((service) => keyPrefixOf({ ...scope, service }))).size).toBe(1)
  })
})

describe('claimEntries', () => {
  it('returns the values of others, and undefined for its own text', async () => {
    const { redis, values } = createRedis()
    const entries = { keyPrefix: 'c:', tokens: Buffer.concat([token, other]) }
    values.set(`c:${token.toString('hex')}`, 'lease job_2')
    expect(await claimEntries(redis, [entries], { own: ['a', 'b'], ms: 1, usable: () => true }))
      .toEqual(['leased', undefined])
    expect(tokenCount(entries.tokens)).toBe(2)
  })
})
