import { beforeAll, describe, expect, it } from 'vitest'
import {
  addOrganizationKey, createOrganizationKeys, OrganizationKeyStore,
  createPublicOrganizationKeys, OrganizationErasedError, wrappingKeyId,
} from '../../../services/accounts/organization-keys.ts'
import { newOrganizationId } from '../../../services/accounts/organizations.ts'
import { readRootId } from '../../../services/runtime/crypto/root-keys.ts'
import { createJobKeyEraser } from '../../../services/jobs/erasures.ts'
import { keysInTopic } from '../../../services/jobs/job-keys.ts'
import { jobRedisKeys } from '../../../services/jobs/job-record.ts'
import { TENANTS_KEY } from '../../../services/money/redis-keys.ts'
import { toTombstone, wrappedInRedis, wrappedInTopic } from '../../../services/jobs/wrapped-keys.ts'
import { InfrastructureError } from '../../../services/runtime/platform/errors.ts'
import { KEY_CLASSES } from '../../../services/topology.ts'
import { listKeys, rewrapAll, rotationNote } from '../../../services/admin/key-rotation.ts'
import {
  addVersion, createOrganization, erase, makeJob, processWith, rootsOf,
} from '../../support/keys/key-processes.ts'
import {
  bus, codec, copied, idOf, keyStore, organizations, producer, redis, restore, ship, stores,
} from '../../support/keys/wrapped-keys.ts'

const roots = rootsOf(1)
const plain = Buffer.alloc(32, 5)
const binding = ['data-key', 't', 'job_1']
const counted: string[] = []
const keysOf = (keyClass: 'results' | 'webhooks' = 'results') => createOrganizationKeys({
  store: keyStore,
  roots: roots[keyClass],
  class: keyClass,
  metrics: { count: (_name, labels) => { counted.push(Object.values(labels ?? {}).join(' ')) } },
})

describe('the keys of an organization', () => {
  it('are unwrapped by the root key once per process, and each use is counted', async () => {
    const id = await createOrganization(roots)
    const keys = keysOf()
    const wrapped = await keys.wrap(id, plain, binding)
    counted.length = 0
    const reader = keysOf()
    for (let time = 0; time < 3; time++) await reader.unwrap(id, wrapped, binding)
    expect(counted).toEqual([
      'results root', 'results organization', 'results organization', 'results organization',
    ])
  })

  it('wrap data keys once the topic has them', async () => {
    const id = newOrganizationId()
    await addOrganizationKey({ store: keyStore, roots: roots.results, class: 'results' }, id, 1)
    const keys = keysOf()
    const waiting = keys.whenShipped(id)
    await expect(Promise.race([waiting, Promise.resolve('waits')])).resolves.toBe('waits')
    await keys.wrap(id, plain, binding)
    await ship()
    await waiting
    expect((await keyStore.read(id)).every(({ shippedAtMs }) => shippedAtMs > 0)).toBe(true)
    expect(await keyStore.unshipped(10)).toEqual([])
  })

  it('stay in the outbox when they are added while others are shipped', async () => {
    const id = await createOrganization(roots)
    const [first] = await keyStore.read(id)
    await keyStore.add(id, { ...first!, version: 2 })
    await keyStore.markShipped(id, [first!])
    expect(await keyStore.unshipped(10)).toEqual([id])
    await ship()
  })

  it('with a tombstone are deleted again after the return of an old file of Redis', async () => {
    const id = await createOrganization(roots)
    const [old] = await keyStore.read(id)
    await addVersion(id, roots, 2)
    const { rotation } = processWith(roots)
    await rotation.sendTombstone(id, old!)
    await restore()
    expect((await keyStore.read(id)).map(({ class: name, version }) => `${name}.${version}`))
      .not.toContain(`${old!.class}.${old!.version}`)
  })
})

it('the public keys of an organization ' +
  'wrap what only the owner of the root key unwraps', async () => {
  const id = await createOrganization(roots)
  const keys = createPublicOrganizationKeys({
    store: new OrganizationKeyStore(redis), class: 'results',
  })
  const wrapped = await keys.wrap(id, plain, binding)
  expect(wrappingKeyId(wrapped)).toBe('results.1')
  expect(await keysOf().unwrap(id, wrapped, binding)).toEqual(plain)
  await expect(keysOf().unwrap(id, wrapped, ['data-key', 't', 'job_2']))
    .rejects.toThrow('decryption failed')
  await expect(keys.wrap('org_new', plain, binding)).rejects.toThrow(InfrastructureError)
})

const rootIdsOf = async (orgId: string) =>
  [...new Set((await keyStore.read(orgId)).map(({ wrapped }) => readRootId(wrapped)))]

