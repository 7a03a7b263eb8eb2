import { describe, expect, it } from 'vitest'
import { partnerKeyOf } from '../../../schemas/feeds/seal.ts'
import { checkName, createPartners } from '../../../services/accounts/partners.ts'
import { createKeyRing } from '../../../services/lib/key-ring.ts'
import { memoryRedis } from './memory-redis.ts'

const ring = createKeyRing({
  KEY_RING: { k1: Buffer.alloc(32, 7).toString('base64') }, KEY_ACTIVE: 'k1',
})
const acme = {
  name: 'acme', orgId: 'org_1', mode: 'live', pricesMicros: { whatsapp: 3_500 }, partitions: 4,
} as const

function opened () {
  const memory = memoryRedis()
  return { ...memory, partners: createPartners({ redis: memory.redis, ring, now: () => 1_000 }) }
}

describe('a partner', () => {
  it('is registered with its tenant, and its key is shown once and kept sealed', async () => {
    const { partners, texts } = opened()
    const made = await partners.create(acme)
    const registered = {
      ...acme, tenant: 'org_1.live', createdAtMs: 1_000, revokedAtMs: 0,
    }
    expect(await partners.find('acme')).toEqual(registered)
    expect(await partners.list()).toEqual([registered])
    const key = partnerKeyOf(made?.key ?? '')
    expect(await partners.keyOf('acme')).toEqual(key)
    const stored = texts.get('partner:acme') ?? ''
    expect(stored).not.toContain(key.toString('base64'))
    expect(stored).not.toContain(key.toString('base64url'))
  })

  it('keeps its name for ever, also when it is revoked', async () => {
    const { partners } = opened()
    await partners.create(acme)
    expect(await partners.revoke('acme')).toBe(true)
    expect(await partners.find('acme')).toMatchObject({ revokedAtMs: 1_000 })
    expect(await partners.create({ ...acme, orgId: 'org_2' })).toBeUndefined()
    expect(await partners.find('acme')).toMatchObject({ orgId: 'org_1' })
    expect(await partners.revoke('nobody')).toBe(false)
    expect(await partners.keyOf('nobody')).toBeUndefined()
  })

  it('can not be given the key of another one', async () => {
    const { partners, texts } = opened()
    await partners.create(acme)
    await partners.create({ ...acme, name: 'other' })
    texts.set('partner:other', texts.get('partner:acme') ?? '')
    await expect(partners.keyOf('other')).rejects.toThrow()
  })

  it.each(['', 'Acme', 'a.b', '-a', 'a:b', 'a b', 'a'.repeat(64)])('is not named %j', name => {
    expect(() => checkName(name)).toThrow(RangeError)
  })
})
