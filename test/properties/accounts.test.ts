import { beforeEach, describe, expect, it, vi, type MockInstance } from 'vitest'
import type { Account } from '../../schemas/types.ts'
import { createApiKeys, hashSecret } from '../../services/accounts/api-keys.ts'
import {
  OrganizationKeyStore, ERASED_FIELD,
} from '../../services/accounts/organization-keys.ts'
import { createOrganizations, newOrganizationId } from '../../services/accounts/organizations.ts'
import { createPartners } from '../../services/accounts/partners.ts'
import {
  accountKey, ACCOUNTS_OUTBOX_KEY, createAccountRecords,
} from '../../services/accounts/records.ts'
import { TENANTS_KEY } from '../../services/money/redis-keys.ts'
import { createWebhookEndpoints } from '../../services/webhooks/endpoints.ts'
import { createWebhookSecrets } from '../../services/webhooks/secrets.ts'
import { KEY_CLASSES, type KeyClass } from '../../services/topology.ts'
import {
  type AccountsDeps, restoreAccounts, restoreLostKeys, sendOrganizationKeys, shipAccounts,
} from '../../services/accounts/account-topics.ts'
import { eventually } from '../support/eventually.ts'
import { organizationKeysOf } from '../support/keys/organization-keys.ts'
import { contentOf, putBack, type Snapshot, snapshotOf } from '../support/redis/content.ts'
import {
  createRecoveryEnvironment, type RecoveryEnvironment,
} from '../support/recovery/recovery-environment.ts'
import { startRestartableRedis } from '../support/redis/redis.ts'
import { codec } from '../support/clickhouse/results.ts'
import { peopleOn } from '../support/page/stored-people.ts'

const { redis, restart } = await startRestartableRedis()
const keys = organizationKeysOf(7)
const { signal } = new AbortController()

let environment: RecoveryEnvironment
beforeEach(async () => {
  await redis.flushall()
  environment = createRecoveryEnvironment(redis)
  await restore()
})

const restore = async () => restoreAccounts(environment.deps, signal)
const ship = (more: Partial<RecoveryEnvironment['deps']> = {}) =>
  shipAccounts({ ...environment.deps, ...more }, signal)
const unshipped = () => redis.smembers(ACCOUNTS_OUTBOX_KEY)

/** Accounts as a process has them that knows nothing of earlier reads. */
const accounts = () => ({
  records: createAccountRecords(redis),
  organizations: createOrganizations(redis),
  apiKeys: createApiKeys(redis),
  people: peopleOn(redis),
  partners: createPartners({ redis, keys }),
  webhookSecrets: createWebhookSecrets({ redis, keys }),
  endpoints: createWebhookEndpoints({ redis, keys }),
})
const kindOf = async (secret: string) =>
  (await accounts().apiKeys.findKey(secret, '192.0.2.7')).kind

/** An organization with a policy, a webhook secret, a partner, a good key and a revoked one. */
async function createAll () {
  const { organizations, apiKeys, partners, webhookSecrets } = accounts()
  const { id: orgId } = await organizations.create('Example')
  await organizations.setPolicy(orgId, { freshnessDays: 7 })
  const make = () => apiKeys.create({ orgId, mode: 'live', scopes: ['jobs:read'] })
  const [good, revoked] = [await make(), await make()]
  await apiKeys.revoke(orgId, revoked.id)
  await partners.create({ name: 'acme', orgId, mode: 'live', pricesMicros: {}, partitions: 2 })
  return { orgId, good, revoked, secret: await webhookSecrets.show(orgId) }
}

/** Redis starts again from an old file. */
async function startFrom (old: Snapshot) {
  await putBack(redis, old)
  await restart()
}

async function shippedAccounts (): Promise<readonly Account[]> {
  const messages = environment.bus.messages('accounts')
  return await Promise.all(messages.map(async ({ value }) =>
    await codec.decode('accounts', value!) as Account))
}

const again = async (value: Account) => {
  const bytes = await codec.encode('accounts-value', value)
  const message = { topic: 'accounts', key: value.name, value: bytes, headers: {} }
  await environment.bus.producer('adversary').send([message])
}

