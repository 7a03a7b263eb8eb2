import type { Account, ContactListChange, OrganizationKeyValue } from '../../schemas/types.ts'
import type { OutgoingMessage, Producer, RawMessage } from '../runtime/kafka/bus.ts'
import type { Codec } from '../runtime/kafka/registry.ts'
import { splitBatches } from '../runtime/platform/batch-writes.ts'
import { failpoint } from '../runtime/platform/failpoint.ts'
import type { TopicReader } from '../runtime/kafka/topic-reader.ts'
import type { Log } from '../runtime/platform/log.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import { type RedisClient, RUN_ID_LUA, script } from '../runtime/platform/redis.ts'
import { messageKey, topicName } from '../runtime/platform/topics.ts'
import { KEY_CLASSES, type KeyClass } from '../topology.ts'
import {
  LISTS_OUTBOX_KEY, pendingListChanges, removeListChanges, restoreListChanges,
} from './contact-lists.ts'
import {
  isMarkedErased, type KeyVersion, lacksKeys, ORGANIZATION_KEYS_OUTBOX, type OrganizationKey,
  OrganizationKeyStore,
} from './organization-keys.ts'
import {
  accountKey, ACCOUNTS_KEY, ACCOUNTS_OUTBOX_KEY, ACCOUNTS_RUN_KEY, ACCOUNTS_UNREAD_KEY, listAccount,
} from './records.ts'
import { parseTenant } from './tenant.ts'

type RestoreDeps = {
  readonly redis: RedisClient
  readonly reader: TopicReader
  readonly codec: Codec
  readonly log: Pick<Log, 'warn'>
  readonly metrics: Pick<Metrics, 'count'>
}

type ShippingDeps = {
  readonly redis: RedisClient
  readonly codec: Codec
  readonly accountsProducer: Pick<Producer, 'send'>
}

export type AccountsDeps = RestoreDeps & ShippingDeps

const ACCOUNTS = topicName('accounts')
const KEYS = topicName('organization.keys')
const LISTS = topicName('contact.lists')
const BATCH_RECORDS = 200
const BATCH_ORGANIZATIONS = 200
/** Fields that are in Redis only, not in the topic. */
const LOCAL_FIELDS: ReadonlySet<string> = new Set(
  ['revision', 'madeIn', 'lastUsedAt', 'lastUsedFrom'])

/** KEYS: record, accounts, outbox, unread. ARGV: name, the revision in the topic, its fields. */
const RESTORE = `
local current = tonumber(redis.call('HGET', KEYS[1], 'revision') or '0')
local shipped = tonumber(ARGV[2])
if current <= shipped then
  redis.call('SREM', KEYS[3], ARGV[1])
  redis.call('SREM', KEYS[4], ARGV[1])
end
if current >= shipped then
  return 0
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'revision', ARGV[2], unpack(ARGV, 3))
redis.call('SADD', KEYS[2], ARGV[1])
return 1`

/** Removes a name from the outbox if its record still has this revision, or is gone. */
const REMOVE_SHIPPED = `
if (redis.call('HGET', KEYS[1], 'revision') or '0') == ARGV[2] then
  redis.call('SREM', KEYS[2], ARGV[1])
end`

const READ_RUN = `return ${RUN_ID_LUA}`

/** ARGV: a run id. Makes the accounts valid for it, if it is still the run of the server. */
const MARK_RUN = `
if ${RUN_ID_LUA} == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[1])
end`

/**
 * Restores the keys of organizations and the accounts in Redis from their topics, ships keys that
 * the topic lacks, puts accounts that it lacks into the outbox, and then makes the accounts valid
 * for this run of their server. The highest revision of a name wins, so neither an old file of
 * Redis nor a replayed message restores a revoked key. Idempotent.
 * @throws InfrastructureError when Redis or the topic cannot be read.
 */
