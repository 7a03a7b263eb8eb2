import { crc32 } from 'node:zlib'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import {
  createApiKeys, hashSecret, isWellFormed, newApiKey, type NewKey, NewKeyError, type ApiKeys,
} from '../../../services/accounts/api-keys.ts'
import { createOrganizations } from '../../../services/accounts/organizations.ts'
import { accountKey } from '../../../services/accounts/records.ts'
import { workerRedis as redis, emptyRedis } from '../../support/redis/worker.ts'
import { contentOf } from '../../support/redis/content.ts'

/** As Node reports an IPv4 address of a socket for both versions. */
const ADDRESS = '::ffff:192.0.2.7'
let keys: ApiKeys
let nowMs: number
beforeEach(async () => {
  await emptyRedis()
  nowMs = 1_000_000
  keys = createApiKeys(redis, () => nowMs)
})

const newKey = (more: Partial<NewKey> = {}) => keys.create({
  orgId: 'org_1', mode: 'live', scopes: ['jobs:write', 'jobs:read'], ...more,
})
const kindOf = async (secret: string) => (await keys.findKey(secret, ADDRESS)).kind
/** As it is listed. */
const findById = async (id = '') => (await keys.list('org_1')).find(key => key.id === id)
const recordOf = (secret: string) => accountKey(`key:${hashSecret(secret)}`)
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

describe('a key', () => {
  it.each(['live', 'test'] as const)('of mode %s: prefix, 30 random characters, checksum', mode => {
    const secrets = Array.from({ length: 500 }, () => newApiKey(mode))
    expect(new Set(secrets).size).toBe(500)
    const seen = new Set(secrets.flatMap(secret => [...secret.slice(8, 38)]))
    expect([...seen].sort().join('')).toBe([...BASE62].sort().join(''))
    for (const secret of secrets) {
      expect(secret).toMatch(new RegExp(`^vj_${mode}_[0-9A-Za-z]{36}$`))
      expect(isWellFormed(secret)).toBe(true)
      const digits =
        [...secret.slice(-6)].reduce((sum, digit) => sum * 62 + BASE62.indexOf(digit), 0)
      expect(digits).toBe(crc32(secret.slice(0, -6)))
    }
  })

  it('with any one character changed, or with another length, is no key', () => {
    const secret = newApiKey('live')
    for (let at = 0; at < secret.length; at++) {
      const other = secret[at] === 'a' ? 'b' : 'a'
      expect(isWellFormed(secret.slice(0, at) + other + secret.slice(at + 1))).toBe(false)
    }
    const others = ['', 'vj_live_', 'x'.repeat(10_000), `${secret} `]
    expect(others.filter(isWellFormed)).toEqual([])
  })

  it('is stored as its SHA-256, in texts, and never itself', async () => {
    expect(hashSecret('abc'))
      .toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad')
    const more = {
      name: 'Nightly import', createdBy: 'operator', networks: ['192.0.2.0/24', '2001:db8::/32'],
    }
    const { id, secret } = await newKey(more)
    expect(id).toBe(`key_${hashSecret(secret).slice(0, 16)}`)
    expect(JSON.stringify(await contentOf(redis))).not.toContain(secret.slice(8))
    expect(await redis.hgetall(recordOf(secret))).toEqual({
      org: 'org_1',
      mode: 'live',
      scopes: 'jobs:write jobs:read',
      name: 'Nightly import',
      createdBy: 'operator',
      networks: '192.0.2.0/24 2001:db8::/32',
      last4: secret.slice(-4),
      createdAt: '1000000',
      expiresAt: '0',
      revision: '1',
      madeIn: expect.any(String),
    })
  })
})