describe('accounts in a Redis that lost everything', () => {
  it('are restored: a good key works, a revoked one does not, partners stay', async () => {
    const { orgId, good, revoked, secret } = await createAll()
    await ship()
    const { apiKeys, endpoints, organizations, partners } = accounts()
    const settings = {
      url: 'https://hooks.example.com/', events: ['*'], description: '', enabled: true,
    } as const
    const endpoint = await endpoints.create(`${orgId}.live`, settings, 20)
    await ship()
    const keys = (await apiKeys.list(orgId)).map(({ id }) => id)
    const before = [await organizations.find(orgId), await partners.list()]
    const partnerKeys = await partners.keysOf('acme')
    await redis.flushall()
    await expect(kindOf(good.secret)).rejects.toThrow('locked until the leader')
    await restore()
    expect([await kindOf(good.secret), await kindOf(revoked.secret)]).toEqual(['ok', 'revoked'])
    const after = accounts()
    const hashes = ['another', good.secret, revoked.secret].map(hashSecret)
    expect([...await after.apiKeys.findExisting(hashes)]).toEqual(hashes.slice(1))
    expect([await after.organizations.find(orgId), await after.partners.list()]).toEqual(before)
    expect((await after.apiKeys.list(orgId)).map(({ id }) => id)).toEqual(keys)
    expect(await after.partners.keysOf('acme')).toEqual(partnerKeys)
    expect(await after.webhookSecrets.active(orgId)).toEqual([secret])
    expect(await after.endpoints.list(`${orgId}.live`)).toEqual([endpoint])
    expect(await after.organizations.subscriptions(`${orgId}.live`))
      .toMatchObject([{ endpoint: endpoint?.id }])
    expect((await redis.smembers(TENANTS_KEY)).toSorted())
      .toEqual([`${orgId}.live`, `${orgId}.test`])
    expect(await unshipped()).toEqual([])
  })

  it('have their people again: a member signs in, a removed one does not', async () => {
    const { id: orgId } = await accounts().organizations.create('Example')
    const { people } = accounts()
    const identityOf = (name: string) => ({
      issuer: 'https://login.example', subject: name, email: `${name}@example.com`,
    })
    for (const name of ['ann', 'bob']) {
      await people.add(orgId, { email: `${name}@example.com`, role: 'owner', createdBy: 'test' })
      await people.membershipsOf(identityOf(name))
    }
    await ship()
    const old = await snapshotOf(redis)
    const [ann, bob] = await people.list(orgId)
    await people.remove(orgId, bob!.id)
    await people.endSessions(orgId, ann!.id)
    await ship()
    for (const lose of [() => redis.flushall(), () => startFrom(old)]) {
      await lose()
      await expect(accounts().people.membershipsOf(identityOf('ann')))
        .rejects.toThrow('locked until the leader')
      await restore()
      expect(await accounts().people.membershipsOf({ ...identityOf('ann'), email: '' }))
        .toMatchObject([{ orgId, person: { id: ann!.id, generation: 1 } }])
      expect(await accounts().people.membershipsOf(identityOf('bob'))).toEqual([])
    }
  })

  it('have no policy and no subscription before they are restored', async () => {
    const { orgId } = await createAll()
    await ship()
    await redis.flushall()
    const { organizations } = accounts()
    const tenant = `${orgId}.live`
    for (const read of [
      () => organizations.policy(tenant), () => organizations.subscriptions(tenant),
      () => organizations.isErased(orgId),
    ]) await expect(read()).rejects.toThrow('locked until the leader')
    await restore()
    expect(await organizations.policy(tenant)).toMatchObject({ freshnessDays: 7 })
  })

  it('are restored once, however often the recovery is repeated', async () => {
    await createAll()
    await ship()
    await redis.flushall()
    await restore()
    const restored = await contentOf(redis)
    await restore()
    expect(await contentOf(redis)).toEqual(restored)
    expect(environment.counted['account']).toBe(4)
  })
})