export async function restoreAccounts (deps: AccountsDeps, signal: AbortSignal): Promise<void> {
  const { redis, reader, codec, log, metrics } = deps
  const restore = script(redis, { name: 'restore-account', source: RESTORE, numberOfKeys: 4 })
  const readRun = script(redis, { name: 'read-run', source: READ_RUN, numberOfKeys: 1 })
  const markRun = script(redis, { name: 'mark-run', source: MARK_RUN, numberOfKeys: 1 })
  const run = await readRun([ACCOUNTS_RUN_KEY], []) as string
  const lastKeys = await restoreOrganizationKeys(deps, signal)
  let restored = 0
  await redis.sunionstore(ACCOUNTS_UNREAD_KEY, ACCOUNTS_KEY)
  await reader.read(ACCOUNTS, async messages => {
    for (const batch of splitBatches(messages, BATCH_RECORDS)) {
      const values = batch.flatMap(({ value }) => value ?? [])
      const written = await Promise.all(values.map(async bytes => {
        const { name, revision, fields } = await codec.decode('accounts', bytes) as Account
        const texts = fields.map(({ name: field, value }) => [field, value] as const)
        await listAccount(redis, { name, fields: Object.fromEntries(texts) })
        const keys = [accountKey(name), ACCOUNTS_KEY, ACCOUNTS_OUTBOX_KEY, ACCOUNTS_UNREAD_KEY]
        return await restore(keys, [name, revision, ...texts.flat()]) as number
      }))
      restored += written.reduce((sum, count) => sum + count, 0)
    }
  }, { signal })
  await shipLostKeys(deps, lastKeys, signal)
  // Not before: the outbox is shipped meanwhile, and the topic keeps every message for ever.
  await redis.sunionstore(ACCOUNTS_OUTBOX_KEY, ACCOUNTS_OUTBOX_KEY, ACCOUNTS_UNREAD_KEY)
  await redis.del(ACCOUNTS_UNREAD_KEY)
  let changed = 0
  await reader.read(LISTS, async messages => {
    const changes = await Promise.all(messages.flatMap(({ value }) => value ?? [])
      .map(async bytes => await codec.decode('contact.lists', bytes) as ContactListChange))
    changed += await restoreListChanges(redis, changes)
  }, { signal })
  await markRun([ACCOUNTS_RUN_KEY], [run])
  metrics.count('recovery_actions_total', { kind: 'account' }, restored)
  metrics.count('recovery_actions_total', { kind: 'contact_list' }, changed)
  if (restored > 0) log.warn({ records: restored }, 'accounts restored from topic')
  if (changed > 0) log.warn({ changes: changed }, 'contact lists restored from topic')
}

/**
 * Ships new keys of organizations, then changed accounts, whose secrets they wrap, then changes of
 * contact lists, whose keys are accounts, to their topics.
 * A name leaves the outbox only with the revision that was shipped, so it is shipped again after a
 * concurrent change or a crash.
 */
export async function shipAccounts (
  deps: ShippingDeps, signal: AbortSignal
): Promise<void> {
  const { redis, codec, accountsProducer } = deps
  // Mostly there is nothing to ship: then this is one command.
  const outboxes = [ACCOUNTS_OUTBOX_KEY, ORGANIZATION_KEYS_OUTBOX, LISTS_OUTBOX_KEY]
  if (await redis.exists(...outboxes) === 0) return
  const listChanges = await pendingListChanges(redis)
  const removeShipped = script(redis, {
    name: 'remove-shipped-account', source: REMOVE_SHIPPED, numberOfKeys: 2,
  })
  for (;;) {
    const names = await redis.srandmember(ACCOUNTS_OUTBOX_KEY, BATCH_RECORDS)
    const accounts = await Promise.all(names.map(async (name): Promise<Account> => {
      const stored = await redis.hgetall(accountKey(name))
      const fields = Object.entries(stored).filter(([field]) => !LOCAL_FIELDS.has(field))
        .map(([field, value]) => ({ name: field, value }))
      return { name, revision: Number(stored['revision'] ?? 0), fields }
    }))
    // After they were read: no account in the topic lacks a key there that it has in Redis.
    await shipOrganizationKeys(deps, signal)
    if (names.length === 0) break
    const existing = accounts.filter(({ revision }) => revision > 0)
    const messages = await Promise.all(existing.map(value => toMessage(codec, 'accounts', value)))
    if (messages.length > 0) await accountsProducer.send(messages, signal)
    for (const { name, revision } of accounts) {
      await removeShipped([accountKey(name), ACCOUNTS_OUTBOX_KEY], [name, revision])
    }
  }
  if (listChanges.length === 0) return
  const messages = await Promise.all(listChanges.map(({ change }) =>
    toMessage(codec, 'contact.lists', change)))
  await accountsProducer.send(messages, signal)
  failpoint('lists.shipped')
  await removeListChanges(redis, listChanges)
}

