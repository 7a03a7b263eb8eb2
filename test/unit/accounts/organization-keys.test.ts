import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { connectOrganizationKeys } from '../../../services/accounts/connect-organization-keys.ts'
import {
  addOrganizationKey, createOrganizationKeys, createPublicOrganizationKeys,
  OrganizationErasedError, type StoredKey, wrappingKeyId,
} from '../../../services/accounts/organization-keys.ts'
import { MissingKeyError, withKeyId } from '../../../services/runtime/crypto/key-ring.ts'
import { createRootKeys } from '../../../services/runtime/crypto/root-keys.ts'
import { InfrastructureError } from '../../../services/runtime/platform/errors.ts'
import type { KeyClass } from '../../../services/topology.ts'
import { organizationKeysKey } from '../../support/keys/organization-keys.ts'
import { createMetrics } from '../../../services/runtime/platform/metrics.ts'
import { rootKeyCalls } from '../../support/metrics.ts'
import { workerRedis as redis, emptyRedis } from '../../support/redis/worker.ts'

const plain = Buffer.alloc(32, 5)
const binding = ['data-key', 'org_1.live', 'job_1']
/** The same root key for all classes, so that only the context differs. */
const roots = createRootKeys({
  keys: { 1: Buffer.alloc(32, 1).toString('base64') }, active: '1', setting: 'ROOT_KEYS',
})

/** Keys of organizations in memory; `org_1` has one of the class `results`. */
async function createStore () {
  const stored = new Map<string, readonly StoredKey[]>()
  const absent = { check: async (_orgId: string) => {} }
  const store = {
    read: async (orgId: string) => stored.get(orgId) ?? [],
    checkComplete: (orgId: string) => absent.check(orgId),
    add: async (orgId: string, key: Omit<StoredKey, 'shippedAtMs'>) => {
      stored.set(orgId, [...stored.get(orgId) ?? [], { ...key, shippedAtMs: 0 }])
    },
  }
  await addOrganizationKey({ store, roots, class: 'results' }, 'org_1', 1)
  return {
    stored,
    /** What happens when an organization has no key. */
    absent,
    keysOf: (keyClass: KeyClass = 'results') =>
      createOrganizationKeys({ store, roots, class: keyClass }),
    publicKeys: () => createPublicOrganizationKeys({ store, class: 'results' }),
    /** The key of an organization, as if the topic had it. */
    ship: (orgId: string) => {
      stored.set(orgId, (stored.get(orgId) ?? []).map(key => ({ ...key, shippedAtMs: 1 })))
    },
  }
}

beforeEach(() => { vi.useFakeTimers({ toFake: ['Date'] }) })
afterEach(() => { vi.useRealTimers() })
const FIVE_SECONDS_MS = 5_000

describe('the stored key of an organization', () => {
  it('opens nothing as that of another organization or class', async () => {
    const { stored, keysOf } = await createStore()
    const wrapped = await keysOf().wrap('org_1', plain, binding)
    const [key] = stored.get('org_1')!
    stored.set('org_2', [key!])
    await expect(keysOf().unwrap('org_2', wrapped, binding)).rejects.toThrow('results of org_2')
    stored.set('org_1', [{ ...key!, class: 'webhooks' }])
    await expect(keysOf('webhooks').wrap('org_1', plain, binding))
      .rejects.toThrow('webhooks of org_1')
  })

  it('wraps nothing in place of an older one before the topic has it', async () => {
    const { stored, keysOf, publicKeys, ship } = await createStore()
    await keysOf().wrap('org_1', plain, binding)
    await expect(publicKeys().wrap('org_1', plain, binding)).rejects.toThrow(InfrastructureError)
    ship('org_1')
    const [first] = stored.get('org_1')!
    stored.set('org_1', [first!, { ...first!, version: 2, shippedAtMs: 0 }])
    const idsOf = async () => await Promise.all([keysOf(), publicKeys()].map(async keys =>
      wrappingKeyId(await keys.wrap('org_1', plain, binding))))
    expect(await idsOf()).toEqual(['results.1', 'results.1'])
    ship('org_1')
    expect(await idsOf()).toEqual(['results.2', 'results.2'])
  })

  it('leaves the memory of a process five seconds after it was erased', async () => {
    const { absent, stored, keysOf } = await createStore()
    const keys = keysOf()
    const wrapped = await keys.wrap('org_1', plain, binding)
    stored.delete('org_1')
    absent.check = async orgId => { throw new OrganizationErasedError(orgId) }
    expect(await keys.unwrap('org_1', wrapped, binding)).toEqual(plain)
    vi.setSystemTime(Date.now() + FIVE_SECONDS_MS)
    await expect(keys.unwrap('org_1', wrapped, binding)).rejects.toThrow(OrganizationErasedError)
  })
})

