import { describe, expect, it } from 'vitest'
import {
  createRecordCache, type CacheClaim, type Offer, keyPrefixOf,
} from '../../../services/cache/cache.ts'
import type { CachedRecord } from '../../../services/cache/entries.ts'
import { cachedRecord, TENANT } from '../../support/stage-doubles.ts'

const scope = { tenant: TENANT, service: 'whatsapp', version: '2' } as const
const token = Buffer.from('00112233445566778899aabbccddeeff', 'hex')
const other = Buffer.alloc(16, 7)
const claimOf = (job: string): CacheClaim => ({ job, leaseMs: 30_000, usable: () => true })
const offerOf = (...records: CachedRecord[]): Offer => ({ records, usable: () => true })

describe('the cache of records', () => {
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

it('a lease is not claimed if the entry was replaced in between', async () => {
  const answers = [['{'], ['lease job_2']]
  const cache = createRecordCache({ claim: async () => answers.shift() } as never)
  expect(await cache.claim(scope, token, claimOf('job_1'))).toEqual(['leased'])
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