describe('accounts in a Redis that comes back with an old file', () => {
  it('keep a key revoked that was revoked after the file', async () => {
    const { orgId, good } = await createAll()
    await ship()
    const old = await snapshotOf(redis)
    await accounts().apiKeys.revoke(orgId, good.id)
    await ship()
    await startFrom(old)
    await expect(kindOf(good.secret)).rejects.toThrow('locked until the leader')
    await restore()
    expect(await kindOf(good.secret)).toBe('revoked')
  })

  it('are changed only once they were compared, so that no later change is hidden', async () => {
    const { orgId, good } = await createAll()
    await ship()
    const old = await snapshotOf(redis)
    await accounts().apiKeys.revoke(orgId, good.id)
    await ship()
    await startFrom(old)
    // The old file has the revision before the revocation, and this one would be the same.
    const changed = accounts().records.change({
      name: `key:${hashSecret(good.secret)}`, fields: { expiresAt: String(Date.now() + 60_000) },
    })
    for (let answers = 0; answers < 3; answers += 1) await redis.ping()
    await restore()
    expect(await changed).toBe(true)
    expect(await kindOf(good.secret)).toBe('revoked')
  })

  it('may be created under a random name before they were compared', async () => {
    await restart()
    const { organizations, apiKeys, partners } = accounts()
    const { id: orgId } = await organizations.create('New')
    await organizations.setPolicy(orgId, { freshnessDays: 3 })
    const key = await apiKeys.create({ orgId, mode: 'test', scopes: ['jobs:read'] })
    expect(await kindOf(key.secret)).toBe('ok')
    const partner = { orgId, mode: 'test', pricesMicros: {}, partitions: 1 } as const
    expect(await partners.create({ ...partner, name: 'by-chance', random: true })).toBeDefined()
    const waiting = partners.create({ ...partner, name: 'acme' })
    for (let answers = 0; answers < 3; answers += 1) await redis.ping()
    expect(await partners.find('acme')).toBeUndefined()
    await restore()
    expect(await waiting).toBeDefined()
    await ship()
    expect((await shippedAccounts()).map(({ revision }) => revision).toSorted())
      .toEqual([1, 1, 1, 2])
  })
})

const webhookKey = {
  class: 'webhooks', version: 1, wrapped: Buffer.of(1), public: Buffer.of(2), createdAtMs: 0,
} as const