/** A webhook secret, its predecessor, a signing key, a person and a partner. */
async function createAccounts (orgId: string, name: string) {
  const { webhookSecrets, signingKeys, people, partners } = processWith(rootsOf(1, 2))
  await webhookSecrets.show(orgId)
  await webhookSecrets.rotate(orgId)
  await signingKeys.show(orgId)
  await people.add(orgId, { email: 'ann@example.com', role: 'owner', createdBy: '' })
  await partners.create({ name, orgId, mode: 'live', pricesMicros: {}, partitions: 4 })
}

/** What a process with these root keys opens of an organization. */
async function openedBy (roots: Parameters<typeof processWith>[0], orgId: string, name: string) {
  const { webhookSecrets, signingKeys, people, partners, jobKeys: keys } = processWith(roots)
  return [
    await webhookSecrets.active(orgId), await signingKeys.active(orgId),
    await people.list(orgId), await partners.keysOf(name),
    await keys.get(`${orgId}.live`, 'job_1'), await keys.get(`${orgId}.test`, 'job_2'),
  ]
}

describe('a root key', () => {
  // No organization of another test counts.
  beforeAll(async () => {
    await redis.del(TENANTS_KEY, ...await redis.keys('{global}:organization-keys:*'))
  })

  it('wraps keys of organizations until all are rewrapped, and may be removed then', async () => {
    const org = await createOrganization(rootsOf(1))
    const other = await createOrganization(rootsOf(1, 2))
    await createAccounts(org, 'acme')
    await makeJob('job_1', `${org}.live`, processWith(rootsOf(1)))
    await makeJob('job_2', `${org}.test`, processWith(rootsOf(1, 2)))
    const before = await openedBy(rootsOf(1), org, 'acme')
    const uses = async () => (await listKeys(processWith(rootsOf(1, 2)).rotation)).rootKeys
      .filter(({ class: keyClass }) => keyClass === 'webhooks')
    const common = { class: 'webhooks', configured: true, activeIn: [], missingIn: [] }
    expect(await uses()).toEqual([
      { ...common, id: '1', isActive: false, wraps: 1, isFree: false },
      { ...common, id: '2', isActive: true, wraps: 1, isFree: false },
    ])
    const lacking = await rewrapAll(processWith(rootsOf(2)).rotation)
    expect(lacking).toMatchObject({ rewrapped: 0, missed: 0, deleted: [] })
    expect(lacking.lacking).toContain('key "1" of RESULTS_ROOT_KEYS')
    expect(rotationNote(lacking)).toContain('Missing, but still needed: key "1" of RESULTS_ROOT')

    const done = await rewrapAll(processWith(rootsOf(1, 2)).rotation)
    expect(done).toMatchObject({ rewrapped: 3, missed: 0, lacking: [], broken: 0, replaced: [] })
    expect(rotationNote(done)).toBe('Nothing is wrapped by "1" of RESULTS_ROOT_KEYS, "1" of ' +
      'WEBHOOKS_ROOT_KEYS, "1" of PARTNERS_ROOT_KEYS, and no running process has it as active: ' +
      'a new key is not in use yet, a replaced one may be removed from the setting.')
    expect(rotationNote(await listKeys(processWith(rootsOf(2)).rotation)))
      .toContain('Every root key is active or wraps something.')
    expect((await uses()).map(({ wraps, isFree }) => [wraps, isFree]))
      .toEqual([[0, true], [2, false]])
    expect([await rootIdsOf(org), await rootIdsOf(other)]).toEqual([['2'], ['2']])
    expect(await openedBy(rootsOf(2), org, 'acme')).toEqual(before)
    // The topic has them too, for a loss of Redis.
    const inTopic = await bus.lastValue('organization.keys', `${org}:results:1`)
    const { wrapped } = await codec.decode(
      'organization.keys', inTopic ?? Buffer.alloc(0)) as { wrapped: Buffer }
    expect(readRootId(wrapped)).toBe('2')
  })
})

