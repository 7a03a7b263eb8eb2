import { beforeEach, describe, expect, it } from 'vitest'
import { createApiKeys, type ApiKeys } from '../../../services/accounts/api-keys.ts'
import { hashOf, newApiKey } from '../../../services/accounts/key-store.ts'
import { memoryRedis } from './memory-redis.ts'

let memory: ReturnType<typeof memoryRedis>
let keys: ApiKeys
let nowMs: number
beforeEach(() => {
  memory = memoryRedis()
  nowMs = 1_000_000
  keys = createApiKeys(memory.redis, () => nowMs)
})

const newKey = (more: object = {}) => keys.create({
  orgId: 'org_1', mode: 'live', scopes: ['jobs:write', 'jobs:read'], ...more,
})
const kindOf = async (secret: string) => (await keys.findKey(secret)).kind

describe('finding a key', () => {
  it('returns its owner and its scopes', async () => {
    const { id, secret } = await newKey({ mode: 'test', scopes: ['jobs:read'] })
    expect(await keys.findKey(secret)).toEqual({
      kind: 'ok',
      key: { org: 'org_1', tenant: 'org_1.test', mode: 'test', scopes: ['jobs:read'], keyId: id },
    })
  })

  it('finds nothing for no text, for garbage and for a key never made', async () => {
    expect(await kindOf('')).toBe('missing')
    expect(await kindOf('garbage')).toBe('invalid')
    expect(memory.calls.read).toBeUndefined()
    expect(await kindOf(newApiKey('live'))).toBe('invalid')
    expect(memory.calls.read).toBe(1)
  })

  it('never stores the secret', async () => {
    const { secret } = await newKey()
    expect(JSON.stringify([...memory.hashes])).not.toContain(secret.slice(8))
    expect([...memory.hashes.keys()]).toEqual([`key:${hashOf(secret)}`])
  })

  it('asks Redis at most once a second', async () => {
    const { secret } = await newKey()
    await kindOf(secret)
    nowMs += 999
    await kindOf(secret)
    expect(memory.calls.read).toBe(1)
    nowMs += 1
    await kindOf(secret)
    expect(memory.calls.read).toBe(2)
  })

  it('fails after its expiry, also for a cached key', async () => {
    const { secret } = await newKey({ expiresAtMs: nowMs + 500 })
    nowMs += 499
    expect(await kindOf(secret)).toBe('ok')
    nowMs += 1
    expect(await kindOf(secret)).toBe('expired')
  })

  it('sees a revocation by another process within a second', async () => {
    const { id, secret } = await newKey()
    expect(await kindOf(secret)).toBe('ok')
    expect(await createApiKeys(memory.redis, () => nowMs).revoke('org_1', id)).toBe(true)
    nowMs += 1_000
    expect(await kindOf(secret)).toBe('revoked')
  })

  it('records the last use at most once a minute, without waiting for it', async () => {
    const { secret } = await newKey()
    const writes = memory.calls.hset ?? 0
    await kindOf(secret)
    nowMs += 59_999
    await kindOf(secret)
    expect((memory.calls.hset ?? 0) - writes).toBe(1)
    nowMs += 1
    await kindOf(secret)
    expect((memory.calls.hset ?? 0) - writes).toBe(2)
    expect((await keys.list('org_1'))[0]?.lastUsedAtMs).toBe(nowMs)
    const stuck = { ...memory.redis, hset: () => new Promise(() => {}) }
    const slow = createApiKeys(stuck as unknown as typeof memory.redis, () => nowMs + 120_000)
    expect((await slow.findKey(secret)).kind).toBe('ok')
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
        last4: first.secret.slice(-4),
        createdAtMs: 1_000_000,
        expiresAtMs: 0,
        revokedAtMs: 0,
        lastUsedAtMs: 0,
      },
      expect.objectContaining({ id: second.id, mode: 'test', expiresAtMs: 1_000_006 }),
    ])
    expect(await keys.list('org_2')).toEqual([])
  })

  it('are revoked one by one, by their own organization, once', async () => {
    const { id, secret } = await newKey()
    const other = await newKey()
    expect(await keys.revoke('org_2', id)).toBe(false)
    expect(await keys.revoke('org_1', 'key_none')).toBe(false)
    expect(await keys.revoke('org_1', id)).toBe(true)
    nowMs += 10
    expect(await keys.revoke('org_1', id)).toBe(true)
    expect((await keys.list('org_1'))[0]?.revokedAtMs).toBe(1_000_000)
    expect([await kindOf(secret), await kindOf(other.secret)]).toEqual(['revoked', 'ok'])
  })

  it('are replaced while the old one works on for its grace', async () => {
    const old = await newKey({ scopes: ['jobs:read'] })
    const fresh = await keys.roll('org_1', old.id, 1_000)
    nowMs += 999
    expect([await kindOf(old.secret), await kindOf(fresh?.secret ?? '')]).toEqual(['ok', 'ok'])
    nowMs += 1
    expect([await kindOf(old.secret), await kindOf(fresh?.secret ?? '')]).toEqual(['expired', 'ok'])
    expect((await keys.list('org_1'))[1]?.scopes).toEqual(['jobs:read'])
  })

  it('never live longer by being replaced, nor again once revoked', async () => {
    const short = await newKey({ expiresAtMs: nowMs + 10 })
    await keys.roll('org_1', short.id, 60_000)
    expect((await keys.list('org_1'))[0]?.expiresAtMs).toBe(1_000_010)
    const { id } = await newKey()
    await keys.revoke('org_1', id)
    expect(await keys.roll('org_1', id, 60_000)).toBeUndefined()
  })
})