describe('finding a key', () => {
  it('returns its owner and its scopes, except those that this release lacks', async () => {
    const { id, secret } = await newKey({ mode: 'test' })
    await redis.hset(recordOf(secret), { scopes: 'jobs:admin jobs:read' })
    expect(await keys.findKey(secret, ADDRESS)).toEqual({
      kind: 'ok',
      key: { org: 'org_1', tenant: 'org_1.test', mode: 'test', scopes: ['jobs:read'], keyId: id },
    })
  })

  it('finds nothing for no text, garbage, a key never made and a broken record', async () => {
    const calls = vi.spyOn(redis, 'call')
    expect([await kindOf(''), await kindOf('garbage')]).toEqual(['missing', 'invalid'])
    expect(calls).not.toHaveBeenCalled()
    calls.mockRestore()
    expect(await kindOf(newApiKey('live'))).toBe('invalid')
    const [ownerless, odd] = [await newKey(), await newKey()]
    await redis.hdel(recordOf(ownerless.secret), 'org')
    await redis.hset(recordOf(odd.secret), { mode: 'prod' })
    expect([await kindOf(ownerless.secret), await kindOf(odd.secret)])
      .toEqual(['invalid', 'invalid'])
  })

  it('sees an expiry at once, and a revocation by another process after a second', async () => {
    const [short, { id, secret }] = [await newKey({ expiresAtMs: nowMs + 999 }), await newKey()]
    expect([await kindOf(short.secret), await kindOf(secret)]).toEqual(['ok', 'ok'])
    expect(await createApiKeys(redis, () => nowMs).revoke('org_1', id)).toBe(true)
    nowMs += 999
    expect([await kindOf(short.secret), await kindOf(secret)]).toEqual(['expired', 'ok'])
    nowMs += 1
    expect(await kindOf(secret)).toBe('revoked')
  })

  it('finds no key of an erased organization that is valid, listed or not', async () => {
    const organizations = createOrganizations(redis, () => nowMs)
    const { id: orgId } = await organizations.create('Example')
    const { secret } = await newKey({ orgId })
    expect(await kindOf(secret)).toBe('ok')
    await organizations.markErased(orgId)
    nowMs += 1_000
    expect(await kindOf(secret)).toBe('revoked')
    const late = await newKey({ orgId })
    expect(await kindOf(late.secret)).toBe('revoked')
  })

  it('records the last use at most once a minute, without waiting for it', async () => {
    const { secret } = await newKey()
    const firstMs = nowMs
    const lastUse = async () => {
      await kindOf(secret)
      const [key] = await keys.list('org_1')
      return [key?.lastUsedAtMs, key?.lastUsedFrom]
    }
    expect(await lastUse()).toEqual([firstMs, '192.0.2.7'])
    nowMs += 59_999
    expect(await lastUse()).toEqual([firstMs, '192.0.2.7'])
    nowMs += 1
    expect(await lastUse()).toEqual([nowMs, '192.0.2.7'])
    nowMs += 60_000
    const stuck = vi.spyOn(redis, 'hset').mockReturnValue(new Promise(() => {}))
    expect(await kindOf(secret)).toBe('ok')
    expect(stuck).toHaveBeenCalledOnce()
    stuck.mockRestore()
  })
})

describe('the keys of an organization', () => {
  it('are listed in order, without secret or hash', async () => {
    const first = await newKey()
    nowMs += 1
    const second = await newKey({ mode: 'test', scopes: ['jobs:write'], expiresAtMs: nowMs + 5 })
    expect(await keys.list('org_1')).toEqual([
      {
        id: first.id,
        mode: 'live',
        scopes: ['jobs:write', 'jobs:read'],
        name: '',
        createdBy: '',
        networks: [],
        last4: first.secret.slice(-4),
        createdAtMs: 1_000_000,
        expiresAtMs: 0,
        replacedBy: '',
        revokedAtMs: 0,
        lastUsedAtMs: 0,
        lastUsedFrom: '',
      },
      expect.objectContaining({ id: second.id, mode: 'test', expiresAtMs: 1_000_006 }),
    ])
    expect(await keys.list('org_2')).toEqual([])
  })

  it('are listed before they work, and not if they were never finished', async () => {
    const broken = vi.spyOn(redis, 'call').mockRejectedValue(new Error('away'))
    await expect(newKey()).rejects.toThrow('away')
    broken.mockRestore()
    expect(await redis.zrange('{global}:org:org_1:keys', '0', '-1'))
      .toEqual([expect.stringMatching(/^[0-9a-f]{64}$/)])
    const { id } = await newKey()
    expect((await keys.list('org_1')).map(key => key.id)).toEqual([id])
  })

  it('are revoked one by one, by their own organization, once', async () => {
    const { id, secret } = await newKey()
    const other = await newKey()
    expect(await keys.revoke('org_2', id)).toBe(false)
    expect(await keys.revoke('org_1', 'key_none')).toBe(false)
    expect(await keys.revoke('org_1', id)).toBe(true)
    nowMs += 10
    expect(await keys.revoke('org_1', id)).toBe(true)
    expect(await findById(id)).toMatchObject({ revokedAtMs: 1_000_000 })
    expect([await kindOf(secret), await kindOf(other.secret)]).toEqual(['revoked', 'ok'])
  })

  it('are replaced by one alike, while the old one works on for its grace', async () => {
    const same = { scopes: ['jobs:read'] as const, name: 'Nightly import', networks: ['192.0.2.7'] }
    const old = await newKey({ ...same, createdBy: 'operator' })
    const fresh = await keys.roll('org_1', old.id, { graceMs: 1_000, createdBy: 'ann' })
    nowMs += 999
    expect([await kindOf(old.secret), await kindOf(fresh?.secret ?? '')]).toEqual(['ok', 'ok'])
    nowMs += 1
    expect([await kindOf(old.secret), await kindOf(fresh?.secret ?? '')]).toEqual(['expired', 'ok'])
    expect(fresh).toMatchObject({ expiresAtMs: 0, oldExpiresAtMs: nowMs })
    expect([await findById(old.id), await findById(fresh?.id)]).toMatchObject([
      { ...same, createdBy: 'operator', replacedBy: fresh?.id },
      { ...same, createdBy: 'ann', replacedBy: '' },
    ])
  })

  it('have successors of their own lifetime, also if they are replaced again', async () => {
    const [forever, short] = [await newKey(), await newKey({ expiresAtMs: nowMs + 10_000 })]
    const lifetimesOf = async (id: string) => {
      nowMs += 10
      const fresh = await keys.roll('org_1', id, { graceMs: 1_000, createdBy: 'operator' })
      return fresh!.expiresAtMs === 0 ? 0 : fresh!.expiresAtMs - nowMs
    }
    // As when the answer of the first call is lost.
    expect([await lifetimesOf(forever.id), await lifetimesOf(forever.id)]).toEqual([0, 0])
    expect([await lifetimesOf(short.id), await lifetimesOf(short.id)]).toEqual([10_000, 10_000])
  })

  it('never live longer by being replaced, nor again once revoked', async () => {
    const short = await newKey({ expiresAtMs: nowMs + 10 })
    await keys.roll('org_1', short.id, { graceMs: 60_000, createdBy: 'operator' })
    expect(await findById(short.id)).toMatchObject({ expiresAtMs: 1_000_010 })
    const { id } = await newKey()
    await keys.revoke('org_1', id)
    expect(await keys.roll('org_1', id, { graceMs: 60_000, createdBy: 'operator' })).toBeUndefined()
  })
})