describe('the key of an organization', () => {
  it('is replaced by a version that wraps everything, and is deleted then', async () => {
    const roots = rootsOf(1, 2)
    const org = await createOrganization(roots)
    const other = await createOrganization(roots)
    await createAccounts(org, 'initech')
    await makeJob('job_1', `${org}.live`, processWith(roots))
    await makeJob('job_2', `${org}.test`, processWith(roots))
    await makeJob('job_3', `${other}.live`, processWith(roots))
    const before = await openedBy(roots, org, 'initech')
    await addVersion(org, roots, 2)
    await producer.send([toTombstone(`${org}.live`, 'job_0')])
    const { rotation } = processWith(roots)
    const replaced = (await listKeys(rotation)).replaced
    expect(replaced.map(({ organization, key, exists }) => [organization, key, exists])).toEqual([
      [org, 'results.1', true], [org, 'webhooks.1', true], [org, 'partners.1', true],
    ])
    expect(replaced.map(({ wraps }) => wraps)).toMatchObject([
      { jobKeys: 2, jobKeysInTopic: 2, jobKeysInClickhouse: 2 },
      { jobKeys: 2, webhookSecrets: 3, people: 1 }, { partnerKeys: 1 },
    ])

    const done = await rewrapAll(rotation)
    expect(done).toMatchObject({ rewrapped: 11, missed: 0, replaced: [], lacking: [], broken: 0 })
    expect(done.deleted).toEqual(
      ['results', 'webhooks', 'partners'].map(name => `${name}.1 of ${org}`))
    expect((await rewrapAll(rotation)).rewrapped).toBe(0)
    expect(await openedBy(roots, org, 'initech')).toEqual(before)
    expect((await keyStore.read(org)).map(({ version }) => version)).toEqual([2, 2, 2])
    const inTopic = await keysInTopic({ bus, codec })(`${org}.live`, 'job_1') ?? Buffer.alloc(0)
    expect(idOf(inTopic)).toBe('results.2')
    expect(copied.filter(({ job }) => job !== 'job_0').map(({ tenant, wrapped }) =>
      [tenant.split('.')[0] === org, idOf(wrapped)])).toEqual(expect.arrayContaining([
      [true, 'results.2'], [false, 'results.1'],
    ]))
    expect(copied.filter(({ tenant }) => tenant.startsWith(org))).toHaveLength(2)
    expect(await redis.pttl(jobRedisKeys(`${org}.live`, 'job_1').dataKey))
      .toBeGreaterThan(3_000_000)
  })

  it('is kept while a process may use it, and is deleted from the topic first', async () => {
    const roots = rootsOf(1, 2)
    const org = await createOrganization(roots)
    await makeJob('job_1', `${org}.live`, processWith(roots))
    await addVersion(org, roots, 2)
    const { rotation } = processWith(roots)
    const versions = async () => (await keyStore.read(org)).map(({ version }) => version)
    const deletedBy = async (change: Partial<typeof rotation>) =>
      (await rewrapAll({ ...rotation, ...change })).deleted
    // Another process has changed what it wraps meanwhile.
    const changing: typeof rotation.sourcesOf = organizations => ({
      ...rotation.sourcesOf(organizations),
      jobKeys: async function * () {
        for await (const wrapped of wrappedInRedis(redis)) {
          yield { ...wrapped, replace: async () => false }
        }
      },
    })
    expect(await deletedBy({ sourcesOf: changing })).toEqual([`partners.1 of ${org}`])
    await rewrapAll({ ...rotation, now: Date.now })
    expect(await deletedBy({ now: Date.now })).toEqual([])
    const readUnshipped: typeof rotation.readKeys = async () =>
      new Map([...await rotation.readKeys()].map(([orgId, keys]) =>
        [orgId, keys.map(key => ({ ...key, shippedAtMs: 0 }))]))
    expect(await deletedBy({ readKeys: readUnshipped })).toEqual([])
    const report = await listKeys(rotation)
    expect(rotationNote(report)).toContain('replaced but not deleted yet')
    const sendTombstone = () => Promise.reject(new Error('no broker'))
    await expect(deletedBy({ sendTombstone })).rejects.toThrow('no broker')
    expect((await versions()).toSorted()).toEqual([1, 1, 2, 2, 2])
    expect(await deletedBy({})).toEqual([`results.1 of ${org}`, `webhooks.1 of ${org}`])
    expect(await versions()).toEqual([2, 2, 2])
  })

  it('stays erased when it is rewrapped concurrently', async () => {
    const org = await createOrganization(rootsOf(1))
    const { rotation } = processWith(rootsOf(1, 2))
    const sendKeys: typeof rotation.sendKeys = async (orgId, keys) => {
      if (orgId === org) {
        for (const key of keys) await rotation.sendTombstone(org, key)
        await keyStore.erase(org)
      }
      await rotation.sendKeys(orgId, keys)
    }
    await rewrapAll({ ...rotation, sendKeys })
    expect(await keyStore.read(org)).toEqual([])
    for (const name of KEY_CLASSES) {
      expect(await bus.lastValue('organization.keys', `${org}:${name}:1`)).toBeUndefined()
    }
  })

  it('is deleted in all classes when the organization is erased', async () => {
    const org = await createOrganization(roots)
    // The topic in memory is never compacted, so it keeps what the tombstones delete.
    expect(await erase(org))
      .toMatchObject({ done: false, aof: 'none', copiesInRedis: 0, copiesInTopic: 3 })
    const last = await Promise.all(KEY_CLASSES.map(name =>
      bus.lastValue('organization.keys', `${org}:${name}:1`)))
    expect(last).toEqual([undefined, undefined, undefined])
    await expect(keysOf().wrap(org, plain, binding)).rejects.toThrow(OrganizationErasedError)
  })

  it('is missing for no report once the organization is erased', async () => {
    const org = await createOrganization(roots)
    const { rotation, newJobKeys, webhookSecrets } = processWith(roots)
    await makeJob('job_erased', `${org}.live`, { newJobKeys })
    await webhookSecrets.show(org)
    await keyStore.erase(org)
    const lackingOf = async () => (await listKeys(rotation)).lacking.filter(one =>
      one.includes(org))
    expect(await lackingOf())
      .toEqual([`keys of ${org}`, `key results.1 of ${org}`, `key webhooks.1 of ${org}`])
    await organizations.markErased(org)
    expect(await lackingOf()).toEqual([])
    const report = await rewrapAll(rotation)
    expect(report.replaced.filter(({ organization }) => organization === org)).toEqual([])
  })

  it('is not guessed from bytes that were never wrapped', async () => {
    const { rotation } = processWith(rootsOf(1, 2))
    await redis.set(jobRedisKeys('org_9.live', 'job_broken').dataKey, Buffer.of(0))
    expect((await listKeys(rotation)).broken).toBe(1)
    await redis.del(jobRedisKeys('org_9.live', 'job_broken').dataKey)
  })
})

