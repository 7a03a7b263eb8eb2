import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { connectOrganizationKeys } from '../../../services/accounts/connect-organization-keys.ts'
import {
  addOrganizationKey, createOrganizationKeys, OrganizationKeyStore,
  createPublicOrganizationKeys, ERASED_FIELD, OrganizationErasedError, type StoredKey,
  wrappingKeyId,
} from '../../../services/accounts/organization-keys.ts'
import { accountKey } from '../../../services/accounts/records.ts'
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
const store = new OrganizationKeyStore(redis)
const stored = organizationKeysKey('org_1')
const keysOf = (keyClass: KeyClass = 'results') =>
  createOrganizationKeys({ store, roots, class: keyClass })
const publicKeys = () => createPublicOrganizationKeys({ store, class: 'results' })
const wrapped = async () => await keysOf().wrap('org_1', plain, binding)
/** As if the topic had the keys. */
const ship = async () => await store.markShipped('org_1', await store.read('org_1'))
const erase = async () => await redis.hset(accountKey('org:org_1'), { [ERASED_FIELD]: '1' })

beforeEach(async () => {
  await emptyRedis()
  await addOrganizationKey({ store, roots, class: 'results' }, 'org_1', 1)
  vi.useFakeTimers({ toFake: ['Date'] })
})
afterEach(() => { vi.useRealTimers() })
const FIVE_SECONDS_MS = 5_000

describe('the stored key of an organization', () => {
  it('opens nothing as that of another organization or class', async () => {
    const bytes = await wrapped()
    await redis.copy(stored, organizationKeysKey('org_2'))
    await expect(keysOf().unwrap('org_2', bytes, binding)).rejects.toThrow('results of org_2')
    await redis.hset(stored, 'webhooks/1', await redis.hget(stored, 'results/1') ?? '')
    await expect(keysOf('webhooks').wrap('org_1', plain, binding))
      .rejects.toThrow('webhooks of org_1')
  })

  it('wraps nothing in place of an older one before the topic has it', async () => {
    await wrapped()
    await expect(publicKeys().wrap('org_1', plain, binding)).rejects.toThrow(InfrastructureError)
    await ship()
    const [first] = await store.read('org_1')
    await store.add('org_1', { ...first!, version: 2 })
    const idsOf = async () => await Promise.all([keysOf(), publicKeys()].map(async keys =>
      wrappingKeyId(await keys.wrap('org_1', plain, binding))))
    expect(await idsOf()).toEqual(['results.1', 'results.1'])
    await ship()
    expect(await idsOf()).toEqual(['results.2', 'results.2'])
  })

  it('leaves the memory of a process five seconds after it was erased', async () => {
    const keys = keysOf()
    const bytes = await keys.wrap('org_1', plain, binding)
    await store.erase('org_1')
    expect(await store.read('org_1')).toEqual([])
    await erase()
    expect(await keys.unwrap('org_1', bytes, binding)).toEqual(plain)
    vi.setSystemTime(Date.now() + FIVE_SECONDS_MS)
    await expect(keys.unwrap('org_1', bytes, binding)).rejects.toThrow(OrganizationErasedError)
  })
})

it.each<readonly [string, (key: StoredKey) => Partial<StoredKey>]>([
  ['is missing', () => ({ version: 2 })],
  ['does not open', key => {
    const damaged = Buffer.from(key.wrapped)
    damaged[damaged.length - 1]! ^= 1
    return { wrapped: damaged }
  }],
  ['names a missing key', () => ({ wrapped: withKeyId('gone', Buffer.alloc(60)) })],
])('an erased organization whose keys were lost before ' +
  'stops nothing where a version %s', async (_, change) => {
  const bytes = await wrapped()
  const [key] = await store.read('org_1')
  await redis.del(stored)
  await store.add('org_1', { ...key!, ...change(key!) })
  await expect(keysOf().unwrap('org_1', bytes, binding)).rejects.toThrow(MissingKeyError)
  await erase()
  await expect(keysOf().unwrap('org_1', bytes, binding)).rejects.toThrow(OrganizationErasedError)
})

describe('an organization without a key of the class', () => {
  it('gets none: every use names what is missing', async () => {
    const bytes = await wrapped()
    const before = await store.read('org_1')
    const keys = keysOf('webhooks')
    const uses = [
      () => keys.wrap('org_1', plain, binding),
      () => keys.unwrap('org_1', bytes, binding),
      () => keys.whenShipped('org_1'),
    ]
    for (const use of uses) {
      const error = await use().catch((error: unknown) => error)
      expect(error).toBeInstanceOf(MissingKeyError)
      expect(String(error)).toContain('organization org_1 has no key "webhooks", which wraps')
    }
    expect(await store.read('org_1')).toEqual(before)
  })

  it('uses the key that was restored after the first read found none', async () => {
    const bytes = await wrapped()
    await redis.rename(stored, 'lost')
    const restoring = {
      read: (orgId: string) => store.read(orgId),
      checkComplete: async () => { await redis.rename('lost', stored) },
    }
    const keys = createOrganizationKeys({ store: restoring, roots, class: 'results' })
    expect(await keys.unwrap('org_1', bytes, binding)).toEqual(plain)
  })
})

afterEach(() => vi.unstubAllEnvs())

it('the keys of organizations report calls of Vault to the metrics of their service', async () => {
  vi.stubEnv('VAULT_ADDR', 'http://127.0.0.1:1')
  vi.stubEnv('VAULT_TOKEN', 'token')
  const metrics = createMetrics()
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