describe('a change of an account', () => {
  it('is shipped, and restored, after the keys that wrap its secrets', async () => {
    const { orgId } = await createAll()
    await new OrganizationKeyStore(redis).add(orgId, { ...webhookKey, version: 2 })
    const topics = new Set<string>()
    const send: RecoveryEnvironment['deps']['accountsProducer']['send'] = async messages => {
      for (const { topic } of messages) topics.add(topic)
      await environment.deps.accountsProducer.send(messages)
    }
    await ship({ accountsProducer: { send } })
    expect([...topics]).toEqual(['organization.keys', 'accounts'])
    await redis.flushall()
    const { reader } = environment.deps
    const read: typeof reader.read = async (topic, ...rest) => {
      if (topic === 'organization.keys') throw new Error('Kafka is away')
      return await reader.read(topic, ...rest)
    }
    await expect(restoreAccounts({ ...environment.deps, reader: { ...reader, read } }, signal))
      .rejects.toThrow('away')
    await expect(accounts().webhookSecrets.rotate(orgId)).rejects.toThrow('locked until the leader')
    await restore()
    expect(await new OrganizationKeyStore(redis).read(orgId)).toHaveLength(1)
  })

  it('outlives the loss of its topics, and of Redis after that, with the keys', async () => {
    const { orgId } = await createAll()
    const { id: erased } = await accounts().organizations.create('Erased')
    const store = new OrganizationKeyStore(redis)
    for (const version of [2, 3]) {
      for (const id of [orgId, erased]) await store.add(id, { ...webhookKey, version })
    }
    await ship()
    const keysIn = async (id: string) =>
      (await store.read(id)).map(({ shippedAtMs: _, ...key }) => key)
    const before = await keysIn(orgId)
    expect(before).toHaveLength(2)
    await redis.hset(accountKey(`org:${erased}`), { [ERASED_FIELD]: '1' })
    environment = createRecoveryEnvironment(redis)
    await restore()
    await ship()
    await redis.flushall()
    await restore()
    expect(await keysIn(orgId)).toEqual(before)
    expect(await keysIn(erased)).toEqual([])
  })

  it('does not bring back a version of a key that was removed', async () => {
    const { orgId } = await createAll()
    const store = new OrganizationKeyStore(redis)
    for (const version of [2, 3]) await store.add(orgId, { ...webhookKey, version })
    await ship()
    const [old, ...kept] = await store.read(orgId)
    // Long ago: the broker has deleted the tombstone with what it deletes.
    environment = createRecoveryEnvironment(redis)
    await sendOrganizationKeys(environment.deps, { orgId, keys: kept })
    await restore()
    await redis.flushall()
    await restore()
    expect([old?.version, (await store.read(orgId)).map(({ version }) => version)])
      .toEqual([2, [3]])
  })

  it('made with keys after others were shipped reaches its topic after them', async () => {
    await createAll()
    const late = newOrganizationId()
    const sent: string[] = []
    const send: RecoveryEnvironment['deps']['accountsProducer']['send'] = async messages => {
      sent.push(...messages.map(({ topic, key }) => `${topic} ${key}`))
    }
    type Choose = (name: string, count: number) => Promise<string[]>
    const choose = redis.srandmember.bind(redis) as Choose
    const choosing = vi.spyOn(redis, 'srandmember') as unknown as MockInstance<Choose>
    choosing.mockImplementation(async (name, count) => {
      if (name === ACCOUNTS_OUTBOX_KEY && await redis.exists(accountKey(`org:${late}`)) === 0) {
        await new OrganizationKeyStore(redis).add(late, webhookKey)
        await accounts().organizations.create('Late', late)
      }
      return await choose(name, count)
    })
    await ship({ accountsProducer: { send } })
    choosing.mockRestore()
    expect(sent.filter(one => one.includes(late)))
      .toEqual([`organization.keys ${late}:webhooks:1`, `accounts org:${late}`])
  })

  it('that a crash left in Redis alone is shipped by the next leader', async () => {
    const { orgId } = await createAll()
    await ship()
    await accounts().organizations.setPolicy(orgId, { freshnessDays: 1 })
    await restart()
    await restore()
    await ship()
    await redis.flushall()
    await restore()
    expect(await accounts().organizations.find(orgId))
      .toMatchObject({ policy: { freshnessDays: 1 } })
  })

  it('is not shipped again because accounts are restored', async () => {
    await createAll()
    await ship()
    const before = await shippedAccounts()
    const { deps } = environment
    const read: typeof deps.reader.read = async (topic, ...more) => {
      if (topic === 'accounts') await ship()
      return await deps.reader.read(topic, ...more)
    }
    await restart()
    await restoreAccounts({ ...deps, reader: { read } }, signal)
    expect([await shippedAccounts(), await unshipped()]).toEqual([before, []])
  })

  it('stays in the outbox until the topic has acknowledged it, with its keys', async () => {
    const { orgId } = await createAll()
    const store = new OrganizationKeyStore(redis)
    await store.add(orgId, { ...webhookKey, version: 2 })
    const send = async () => { throw new Error('Kafka is away') }
    await expect(ship({ accountsProducer: { send } })).rejects.toThrow('away')
    expect([(await unshipped()).length, await store.unshipped(10)]).toEqual([4, [orgId]])
    await ship()
    expect([await unshipped(), await store.unshipped(10)]).toEqual([[], []])
  })

  it('made while the one before is shipped is shipped as well', async () => {
    const { orgId } = await createAll()
    await ship()
    await accounts().organizations.setPolicy(orgId, { freshnessDays: 20 })
    let sent = 0
    const send: RecoveryEnvironment['deps']['accountsProducer']['send'] = async messages => {
      if (sent++ === 0) await accounts().organizations.setPolicy(orgId, { freshnessDays: 30 })
      await environment.deps.accountsProducer.send(messages)
    }
    await ship({ accountsProducer: { send } })
    expect(sent).toBe(2)
    const last = (await shippedAccounts()).findLast(({ name }) => name === `org:${orgId}`)
    expect(last?.fields).toContainEqual({ name: 'freshnessDays', value: '30' })
  })

  it('does not include when a key was used', async () => {
    const { orgId, good } = await createAll()
    await ship()
    const { apiKeys } = accounts()
    await apiKeys.findKey(good.secret, '192.0.2.7')
    await eventually(async () => expect((await apiKeys.list(orgId))
      .find(({ id }) => id === good.id)?.lastUsedFrom).toBe('192.0.2.7'))
    expect(await unshipped()).toEqual([])
    await apiKeys.revoke(orgId, good.id)
    await ship()
    const fields = (await shippedAccounts()).flatMap(account => account.fields)
    const local = ['lastUsedAt', 'lastUsedFrom', 'madeIn', 'revision']
    expect(fields.filter(({ name }) => local.includes(name))).toEqual([])
  })
})

