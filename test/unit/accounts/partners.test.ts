import { beforeEach, describe, expect, it } from 'vitest'
import { deriveKeyId, parsePartnerKey } from '../../../schemas/feeds/seal.ts'
import { checkName, createPartners } from '../../../services/accounts/partners.ts'
import { accountKey } from '../../../services/accounts/records.ts'
import { organizationKeysOf } from '../../support/keys/organization-keys.ts'
import { workerRedis as redis, emptyRedis } from '../../support/redis/worker.ts'

const keys = organizationKeysOf(7)
const acme = {
  name: 'acme', orgId: 'org_1', mode: 'live', pricesMicros: { whatsapp: 3_500 }, partitions: 4,
} as const

let nowMs: number
const now = () => nowMs
const partners = createPartners({ redis, keys, now })
beforeEach(async () => {
  await emptyRedis()
  nowMs = 1_000
})

describe('a partner', () => {
  it('gets texts if it was registered before types could be chosen, until it chooses', async () => {
    await partners.create(acme)
    const key = accountKey('partner:acme')
    const { types: _types, ...before } = JSON.parse(await redis.hget(key, 'registration') ?? '') as
      { readonly types: string }
    await redis.hset(key, 'registration', JSON.stringify(before))
    expect(await partners.find('acme')).toMatchObject({ types: 'text' })
    expect(await partners.setTypes('acme', 'json')).toBe(true)
    expect(await partners.find('acme')).toMatchObject({ types: 'json' })
    expect(await partners.setTypes('unknown', 'json')).toBe(false)
  })

  it('keeps its name forever, even when revoked', async () => {
    await partners.create(acme)
    expect(await partners.revoke('acme')).toBe(true)
    expect(await partners.find('acme')).toMatchObject({ revokedAtMs: 1_000 })
    expect(await partners.create({ ...acme, orgId: 'org_2' })).toBeUndefined()
    expect(await partners.find('acme')).toMatchObject({ orgId: 'org_1' })
    expect(await partners.revoke('unknown')).toBe(false)
    expect(await partners.keysOf('unknown')).toBeUndefined()
  })

  it('can not be given the key of another one', async () => {
    await partners.create(acme)
    await partners.create({ ...acme, name: 'other' })
    await redis.copy(accountKey('partner:acme'), accountKey('partner:other'), 'REPLACE')
    await expect(partners.keysOf('other')).rejects.toThrow()
  })

  it.each(['', 'Acme', 'a.b', '-a', 'a:b', 'a b', 'a'.repeat(64)])('is not named %j', name => {
    expect(() => checkName(name)).toThrow(RangeError)
    expect(() => checkName(name)).toThrow(`partner name "${name}" is invalid; use 1 to 63`)
  })
})

describe('a rotated key of a partner', () => {
  async function rotated (graceMs: number) {
    const old = parsePartnerKey((await partners.create(acme))?.key ?? '')
    const fresh = parsePartnerKey((await partners.rotate('acme', graceMs))?.key ?? '')
    return { old, fresh }
  }

  it('is used along with its successor, and before it, until its grace ends', async () => {
    const { old, fresh } = await rotated(500)
    expect(await partners.keysOf('acme')).toEqual([old, fresh])
    expect((await partners.find('acme'))?.keys.map(({ id, expiresAtMs }) => [id, expiresAtMs]))
      .toEqual([[deriveKeyId(old), 1_500], [deriveKeyId(fresh), 0]])
    nowMs = 1_499
    expect(await partners.keysOf('acme')).toEqual([old, fresh])
    nowMs = 1_500
    expect(await partners.keysOf('acme')).toEqual([fresh])
    expect((await partners.find('acme'))?.keys).toHaveLength(1)
  })

  it('keeps an earlier end when the next one is made, which without grace ends all', async () => {
    await rotated(500)
    const again = await partners.rotate('acme', 900)
    expect(again?.keys.map(({ expiresAtMs }) => expiresAtMs)).toEqual([1_500, 1_900, 0])
    const last = await partners.rotate('acme', 0)
    expect(await partners.keysOf('acme')).toEqual([parsePartnerKey(last?.key ?? '')])
    expect(await partners.rotate('unknown', 0)).toBeUndefined()
  })

  it('is rewrapped, like its successor', async () => {
    const { old, fresh } = await rotated(500)
    const next = organizationKeysOf(7, 8)
    const wrapped = await partners.wrapped()
    expect(wrapped).toHaveLength(2)
    for (const { orgId, pieces: [{ bytes, binding }], replace } of wrapped) {
      expect(orgId).toBe('org_1')
      const plain = await next.unwrap(orgId, bytes, binding)
      expect(await replace([await next.wrap(orgId, plain, binding)])).toBe(true)
    }
    // A value that was replaced meanwhile is unchanged.
    expect(await wrapped[0]?.replace([Buffer.alloc(1)])).toBe(false)
    expect(await createPartners({ redis, keys: next, now }).keysOf('acme')).toEqual([old, fresh])
    const only = organizationKeysOf(8)
    expect(await createPartners({ redis, keys: only, now }).keysOf('acme')).toEqual([old, fresh])
  })
})