describe('a key that belongs to networks', () => {
  it('works from them and from nowhere else', async () => {
    const { secret } = await newKey({ networks: ['192.0.2.0/28', '2001:db8::/32'] })
    const kinds = ['192.0.2.7', '::ffff:192.0.2.7', '2001:db8::1', '192.0.2.16', '::1', '']
      .map(async address => (await keys.findKey(secret, address)).kind)
    expect(await Promise.all(kinds))
      .toEqual(['ok', 'ok', 'ok', 'foreign_address', 'foreign_address', 'foreign_address'])
  })

  it('works and is replaced if it was stored with such a network', async () => {
    const { id, secret } = await newKey({ networks: ['192.0.2.0/24'] })
    await redis.hset(recordOf(secret), { networks: '192.0.2.9/24' })
    expect(await kindOf(secret)).toBe('ok')
    const rolled = await keys.roll('org_1', id, { graceMs: 0, createdBy: 'operator' })
    expect(await kindOf(rolled?.secret ?? '')).toBe('ok')
    expect((await keys.list('org_1')).map(({ networks }) => networks))
      .toEqual([['192.0.2.9/24'], ['192.0.2.9/24']])
  })
})

it.each<readonly [wrong: Partial<NewKey>, fault: string]>([
  ...['office', '192.0.2.0/33', '192.0.2.0/', '2001:db8::/129', '192.0.2', '192.0.2.7/-1']
    .map(network => [{ networks: [network] }, `"${network}" is not an IP address`] as const),
  [{ networks: ['192.0.2.7', '10.1.2.3/24'] }, '"10.1.2.3/24" is an address within a network: ' +
    'use 10.1.2.0/24 for the network, or 10.1.2.3 for the address.'],
  [{ networks: ['2001:db8::1/32'] }, 'use 2001:db8::/32 for the network, or 2001:db8::1 for'],
  [{ networks: Array(21).fill('192.0.2.1') }, '21 networks; use at most 20'],
  [{ name: 'x'.repeat(101) }, '101 characters'],
  [{ expiresAtMs: 1_000_000 }, 'which is in the past'],
])('a new key is not created with %j', async (wrong, fault) => {
  const creating = newKey(wrong)
  await expect(creating).rejects.toThrow(NewKeyError)
  await expect(creating).rejects.toThrow(fault)
  expect(await keys.list('org_1')).toEqual([])
})

describe('an organization with a longest lifetime of keys', () => {
  const DAY_MS = 86_400_000
  beforeEach(async () => {
    await redis.hset(accountKey('org:org_1'), { name: 'Acme', createdAt: '1', keyDays: '30' })
  })

  it('gets keys that live no longer', async () => {
    const made = [await newKey(), await newKey({ expiresAtMs: nowMs + DAY_MS })]
    expect(made.map(({ expiresAtMs }) => (expiresAtMs - nowMs) / DAY_MS)).toEqual([30, 1])
    expect(await keys.list('org_1')).toEqual(expect.arrayContaining(
      made.map(({ id, expiresAtMs }) => expect.objectContaining({ id, expiresAtMs }))))
    await expect(newKey({ expiresAtMs: nowMs + 31 * DAY_MS }))
      .rejects.toThrow('more than 30 days, the longest lifetime')
  })

  it('replaces an older key by one that ends in time', async () => {
    await redis.hdel(accountKey('org:org_1'), 'keyDays')
    const { id } = await newKey()
    await redis.hset(accountKey('org:org_1'), { keyDays: '30' })
    expect(await keys.roll('org_1', id, { graceMs: 0, createdBy: 'operator' }))
      .toMatchObject({ expiresAtMs: nowMs + 30 * DAY_MS })
  })
})