describe('keys of organizations that Redis has lost while it runs', () => {
  const store = new OrganizationKeyStore(redis)
  const keyOf = (name: KeyClass, more: object = {}) => ({ ...webhookKey, class: name, ...more })
  /** Adds these to Redis, and version 1 of all classes to the topic. */
  async function have (orgId: string, keys: readonly ReturnType<typeof keyOf>[]): Promise<void> {
    for (const key of keys) await store.add(orgId, key)
    await sendOrganizationKeys(environment.deps, {
      orgId, keys: KEY_CLASSES.map(name => ({ ...keyOf(name), shippedAtMs: 0 })),
    })
  }
  const restoreLost = async (orgIds: readonly string[], more: Partial<AccountsDeps> = {}) =>
    await restoreLostKeys({
      ...environment.deps, ...more, tenants: { all: async () => orgIds.map(id => `${id}.live`) },
    }, signal)

  it('are restored from their topic, but none that a newer version replaced', async () => {
    await have('org_whole', KEY_CLASSES.map(name => keyOf(name, { version: 2 })))
    const [lost, ...kept] = KEY_CLASSES
    await have('org_partial', kept.map(name => keyOf(name, { wrapped: Buffer.of(9) })))
    await have('org_none', [])
    const whole = await store.read('org_whole')
    expect(await restoreLost(['org_whole', 'org_partial', 'org_none', 'org_nowhere'])).toBe(1)
    expect(await store.read('org_whole')).toEqual(whole)
    expect((await store.read('org_partial')).map(key => [key.class, ...key.wrapped]).toSorted())
      .toEqual([[lost, 1], ...kept.map(name => [name, 9])].toSorted())
    const none = await store.read('org_none')
    expect(none.map(key => key.class).toSorted()).toEqual([...KEY_CLASSES].sort())
    for (const { shippedAtMs } of none) expect(shippedAtMs).toBeGreaterThan(0)
  })

  it('are not searched for while none are lost, nor those of erased organizations', async () => {
    await have('org_whole', KEY_CLASSES.map(name => keyOf(name)))
    await redis.hset(accountKey('org:org_erased'), { [ERASED_FIELD]: '1' })
    const read = async () => { throw new Error('unexpected read') }
    expect(await restoreLost(['org_whole', 'org_erased'], { reader: { read } })).toBe(0)
  })

  it('are not restored for an organization that is erased meanwhile', async () => {
    await have('org_lost', [])
    const { reader } = environment.deps
    const read: typeof reader.read = async (...given) => {
      await redis.hset(accountKey('org:org_lost'), { [ERASED_FIELD]: '1' })
      return await reader.read(...given)
    }
    expect(await restoreLost(['org_lost'], { reader: { read } })).toBe(0)
    expect(await store.read('org_lost')).toEqual([])
  })
})

describe('the topic of accounts', () => {
  it('that was lost gets all accounts again from the next leader', async () => {
    await createAll()
    await ship()
    const names = new Set((await shippedAccounts()).map(({ name }) => name))
    environment = createRecoveryEnvironment(redis)
    await restore()
    await ship()
    expect(new Set((await shippedAccounts()).map(({ name }) => name))).toEqual(names)
  })

  it('restores no revoked key from an old message that is sent again', async () => {
    const { orgId, good } = await createAll()
    await ship()
    const unrevoked = (await shippedAccounts()).find(({ name, fields }) =>
      name.startsWith('key:') && !fields.some(({ name: field }) => field === 'revokedAt'))!
    await accounts().apiKeys.revoke(orgId, good.id)
    await ship()
    await again(unrevoked)
    await redis.flushall()
    await restore()
    expect(await kindOf(good.secret)).toBe('revoked')
    await restore()
    expect(await kindOf(good.secret)).toBe('revoked')
  })
})