describe('a job that is erased', () => {
  const both = rootsOf(1, 2)
  let tenant: string
  beforeAll(async () => { tenant = `${await createOrganization(both)}.live` })

  it('loses its key in Redis and in its topic, and cannot get it back', async () => {
    await makeJob('job_31', tenant, processWith(both))
    const keys = createJobKeyEraser(stores)
    const jobs = ['job_31', 'job_32']
    expect(await keys.copiesInRedis({ tenant, jobs })).toEqual(new Map([['job_31', 1]]))
    const wrapped = await keys.remove({ tenant, jobs })
    expect(wrapped.get('job_31')?.map(idOf)).toEqual(['results.1', 'results.1'])
    expect(await keys.copiesInRedis({ tenant, jobs })).toEqual(new Map())
    expect(await keys.copiesInClickhouse({ tenant, jobs })).toMatchObject(new Map([['job_31', 1]]))
    await keys.removeCopies({ tenant, jobs })
    expect(await keys.copiesInClickhouse({ tenant, jobs })).toEqual(new Map())
    expect(await keysInTopic({ bus, codec })(tenant, 'job_31')).toBeUndefined()
    // What is not compacted yet is a copy.
    expect((await keys.copiesInTopic(jobs)).get('job_31')).toBeGreaterThan(0)
    expect(await keys.copiesInDeadLetters(wrapped)).toEqual(new Map())
    const value = Buffer.concat([Buffer.from('a'), ...wrapped.get('job_31') ?? []])
    await producer.send([{ topic: 'settle.dead', key: 'job_31', value, headers: {} }])
    expect(await keys.copiesInDeadLetters(wrapped)).toEqual(new Map([['job_31', 1]]))
  })

  it('stays erased when its key is rewrapped concurrently', async () => {
    await makeJob('job_33', tenant, processWith(both))
    const keys = createJobKeyEraser(stores)
    const erased = { tenant, jobs: ['job_33'] }
    const before = [...copied]
    const { rotation } = processWith(both)
    const { jobKeysInClickhouse } = rotation.sourcesOf(await rotation.readKeys())
    for (const found of [wrappedInTopic(stores), jobKeysInClickhouse()]) {
      for await (const { pieces: [{ bytes, binding }, other], replace } of found) {
        if (binding[2] !== 'job_33') continue
        await keys.remove(erased)
        await keys.removeCopies(erased)
        expect(await replace([bytes, other!.bytes])).toBe(false)
      }
      expect(copied.map(({ job }) => job)).not.toContain('job_33')
      copied.splice(0, copied.length, ...before)
    }
    expect(await keysInTopic({ bus, codec })(tenant, 'job_33')).toBeUndefined()
    for await (const { pieces: [{ binding }] } of wrappedInRedis(redis)) {
      expect(binding[2]).not.toBe('job_33')
    }
  })

  it('is removed from the append-only file, even during a rewrite of it', async () => {
    const key = createJobKeyEraser(stores)
    expect(await key.rewriteAof()).toBe('none')
    await redis.config('SET', 'appendonly', 'yes')
    expect(await key.rewriteAof()).toBe('rewritten')
    expect(await redis.info('persistence')).toContain('aof_last_bgrewrite_status:ok')
  })
})