type LostKeysDeps = RestoreDeps & {
  readonly tenants: { readonly all: () => Promise<readonly string[]> }
}

const ORGANIZATIONS_PER_BATCH = 500

/**
 * Restores the keys of organizations that Redis has lost while it ran: no request of such an
 * organization can be served, and a stage stops at its messages. Returns how many still lack keys.
 * @throws InfrastructureError when Redis or the topic cannot be read.
 */
export async function restoreLostKeys (deps: LostKeysDeps, signal: AbortSignal): Promise<number> {
  const tenants = await deps.tenants.all()
  const organizations = new Set(tenants.map(tenant => parseTenant(tenant).orgId))
  const lost = await withoutKeys(deps, [...organizations])
  if (lost.length === 0) return 0
  const orgIds = new Set(lost)
  const ofLost = [...await readLastKeys(deps.reader, signal)]
    .filter(([key]) => orgIds.has(parseKeyName(key).orgId))
  // Other keys stay as they are, since a command may be replacing them.
  const store = new OrganizationKeyStore(deps.redis)
  await restoreKeys(deps, new Map(ofLost), (orgId, key) => store.restoreMissing(orgId, key))
  return (await withoutKeys(deps, lost)).length
}

/** The organizations that were not erased and have no key of some class. */
async function withoutKeys (
  { redis }: LostKeysDeps, orgIds: readonly string[]
): Promise<readonly string[]> {
  const store = new OrganizationKeyStore(redis)
  const lacking: string[] = []
  for (const batch of splitBatches(orgIds, ORGANIZATIONS_PER_BATCH)) {
    const missing = await Promise.all(batch.map(async orgId =>
      lacksKeys(await store.read(orgId)) && !await isMarkedErased(redis, orgId) ? [orgId] : []))
    lacking.push(...missing.flat())
  }
  return lacking
}

/**
 * Restores the keys of organizations in Redis from their topic, missing and damaged ones, and
 * deletes those with a tombstone there, which an older file of Redis may still have. Only the last
 * message of a key counts: what it replaced may need a root key that was removed. Idempotent.
 * Resolves with these last messages.
 * @throws InfrastructureError when Redis or the topic cannot be read.
 */
async function restoreOrganizationKeys (
  deps: RestoreDeps, signal: AbortSignal
): Promise<LastValues> {
  const store = new OrganizationKeyStore(deps.redis)
  const last = await readLastKeys(deps.reader, signal)
  for (const [key, value] of last) {
    if (value !== null) continue
    const { orgId, ...removed } = parseKeyName(key)
    await store.remove(orgId, removed)
  }
  await restoreKeys(deps, last, (orgId, key) => store.restore(orgId, key))
  return last
}

/**
 * Ships the keys that a topic has lost: without them, nothing of their organizations could be
 * opened once Redis is lost too. A version below one that the topic has was removed on purpose,
 * and an older file of Redis has brought it back. Accounts were restored before, so that an
 * organization that was erased is known as such.
 */
async function shipLostKeys (
  deps: AccountsDeps, last: LastValues, signal: AbortSignal
): Promise<void> {
  const newest = new Map<string, number>()
  for (const key of last.keys()) {
    const { orgId, class: keyClass, version } = parseKeyName(key)
    const name = `${orgId}:${keyClass}`
    newest.set(name, Math.max(version, newest.get(name) ?? 0))
  }
  const store = new OrganizationKeyStore(deps.redis)
  const orgIds = (await deps.redis.smembers(ACCOUNTS_KEY))
    .flatMap(name => name.startsWith('org:') ? [name.slice('org:'.length)] : [])
  let shipped = 0
  for (const batch of splitBatches(orgIds, ORGANIZATIONS_PER_BATCH)) {
    await Promise.all(batch.map(async orgId => {
      const keys = (await store.read(orgId)).filter(({ class: keyClass, version, shippedAtMs }) =>
        shippedAtMs !== 0 && version > (newest.get(`${orgId}:${keyClass}`) ?? 0))
      if (keys.length === 0 || await isMarkedErased(deps.redis, orgId)) return
      await sendOrganizationKeys(deps, { orgId, keys }, signal)
      shipped += keys.length
    }))
  }
  if (shipped > 0) deps.log.warn({ keys: shipped }, 'keys of organizations shipped again to topic')
}

