import { beforeEach, describe, expect, it } from 'vitest'
import { createKeyStore, type KeyStore } from '../../../services/accounts/key-store.ts'
import { AccountsRecoveringError } from '../../../services/accounts/records.ts'
import { memoryRedis } from './memory-redis.ts'

const HASH = 'ab'.repeat(32)
const record = {
  hash: HASH,
  orgId: 'org_1',
  mode: 'live',
  scopes: ['jobs:read'],
  name: 'Nightly import',
  createdBy: 'operator',
  networks: ['192.0.2.0/24', '2001:db8::/32'],
  last4: 'wxyz',
  createdAtMs: 1_000,
  expiresAtMs: 0,
} as const

let memory: ReturnType<typeof memoryRedis>
let store: KeyStore
beforeEach(() => {
  memory = memoryRedis()
  store = createKeyStore(memory.redis)
})

describe('the stored keys', () => {
  it('are texts in a hash of their own, named by what the secret hashes to', async () => {
    expect(await store.add(record)).toBe('key_abababababababab')
    expect(memory.hashes.get(`{global}:key:${HASH}`)).toEqual({
      org: 'org_1',
      mode: 'live',
      scopes: 'jobs:read',
      name: 'Nightly import',
      createdBy: 'operator',
      networks: '192.0.2.0/24 2001:db8::/32',
      last4: 'wxyz',
      createdAt: '1000',
      expiresAt: '0',
      revision: '1',
    })
  })

  it('are read with every time that was never set as 0', async () => {
    const id = await store.add({ ...record, expiresAtMs: 2_000 })
    await store.recordUse(HASH, { atMs: 1_500, from: '192.0.2.7' })
    expect(await store.read(HASH)).toEqual({
      ...record,
      id,
      expiresAtMs: 2_000,
      replacedBy: '',
      revokedAtMs: 0,
      lastUsedAtMs: 1_500,
      lastUsedFrom: '192.0.2.7',
    })
  })

  it('are none without an organization, or of a mode there is not', async () => {
    await store.recordUse(HASH, { atMs: 1_500, from: '192.0.2.7' })
    expect(await store.read(HASH)).toBeUndefined()
    await store.change(HASH, { org: 'org_1', mode: 'prod' })
    expect(await store.read(HASH)).toBeUndefined()
  })

  it('count only once ledger has compared them in this run of Redis', async () => {
    await store.add(record)
    memory.texts.delete('{global}:accounts:run')
    const read = store.read(HASH)
    await expect(read).rejects.toThrow(AccountsRecoveringError)
    // Without the whole hash.
    await expect(read).rejects.toThrow('account record key:abababab... is locked')
    expect(await store.list('org_1')).toHaveLength(1)
  })

  it('keep no scope that this release does not know', async () => {
    await store.add(record)
    await store.change(HASH, { scopes: 'jobs:admin jobs:write' })
    expect((await store.read(HASH))?.scopes).toEqual(['jobs:write'])
  })

  it('are listed in the order they were made, without one that was never finished', async () => {
    await store.add(record)
    await memory.redis.zadd('{global}:org:org_1:keys', 0, 'listed, but its hash was never written')
    await store.add({ ...record, hash: 'cd'.repeat(32) })
    expect((await store.list('org_1')).map(({ id }) => id))
      .toEqual(['key_abababababababab', 'key_cdcdcdcdcdcdcdcd'])
  })

  it('are listed before they work, so that none works unseen', async () => {
    const broken = { ...memory.redis, call: () => Promise.reject(new Error('away')) }
    const failing = createKeyStore(broken as unknown as typeof memory.redis)
    await expect(failing.add(record)).rejects.toThrow('away')
    expect(await memory.redis.zrange('{global}:org:org_1:keys', '0', '-1')).toEqual([HASH])
  })
})
