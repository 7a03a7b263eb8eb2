import { randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import {
  createKeyRing, MissingKeyError, MissingOrganizationKeyError, splitKeyId, withKeyId, type KeyRing,
} from '../runtime/crypto/key-ring.ts'
import type { RootKeys } from '../runtime/crypto/root-keys.ts'
import { type Binding, boxPublicKey, openBox, sealBox } from '../runtime/crypto/seal.ts'
import { InfrastructureError } from '../runtime/platform/errors.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import { globalKey, type RedisClient, RUN_ID_LUA, script } from '../runtime/platform/redis.ts'
import { sleep } from '../runtime/platform/retry.ts'
import { KEY_CLASSES, type KeyClass } from '../topology.ts'
import {
  accountKey, ACCOUNTS_RUN_KEY, AccountsRecoveringError, createAccountRecords, organizationRecord,
} from './records.ts'

/** Names one version of the key of an organization. */
export type KeyVersion = {
  readonly class: KeyClass
  /** From 1; the highest one wraps. */
  readonly version: number
}

/** One version of the key of an organization and class. */
export type OrganizationKey = KeyVersion & {
  /** Wrapped by a root key of its class. */
  readonly wrapped: Buffer
  /** The public key, with which `feed` wraps what it cannot unwrap. */
  readonly public: Buffer
  readonly createdAtMs: number
}

/** A key, and whether the topic `organization.keys` has it: only then does it wrap data keys. */
export type StoredKey = OrganizationKey & {
  /** When the topic had it, in Unix ms; 0 before. */
  readonly shippedAtMs: number
}

/** The organization was erased, so nothing of it can be opened any more. */
export class OrganizationErasedError extends Error {
  override readonly name = 'OrganizationErasedError'

  constructor (orgId: string) {
    super(`organization ${orgId} was erased: its keys no longer exist`)
  }
}

/** Set of the organizations with a key that the topic `organization.keys` lacks. */
export const ORGANIZATION_KEYS_OUTBOX = globalKey('organization-keys:outbox')

/** Hash: `<class>/<version>` to the key as JSON, `<class>/<version>/shipped` to when it was. */
const organizationKeysKey = (orgId: string): string =>
  globalKey(`organization-keys:${orgId}`)

/** Field of `org:<id>`: when the organization was erased, in Unix ms. */
export const ERASED_FIELD = 'erasedAt'

/**
 * Whether Redis has an organization as erased, also before the accounts are valid for its run: a
 * mark may be missing then.
 */
export async function isMarkedErased (redis: RedisClient, orgId: string): Promise<boolean> {
  return await redis.hexists(accountKey(organizationRecord(orgId)), ERASED_FIELD) === 1
}

/**
 * Redis must have the newest version before it gets the next one. Version 1 is added before the
 * organization, whose random id has nothing that could be missing.
 */
const ADD = `
local run = ${RUN_ID_LUA}
local org = redis.call('HMGET', KEYS[2], 'madeIn', '${ERASED_FIELD}')
if org[2] then
  return 'erased'
end
if ARGV[4] == '1' and redis.call('EXISTS', KEYS[2]) == 1 then
  return 'exists'
end
if ARGV[4] ~= '1' and org[1] ~= run and redis.call('GET', KEYS[3]) ~= run then
  return 'recovering'
end
if redis.call('HSETNX', KEYS[1], ARGV[2], ARGV[3]) == 1 then
  redis.call('SADD', KEYS[4], ARGV[1])
end
return 'ok'`

const REPLACE = `
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1`

/** ARGV: organization, time, then the shipped fields. It leaves the outbox once all are shipped. */
const MARK_SHIPPED = `
for index = 3, #ARGV do
  redis.call('HSET', KEYS[1], ARGV[index] .. '/shipped', ARGV[2])
end
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  local isKey = not string.find(field, '/shipped$')
  if isKey and redis.call('HEXISTS', KEYS[1], field .. '/shipped') == 0 then
    return
  end
end
redis.call('SREM', KEYS[2], ARGV[1])`

/** Whether a class has no key at all; every organization is created with keys of each. */
export const lacksKeys = (keys: readonly Pick<StoredKey, 'class'>[]): boolean =>
  KEY_CLASSES.some(name => keys.every(key => key.class !== name))

/**
 * The wrapped keys of organizations in Redis. `ledger` ships new ones to the compacted topic
 * `organization.keys`, from which it restores them after a loss of Redis.
 */
export class OrganizationKeyStore {
  readonly #redis: RedisClient
  readonly #add: ReturnType<typeof script>
  readonly #replace: ReturnType<typeof script>
  readonly #markShipped: ReturnType<typeof script>

  constructor (redis: RedisClient) {
    this.#redis = redis
    this.#add = script(redis, { name: 'add-organization-key', source: ADD, numberOfKeys: 4 })
    this.#replace = script(redis, {
      name: 'replace-organization-key', source: REPLACE, numberOfKeys: 1,
    })
    this.#markShipped = script(redis, {
      name: 'ship-organization-keys', source: MARK_SHIPPED, numberOfKeys: 2,
    })
  }

  /** All versions, by class and oldest first; none for an erased organization. */
  async read (orgId: string): Promise<readonly StoredKey[]> {
    return keysIn(await this.#redis.hgetall(organizationKeysKey(orgId)))
  }

  /**
   * Resolves if Redis has all keys of an organization: those that it lacks are missing.
   * @throws OrganizationErasedError for an erased organization.
   * @throws AccountsRecoveringError while `ledger` may still restore some.
   */
  async checkComplete (orgId: string): Promise<void> {
    const record = await createAccountRecords(this.#redis).readCurrent(organizationRecord(orgId))
    if (record?.fields[ERASED_FIELD] !== undefined) throw new OrganizationErasedError(orgId)
  }

  /**
   * Adds a key unless the organization has one of that class and version.
   * @throws OrganizationErasedError for an erased organization.
   * @throws AccountsRecoveringError while Redis may lack the keys of the organization.
   */
  async add (orgId: string, key: OrganizationKey): Promise<void> {
    const name = organizationRecord(orgId)
    const keys = [
      organizationKeysKey(orgId), accountKey(name), ACCOUNTS_RUN_KEY, ORGANIZATION_KEYS_OUTBOX,
    ]
    const outcome = await this.#add(
      keys, [orgId, toField(key), serialize(key), String(key.version)])
    if (outcome === 'erased') throw new OrganizationErasedError(orgId)
    if (outcome === 'recovering') throw new AccountsRecoveringError(name)
    if (outcome === 'exists') throw new Error(`organization ${orgId} exists: it had a first key`)
  }

  /** Replaces the wrapped bytes of a version; false if they are no longer those of `before`. */
  async replace (orgId: string, before: OrganizationKey, wrapped: Buffer): Promise<boolean> {
    const args = [toField(before), serialize(before), serialize({ ...before, wrapped })]
    return await this.#replace([organizationKeysKey(orgId)], args) === 1
  }

  /** Deletes one version. */
  async remove (orgId: string, key: KeyVersion): Promise<void> {
    await this.#redis.hdel(organizationKeysKey(orgId), toField(key), `${toField(key)}/shipped`)
  }

  /** Organizations with unshipped keys, at most `limit`. */
  async unshipped (limit: number): Promise<readonly string[]> {
    return await this.#redis.srandmember(ORGANIZATION_KEYS_OUTBOX, limit)
  }

  /** Records that the topic has these keys of an organization. */
  async markShipped (orgId: string, keys: readonly OrganizationKey[]): Promise<void> {
    const names = [organizationKeysKey(orgId), ORGANIZATION_KEYS_OUTBOX]
    await this.#markShipped(names, [orgId, String(Date.now()), ...keys.map(toField)])
  }

  /**
   * Restores a key from the last message of the topic, which is never older than what Redis has;
   * false if Redis has the same.
   */
  async restore (orgId: string, key: OrganizationKey): Promise<boolean> {
    const name = organizationKeysKey(orgId)
    const differs = await this.#redis.hget(name, toField(key)) !== serialize(key)
    if (differs) await this.#redis.hset(name, toField(key), serialize(key))
    await this.#redis.hsetnx(name, `${toField(key)}/shipped`, String(Date.now()))
    return differs
  }

  /** Restores a key unless Redis has one of that class and version; true if it had none. */
  async restoreMissing (orgId: string, key: OrganizationKey): Promise<boolean> {
    const name = organizationKeysKey(orgId)
    if (await this.#redis.hexists(name, toField(key)) === 1) return false
    await this.#redis.hsetnx(name, `${toField(key)}/shipped`, String(Date.now()))
    await this.#redis.hsetnx(name, toField(key), serialize(key))
    // An erasure during the read marks the organization before it deletes the keys.
    if (!await isMarkedErased(this.#redis, orgId)) return true
    await this.#redis.del(name)
    return false
  }

  /** Deletes all keys of an organization, with their versions in the outbox. */
  async erase (orgId: string): Promise<void> {
    await this.#redis.del(organizationKeysKey(orgId))
    await this.#redis.srem(ORGANIZATION_KEYS_OUTBOX, orgId)
  }
}

const toField = ({ class: keyClass, version }: KeyVersion) => `${keyClass}/${version}`

function serialize ({ wrapped, public: publicKey, createdAtMs }: OrganizationKey): string {
  return JSON.stringify([wrapped.toString('base64'), publicKey.toString('base64'), createdAtMs])
}

function keysIn (fields: Readonly<Record<string, string>>): readonly StoredKey[] {
  return Object.entries(fields).flatMap(([field, text]) => {
    const [keyClass = '', version = '', kind] = field.split('/')
    if (kind !== undefined) return []
    const [wrapped, publicKey, createdAtMs] = JSON.parse(text) as [string, string, number]
    return [{
      class: keyClass as KeyClass,
      version: Number(version),
      wrapped: Buffer.from(wrapped, 'base64'),
      public: Buffer.from(publicKey, 'base64'),
      createdAtMs,
      shippedAtMs: Number(fields[`${field}/shipped`] ?? 0),
    }]
  }).toSorted((a, b) => KEY_CLASSES.indexOf(a.class) - KEY_CLASSES.indexOf(b.class) ||
    a.version - b.version)
}

/** Wraps keys and secrets with the key that an organization has for one class. */
export type OrganizationKeys = {
  /**
   * @throws OrganizationErasedError for an erased organization.
   * @throws FatalError when a root key is missing.
   * @throws MissingOrganizationKeyError when every key of the organization is missing.
   */
  readonly wrap: (orgId: string, plain: Buffer, binding: Binding) => Promise<Buffer>
  /**
   * @throws OrganizationErasedError for an erased organization.
   * @throws FatalError when a root key is missing.
   * @throws MissingOrganizationKeyError when the version that wraps is missing.
   * @throws SealError when the binding differs or the bytes were changed.
   */
  readonly unwrap: (orgId: string, wrapped: Buffer, binding: Binding) => Promise<Buffer>
  /**
   * Resolves once the topic `organization.keys` has the key that wraps, so that what is sealed
   * under it stays readable after a loss of Redis.
   * @throws InfrastructureError when `ledger` does not ship it in time.
   */
  readonly whenShipped: (orgId: string) => Promise<void>
}

export type OrganizationKeysDeps = {
  readonly store: Pick<OrganizationKeyStore, 'read' | 'checkComplete'>
  readonly roots: RootKeys
  readonly class: KeyClass
  readonly metrics?: Pick<Metrics, 'count'>
}

/** Organizations whose keys a process keeps, and for how long without use. */
const CACHED_ORGANIZATIONS = 10_000
const IDLE_MS = 3_600_000
/** How long a process may use the keys of an erased organization, or not see a new version. */
export const ORGANIZATION_KEYS_CACHE_MS = 5_000
const SHIPPED_WITHIN_MS = 10_000
const POLL_MS = 20
const BOX = '.box'

/** The id of a version in what it wraps. */
export const organizationKeyId = ({ class: keyClass, version }: KeyVersion): string =>
  `${keyClass}.${version}`

/**
 * The id of the version that wrapped these bytes, by itself or by its public key.
 * @throws SealError for bytes that are not wrapped.
 */
export function wrappingKeyId (wrapped: Buffer): string {
  const { id } = splitKeyId(wrapped)
  return id.endsWith(BOX) ? id.slice(0, -BOX.length) : id
}

/** The context that the root key of a class authenticates. */
export const toRootContext = (orgId: string, keyClass: KeyClass) =>
  ({ purpose: keyClass, organization: orgId })

type Opened = {
  readonly ring: KeyRing
  readonly secrets: ReadonlyMap<string, Buffer>
  /** Whether the topic `organization.keys` has the active version. */
  readonly shipped: boolean
}
type Cached = {
  readonly readAtMs: number
  /** The secret keys by their wrapped bytes: only changed ones are unwrapped again. */
  readonly unwrapped: ReadonlyMap<string, Buffer>
  readonly opened: Opened
}

/**
 * The keys of organizations for one class. It creates none: a new key in place of one that Redis
 * lost would replace that in the topic as well. The root key unwraps one once per process; after
 * that an outage of its provider delays nothing.
 */
export function createOrganizationKeys (deps: OrganizationKeysDeps): OrganizationKeys {
  const open = createOpen(deps)
  return {
    wrap: async (orgId, plain, binding) => (await open(orgId)).ring.wrap(plain, binding),
    unwrap: async (orgId, wrapped, binding) => {
      const { id, content } = splitKeyId(wrapped)
      const version = wrappingKeyId(wrapped)
      // Another process may have wrapped it with a version of the last seconds.
      const { ring, secrets } = await open(orgId, opened => !opened.secrets.has(version))
      deps.metrics?.count('key_unwraps_total', { class: deps.class, by: 'organization' })
      const secret = secrets.get(version)
      if (secret === undefined) {
        await deps.store.checkComplete(orgId)
        throw missingOrganizationKey(`organization ${orgId} lacks key "${version}"`, binding)
      }
      return id !== version
        ? await openBox(secret, ['wrap', id, ...binding], content)
        : ring.unwrap(wrapped, binding)
    },
    whenShipped: async orgId => {
      const deadlineMs = Date.now() + SHIPPED_WITHIN_MS
      while (!(await open(orgId, ({ shipped }) => !shipped)).shipped) {
        if (Date.now() >= deadlineMs) throw unshippedError(orgId, deps.class)
        await sleep(POLL_MS)
      }
    },
  }
}

/** `lack` says which key is missing, and of which organization. */
function missingOrganizationKey (
  lack: string, binding: Binding
): MissingOrganizationKeyError {
  return new MissingOrganizationKeyError(lack, {
    wraps: binding.map(String).join(' '),
    advice: 'ledger restores it from topic organization.keys within a minute; if not, restart ' +
      'every ledger; what it wraps is lost if the topic lacks it too',
  })
}

/** Reads the keys of an organization again when they are old or stale, once for all callers. */
function createOpen (deps: OrganizationKeysDeps) {
  const cache = new LRUCache<string, Cached>({
    max: CACHED_ORGANIZATIONS, ttl: IDLE_MS, updateAgeOnGet: true,
  })
  const loading = new Map<string, Promise<Opened>>()
  const load = async (orgId: string): Promise<Opened> => {
    const keys = await readKeys(deps, orgId)
    const before = cache.get(orgId)?.unwrapped
    const unwrapped = new Map<string, Buffer>()
    const secrets = new Map<string, Buffer>()
    for (const key of keys) {
      const name = key.wrapped.toString('base64')
      let secret = before?.get(name)
      if (secret === undefined) {
        deps.metrics?.count('key_unwraps_total', { class: deps.class, by: 'root' })
        secret = await deps.roots.unwrap(key.wrapped, toRootContext(orgId, deps.class))
      }
      unwrapped.set(name, secret)
      secrets.set(organizationKeyId(key), secret)
    }
    const newest = keys.findLast(({ shippedAtMs }) => shippedAtMs > 0) ??
      keys.at(-1) as StoredKey
    const active = organizationKeyId(newest)
    const ring = createKeyRing({ name: `organization ${orgId}`, keys: secrets, active })
    const opened = { ring, secrets, shipped: newest.shippedAtMs > 0 }
    cache.set(orgId, { readAtMs: Date.now(), unwrapped, opened })
    return opened
  }
  return async (
    orgId: string, isStale: (opened: Opened) => boolean = () => false
  ): Promise<Opened> => {
    const { readAtMs = 0, opened } = cache.get(orgId) ?? {}
    const isFresh = Date.now() - readAtMs < ORGANIZATION_KEYS_CACHE_MS
    if (opened !== undefined && isFresh && !isStale(opened)) return opened
    const pending = loading.get(orgId) ?? load(orgId).catch(async (error: unknown) => {
      // Of an erased organization nothing has to open, so no stage may stop because of it.
      if (error instanceof MissingKeyError) await deps.store.checkComplete(orgId)
      throw error
    }).finally(() => loading.delete(orgId))
    loading.set(orgId, pending)
    return await pending
  }
}

/** The versions of the class: at least one, as every organization is created with its keys. */
async function readKeys (
  { store, class: keyClass }: OrganizationKeysDeps, orgId: string
): Promise<readonly StoredKey[]> {
  const read = async () => (await store.read(orgId)).filter(key => key.class === keyClass)
  const keys = await read()
  if (keys.length > 0) return keys
  await store.checkComplete(orgId)
  // They may have been restored since the first read.
  const restored = await read()
  if (restored.length > 0) return restored
  throw missingOrganizationKey(`organization ${orgId} has no key "${keyClass}"`, [keyClass])
}

/** Adds a version, unless it exists; it wraps once `ledger` has shipped it. */
export async function addOrganizationKey (
  { store, roots, class: keyClass }: {
    readonly store: OrganizationKeyStore,
    readonly roots: RootKeys,
    readonly class: KeyClass,
  },
  orgId: string, version: number
): Promise<void> {
  const secret = randomBytes(32)
  await store.add(orgId, {
    class: keyClass,
    version,
    wrapped: await roots.wrap(secret, toRootContext(orgId, keyClass)),
    public: await boxPublicKey(secret),
    createdAtMs: Date.now(),
  })
}

const unshippedError = (orgId: string, keyClass: KeyClass) => new InfrastructureError(
  `the key "${keyClass}" of organization ${orgId} is not in topic organization.keys yet; if this ` +
  'lasts, check that a ledger is running')

/**
 * Wraps with the public keys of organizations, for a process that must not unwrap: it has no root
 * key of the class.
 */
export function createPublicOrganizationKeys (
  { store, class: keyClass }: Pick<OrganizationKeysDeps, 'class'> & {
    readonly store: Pick<OrganizationKeyStore, 'read'>
  }
): Pick<OrganizationKeys, 'wrap' | 'whenShipped'> {
  const cache = new LRUCache<string, StoredKey>({
    max: CACHED_ORGANIZATIONS, ttl: ORGANIZATION_KEYS_CACHE_MS,
  })
  return {
    // It uses no other keys.
    whenShipped: async () => {},
    wrap: async (orgId, plain, binding) => {
      const key = cache.get(orgId) ?? (await store.read(orgId))
        .findLast(stored => stored.class === keyClass && stored.shippedAtMs > 0)
      if (key === undefined) throw unshippedError(orgId, keyClass)
      cache.set(orgId, key)
      const id = organizationKeyId(key) + BOX
      return withKeyId(id, await sealBox(key.public, ['wrap', id, ...binding], plain))
    },
  }
}