/** The last value of each key of the topic; null after its deletion. */
type LastValues = ReadonlyMap<string, Buffer | null>

async function readLastKeys (reader: TopicReader, signal: AbortSignal): Promise<LastValues> {
  const last = new Map<string, Buffer | null>()
  await reader.read(KEYS, messages => {
    for (const { key, value } of messages) last.set(String(key), value)
  }, { signal })
  return last
}

async function restoreKeys (
  { codec, log, metrics }: RestoreDeps, last: LastValues, restore: OrganizationKeyStore['restore']
): Promise<void> {
  let restored = 0
  for (const value of last.values()) {
    if (value === null) continue
    const { organization, class: keyClass, createdAt: createdAtMs, ...key } = await codec.decode(
      'organization.keys', value) as OrganizationKeyValue
    const stored = { ...key, class: parseKeyClass(keyClass), createdAtMs }
    if (await restore(organization, stored)) restored += 1
  }
  metrics.count('recovery_actions_total', { kind: 'organization_key' }, restored)
  if (restored > 0) log.warn({ keys: restored }, 'keys of organizations restored from topic')
}

/** Ships new keys of organizations to their topic; from then on they wrap data keys. */
async function shipOrganizationKeys (
  deps: ShippingDeps, signal: AbortSignal
): Promise<void> {
  const store = new OrganizationKeyStore(deps.redis)
  for (;;) {
    const organizations = await store.unshipped(BATCH_ORGANIZATIONS)
    if (organizations.length === 0) return
    for (const orgId of organizations) {
      const keys = (await store.read(orgId)).filter(({ shippedAtMs }) => shippedAtMs === 0)
      await sendOrganizationKeys(deps, { orgId, keys }, signal)
      await store.markShipped(orgId, keys)
    }
  }
}

/** Writes versions of keys to their topic. */
export async function sendOrganizationKeys (
  { codec, accountsProducer }: Omit<ShippingDeps, 'redis'>,
  { orgId, keys }: { readonly orgId: string, readonly keys: readonly OrganizationKey[] },
  signal?: AbortSignal
): Promise<void> {
  const messages = await Promise.all(keys.map(async key => {
    const value: OrganizationKeyValue = {
      organization: orgId,
      class: key.class,
      version: key.version,
      wrapped: key.wrapped,
      public: key.public,
      createdAt: key.createdAtMs,
    }
    return await toMessage(codec, 'organization.keys', value)
  }))
  if (messages.length > 0) await accountsProducer.send(messages, signal)
}

async function toMessage (
  codec: ShippingDeps['codec'], topic: 'accounts' | 'contact.lists' | 'organization.keys',
  value: Account | ContactListChange | OrganizationKeyValue
): Promise<OutgoingMessage> {
  return {
    topic: topicName(topic),
    key: messageKey(topic, value),
    value: await codec.encode(`${topic}-value`, value),
    headers: {},
  }
}

/** The tombstone that deletes a version from its topic. */
export function organizationKeyTombstone (
  orgId: string, { class: keyClass, version }: KeyVersion
): OutgoingMessage {
  const key = messageKey('organization.keys', { organization: orgId, class: keyClass, version })
  return { topic: KEYS, key, value: null, headers: {} }
}

/** The versions of an organization whose messages the brokers have not deleted yet. */
export async function copiesInTopic (
  { read }: {
    readonly read: (
      topic: string, onMessages: (messages: readonly RawMessage[]) => void,
    ) => Promise<unknown>,
  },
  orgId: string
): Promise<readonly KeyVersion[]> {
  const keys = new Map<string, KeyVersion>()
  await read(KEYS, messages => {
    for (const { key, value } of messages) {
      const { orgId: owner, ...named } = parseKeyName(String(key))
      if (owner === orgId && value !== null) keys.set(String(key), named)
    }
  })
  return [...keys.values()]
}

function parseKeyName (messageKeyText: string) {
  const [orgId = '', keyClass = '', version = ''] = messageKeyText.split(':')
  return { orgId, class: parseKeyClass(keyClass), version: Number(version) }
}

function parseKeyClass (text: string): KeyClass {
  const keyClass = KEY_CLASSES.find(name => name === text)
  if (keyClass === undefined) throw new Error(`topic ${KEYS} has a key of unknown class "${text}"`)
  return keyClass
}