describe('an erased organization whose keys were lost before', () => {
  it('stops nothing, whether a version is missing or does not open', async () => {
    const { absent, stored, keysOf } = await createStore()
    const wrapped = await keysOf().wrap('org_1', plain, binding)
    const [key] = stored.get('org_1')!
    const damaged = Buffer.from(key!.wrapped)
    damaged[damaged.length - 1]! ^= 1
    const lost: readonly StoredKey[] = [
      { ...key!, version: 2 }, { ...key!, wrapped: damaged },
      { ...key!, wrapped: withKeyId('gone', Buffer.alloc(60)) },
    ]
    for (const left of lost) {
      stored.set('org_1', [left])
      absent.check = async () => {}
      await expect(keysOf().unwrap('org_1', wrapped, binding)).rejects.toThrow(MissingKeyError)
      absent.check = async orgId => { throw new OrganizationErasedError(orgId) }
      await expect(keysOf().unwrap('org_1', wrapped, binding))
        .rejects.toThrow(OrganizationErasedError)
    }
  })
})

describe('an organization without a key of the class', () => {
  it('gets none: every use names what is missing', async () => {
    const { stored, keysOf } = await createStore()
    const wrapped = await keysOf().wrap('org_1', plain, binding)
    const before = stored.get('org_1')!
    const keys = keysOf('webhooks')
    const uses = [
      () => keys.wrap('org_1', plain, binding),
      () => keys.unwrap('org_1', wrapped, binding),
      () => keys.whenShipped('org_1'),
    ]
    for (const use of uses) {
      const error = await use().catch((error: unknown) => error)
      expect(error).toBeInstanceOf(MissingKeyError)
      expect(String(error)).toContain('organization org_1 has no key "webhooks", which wraps')
    }
    expect(stored.get('org_1')).toEqual(before)
  })

  it('uses the key that was restored after the first read found none', async () => {
    const { absent, stored, keysOf } = await createStore()
    const wrapped = await keysOf().wrap('org_1', plain, binding)
    const before = stored.get('org_1')!
    stored.delete('org_1')
    absent.check = async orgId => { stored.set(orgId, before) }
    expect(await keysOf().unwrap('org_1', wrapped, binding)).toEqual(plain)
  })
})

afterEach(() => vi.unstubAllEnvs())

it('the keys of organizations report calls of Vault to the metrics of their service', async () => {
  vi.stubEnv('VAULT_ADDR', 'http://127.0.0.1:1')
  vi.stubEnv('VAULT_TOKEN', 'token')
  const metrics = createMetrics()
  await emptyRedis()
  const wrapped = withKeyId('v', Buffer.from('vault:v1:AAAA')).toString('base64')
  await redis.hset(organizationKeysKey('org_1'), { 'webhooks/1': JSON.stringify([wrapped, '', 0]) })
  const keys = connectOrganizationKeys('webhooks', {
    WEBHOOKS_ROOT_KEYS: { v: 'vault:transit/webhooks' }, WEBHOOKS_ROOT_KEY_ACTIVE: 'v',
  }, { state: redis, metrics })
  await expect(keys.wrap('org_1', Buffer.alloc(32), ['a secret'])).rejects
    .toThrow(InfrastructureError)
  expect(await rootKeyCalls(metrics)).toEqual({
    counted: { 'webhooks vault decrypt failed': 1 }, timed: { 'vault decrypt': 1 },
  })
})
