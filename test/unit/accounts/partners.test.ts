import { describe, expect, it } from 'vitest'
import { keyIdOf, partnerKeyOf } from '../../../schemas/feeds/seal.ts'
import { checkName, createPartners } from '../../../services/accounts/partners.ts'
import { organizationKeysOf } from '../../support/keys/organization-keys.ts'
import { memoryRedis } from './memory-redis.ts'

const keys = organizationKeysOf(7)
const acme = {
  name: 'acme', orgId: 'org_1', mode: 'live', pricesMicros: { whatsapp: 3_500 }, partitions: 4,
} as const

function opened () {
  const memory = memoryRedis()
  const clock = { nowMs: 1_000 }
  const now = () => clock.nowMs
  return { ...memory, clock, partners: createPartners({ redis: memory.redis, keys, now }) }
}

describe('a partner', () => {
  it('gets texts if it was registered before types could be chosen, until it chooses', async () => {
    const { partners, hashes } = opened()
    await partners.create(acme)
    const stored = hashes.get('{global}:partner:acme')
    const { types: _types, ...before } = JSON.parse(stored?.['registration'] ?? '') as object &
      { readonly types: string }
    hashes.set('{global}:partner:acme', { ...stored, registration: JSON.stringify(before) })
    expect(await partners.find('acme')).toMatchObject({ types: 'text' })
    expect(await partners.setTypes('acme', 'json')).toBe(true)
    expect(await partners.find('acme')).toMatchObject({ types: 'json' })
    expect(await partners.setTypes('unknown', 'json')).toBe(false)
  })

  it('keeps its name forever, even when revoked', async () => {
    const { partners } = opened()
    await partners.create(acme)
    expect(await partners.revoke('acme')).toBe(true)
    expect(await partners.find('acme')).toMatchObject({ revokedAtMs: 1_000 })
    expect(await partners.create({ ...acme, orgId: 'org_2' })).toBeUndefined()
    expect(await partners.find('acme')).toMatchObject({ orgId: 'org_1' })
    expect(await partners.revoke('unknown')).toBe(false)
    expect(await partners.keysOf('unknown')).toBeUndefined()
  })

  it('can not be given the key of another one', async () => {
    const { partners, hashes } = opened()
    await partners.create(acme)
    await partners.create({ ...acme, name: 'other' })
    hashes.set('{global}:partner:other', hashes.get('{global}:partner:acme') ?? {})
    await expect(partners.keysOf('other')).rejects.toThrow()
  })

  it.each(['', 'Acme', 'a.b', '-a', 'a:b', 'a b', 'a'.repeat(64)])('is not named %j', name => {
    expect(() => checkName(name)).toThrow(RangeError)
    expect(() => checkName(name)).toThrow(`partner name "${name}" is invalid; use 1 to 63`)
  })
})

describe('a rotated key of a partner', () => {
  async function rotated (graceMs: number) {
    const all = opened()
    const old = partnerKeyOf((await all.partners.create(acme))?.key ?? '')
    const fresh = partnerKeyOf((await all.partners.rotate('acme', graceMs))?.key ?? '')
    return { ...all, old, fresh }
  }

  it('is used along with its successor, and before it, until its grace ends', async () => {
    const { partners, clock, old, fresh } = await rotated(500)
    expect(await partners.keysOf('acme')).toEqual([old, fresh])
    expect((await partners.find('acme'))?.keys.map(({ id, expiresAtMs }) => [id, expiresAtMs]))
      .toEqual([[keyIdOf(old), 1_500], [keyIdOf(fresh), 0]])
    clock.nowMs = 1_499
    expect(await partners.keysOf('acme')).toEqual([old, fresh])
    clock.nowMs = 1_500
    expect(await partners.keysOf('acme')).toEqual([fresh])
    expect((await partners.find('acme'))?.keys).toHaveLength(1)
  })

  it('keeps an earlier end when the next one is made, which without grace ends all', async () => {
    const { partners } = await rotated(500)
    const again = await partners.rotate('acme', 900)
    expect(again?.keys.map(({ expiresAtMs }) => expiresAtMs)).toEqual([1_500, 1_900, 0])
    const last = await partners.rotate('acme', 0)
    expect(await partners.keysOf('acme')).toEqual([partnerKeyOf(last?.key ?? '')])
    expect(await partners.rotate('unknown', 0)).toBeUndefined()
  })

  it('is rewrapped, like its successor', async () => {
    const { partners, redis, old, fresh } = await rotated(500)
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
    const now = () => 1_000
    expect(await createPartners({ redis, keys: next, now }).keysOf('acme')).toEqual([old, fresh])
    const only = organizationKeysOf(8)
    expect(await createPartners({ redis, keys: only, now }).keysOf('acme')).toEqual([old, fresh])
  })
})
