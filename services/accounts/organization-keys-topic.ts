import type { OrganizationKeyValue } from '../../schemas/types.ts'
import type { OutgoingMessage, Producer, RawMessage } from '../runtime/kafka/bus.ts'
import type { Codec } from '../runtime/kafka/registry.ts'
import type { TopicReader } from '../runtime/kafka/topic-reader.ts'
import type { Log } from '../runtime/platform/log.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import type { RedisClient } from '../runtime/platform/redis.ts'
import { messageKey, topicName } from '../runtime/platform/topics.ts'
import { KEY_CLASSES, type KeyClass } from '../topology.ts'
import {
  createOrganizationKeyStore, type OrganizationKey, type OrganizationKeyStore, type StoredKey,
} from './organization-key-store.ts'

const TOPIC = topicName('organization.keys')
const BATCH_ORGANIZATIONS = 200

type RestoreDeps = {
  readonly redis: RedisClient
  readonly reader: TopicReader
  readonly codec: Pick<Codec, 'decode'>
  readonly log: Pick<Log, 'warn'>
  readonly metrics: Pick<Metrics, 'count'>
}

type SendDeps = {
  readonly codec: Pick<Codec, 'encode'>
  readonly accountsProducer: Pick<Producer, 'send'>
}

/**
 * Restores the keys of organizations in Redis from their topic, missing and damaged ones, and
 * deletes those with a tombstone there, which an older file of Redis may still have. Only the last
 * message of a key counts: what it replaced may need a root key that was removed. Idempotent.
 * @throws InfrastructureError when Redis or the topic cannot be read.
 */
export async function restoreOrganizationKeys (
  deps: RestoreDeps, signal: AbortSignal
): Promise<void> {
  const store = createOrganizationKeyStore(deps.redis)
  const last = await readLast(deps.reader, signal)
  for (const [key, value] of last) {
    if (value !== null) continue
    const { orgId, ...removed } = nameOf(key)
    await store.remove(orgId, removed)
  }
  await restoreAll(deps, last, store.restore)
}

/**
 * Restores what Redis lacks of the keys of some organizations from their topic. It leaves other
 * keys as they are, since a command may be replacing them.
 * @throws InfrastructureError when Redis or the topic cannot be read.
 */
export async function restoreMissingKeys (
  deps: RestoreDeps, orgIds: ReadonlySet<string>, signal: AbortSignal
): Promise<void> {
  const store = createOrganizationKeyStore(deps.redis)
  const last = await readLast(deps.reader, signal)
  const chosen = [...last].filter(([key]) => orgIds.has(nameOf(key).orgId))
  await restoreAll(deps, new Map(chosen), store.restoreMissing)
}

/** The last value of each key of the topic; null after its deletion. */
type LastValues = ReadonlyMap<string, Buffer | null>

async function readLast (reader: TopicReader, signal: AbortSignal): Promise<LastValues> {
  const last = new Map<string, Buffer | null>()
  await reader.read(TOPIC, messages => {
    for (const { key, value } of messages) last.set(String(key), value)
  }, { signal })
  return last
}

async function restoreAll (
  { codec, log, metrics }: RestoreDeps, last: LastValues, restore: OrganizationKeyStore['restore']
): Promise<void> {
  let restored = 0
  for (const value of last.values()) {
    if (value === null) continue
    const { organization, ...found } = await codec.decode(
      'organization.keys', value) as OrganizationKeyValue
    if (await restore(organization, organizationKeyOf(found))) restored += 1
  }
  metrics.count('recovery_actions_total', { kind: 'organization_key' }, restored)
  if (restored > 0) log.warn({ keys: restored }, 'keys of organizations restored from topic')
}

/** Ships new keys of organizations to their topic; from then on they wrap data keys. */
export async function shipOrganizationKeys (
  { redis, ...sending }: SendDeps & { readonly redis: RedisClient }, signal: AbortSignal
): Promise<void> {
  const store = createOrganizationKeyStore(redis)
  for (;;) {
    const organizations = await store.unshipped(BATCH_ORGANIZATIONS)
    if (organizations.length === 0) return
    for (const orgId of organizations) {
      const keys = (await store.read(orgId)).filter(({ shippedAtMs }) => shippedAtMs === 0)
      await sendOrganizationKeys(sending, { orgId, keys }, signal)
      await store.markShipped(orgId, keys)
    }
  }
}

/** Writes versions of keys to their topic. */
export async function sendOrganizationKeys (
  { codec, accountsProducer }: SendDeps,
  { orgId, keys }: { readonly orgId: string, readonly keys: readonly OrganizationKey[] },
  signal?: AbortSignal
): Promise<void> {
  const messages = await Promise.all(keys.map(async (key): Promise<OutgoingMessage> => {
    const value: OrganizationKeyValue = {
      organization: orgId,
      class: key.class,
      version: key.version,
      wrapped: key.wrapped,
      public: key.public,
      createdAt: key.createdAtMs,
    }
    return {
      topic: TOPIC,
      key: messageKey('organization.keys', value),
      value: await codec.encode('organization.keys-value', value),
      headers: {},
    }
  }))
  if (messages.length > 0) await accountsProducer.send(messages, signal)
}

/** The tombstone that deletes a version from its topic. */
export function organizationKeyTombstone (
  orgId: string, { class: keyClass, version }: Pick<OrganizationKey, 'class' | 'version'>
): OutgoingMessage {
  const key = messageKey('organization.keys', { organization: orgId, class: keyClass, version })
  return { topic: TOPIC, key, value: null, headers: {} }
}

/** The versions of an organization whose messages the brokers have not deleted yet. */
export async function copiesInTopic (
  { read }: {
    readonly read: (
      topic: string, onMessages: (messages: readonly RawMessage[]) => void,
    ) => Promise<unknown>,
  },
  orgId: string
): Promise<readonly Pick<StoredKey, 'class' | 'version'>[]> {
  const found = new Map<string, Pick<StoredKey, 'class' | 'version'>>()
  await read(TOPIC, messages => {
    for (const { key, value } of messages) {
      const { orgId: owner, ...named } = nameOf(String(key))
      if (owner === orgId && value !== null) found.set(String(key), named)
    }
  })
  return [...found.values()]
}

function organizationKeyOf (
  { class: keyClass, version, wrapped, public: publicKey, createdAt }:
  Omit<OrganizationKeyValue, 'organization'>
): OrganizationKey {
  return {
    class: classOf(keyClass), version, wrapped, public: publicKey, createdAtMs: createdAt,
  }
}

function nameOf (messageKeyText: string) {
  const [orgId = '', keyClass = '', version = ''] = messageKeyText.split(':')
  return { orgId, class: classOf(keyClass), version: Number(version) }
}

function classOf (text: string): KeyClass {
  const found = KEY_CLASSES.find(name => name === text)
  if (found === undefined) throw new Error(`topic ${TOPIC} has a key of unknown class "${text}"`)
  return found
}
