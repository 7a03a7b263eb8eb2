import { createHash, randomUUID } from 'node:crypto'
import { checkKeyId, MissingKeyError, splitKeyId, unpooled, withKeyId } from '../key-ring.ts'
import { awsKmsRootKey } from './aws-kms.ts'
import {
  type KeyContext, measureCalls, type RootKey, type RootKeyEntry, type RootKeyMetrics,
  type RootKeyProvider,
} from './root-key.ts'
import { vaultRootKey } from './vault.ts'
import { type Binding, openSealed, SealError, sealPlain } from '../seal.ts'
import type { Environment } from '../../platform/command-environment.ts'
import { ConfigError, nameKey, rootKeys } from '../../platform/config.ts'
import type { FatalError } from '../../platform/errors.ts'
import { type RedisClient, script } from '../../platform/redis.ts'
import { UsageError } from '../../platform/run-command.ts'
import { KEY_CLASSES, type KeyClass } from '../../../topology.ts'

/** The root keys of a class of organization keys. They encrypt nothing else. */
export type RootKeys = {
  readonly activeId: string
  /** What `rootKeyDigest` returns for the active one. */
  readonly activeDigest?: string | undefined
  readonly ids: readonly string[]
  /** Wraps 32 bytes with the active root key: length of its id, id, ciphertext of its provider. */
  readonly wrap: (key: Buffer, context: KeyContext) => Promise<Buffer>
  /**
   * Unwraps with the root key of that id, active or not.
   * @throws FatalError when it is not configured, or does not unwrap these bytes in this context,
   * most probably because its value was changed: a stop loses nothing, treating the organization
   * key as erased would.
   * @throws SealError for bytes that no root key can have wrapped.
   * @throws InfrastructureError while the provider is unavailable or denies access.
   */
  readonly unwrap: (wrapped: Buffer, context: KeyContext) => Promise<Buffer>
}

export type RootKeyConfig = {
  /** Where each root key is, by id. */
  readonly keys: Readonly<Record<string, string>>
  readonly active: string
  /** The name of the setting that `keys` is from, for errors. */
  readonly setting: string
}

export type RootKeyOptions = {
  /** Where Vault is, and its token. The AWS SDK reads `process.env`. */
  readonly env?: Environment
  /** How long a call of a provider may take. */
  readonly timeoutMs?: number
  /** Counts calls of providers; commands have none. */
  readonly metrics?: RootKeyMetrics | undefined
}

/** Bytes of an organization key, and of a local root key. */
const KEY_BYTES = 32

/** The most that AWS KMS accepts; the ciphertext of 32 bytes is far shorter everywhere. */
const MAX_CIPHERTEXT_BYTES = 6_144

/**
 * Creates root keys. Each is the base64 of 32 bytes, which is the key itself,
 * `aws-kms:<key id, alias or ARN>`, or `vault:<mount>/<key name>`. Nothing is called before the
 * first key is wrapped or unwrapped.
 * @throws ConfigError for an invalid configuration.
 */
export function createRootKeys (
  { keys, active, setting }: RootKeyConfig, options: RootKeyOptions = {}
): RootKeys {
  const roots = new Map(Object.entries(keys).map(([id, where]) =>
    [id, rootKeyOf({ id, where, setting }, options)]))
  const activeRoot = roots.get(active)
  if (activeRoot === undefined) {
    throw new ConfigError([`${setting} has no ${nameKey(active)}, which is the active one: add it`])
  }
  const wrap = async (key: Buffer, context: KeyContext) => {
    if (key.length !== KEY_BYTES) throw new TypeError(`a key must have ${KEY_BYTES} bytes`)
    return withKeyId(active, await activeRoot.encrypt(key, context))
  }
  const unwrap = async (wrapped: Buffer, context: KeyContext) => {
    const { id, content: ciphertext } = splitKeyId(wrapped)
    const root = roots.get(id)
    if (root === undefined) {
      throw new MissingKeyError(`${setting} lacks key "${id}"`, {
        wraps: wrapsOf(context), advice: 'add it again until nothing is wrapped by it',
      })
    }
    if (ciphertext.length === 0 || ciphertext.length > MAX_CIPHERTEXT_BYTES) {
      throw new SealError(`wrapped key is invalid: its ciphertext has ${ciphertext.length} bytes`)
    }
    const key = await root.decrypt(ciphertext, context).catch((error: unknown) => {
      throw error instanceof SealError ? wrongRootError(id, setting, context) : error
    })
    if (key.length !== KEY_BYTES) {
      throw new SealError(`unwrapped key has ${key.length} bytes: expected ${KEY_BYTES}`)
    }
    return unpooled(key)
  }
  const activeDigest = rootKeyDigest(keys[active] ?? '')
  return { wrap, unwrap, activeId: active, activeDigest, ids: [...roots.keys()] }
}

/**
 * The id of the root key that wraps an organization key.
 * @throws SealError for bytes that are not wrapped.
 */
export const rootIdOf = (wrapped: Buffer): string => splitKeyId(wrapped).id

const wrapsOf = ({ purpose, organization }: KeyContext) => `${purpose} of ${organization}`

/** A local key and Vault cannot distinguish a wrong key from damaged bytes. */
function wrongRootError (id: string, setting: string, context: KeyContext): FatalError {
  return new MissingKeyError(`${setting} has another value for key "${id}"`, {
    wraps: wrapsOf(context),
    advice: 'set it back to the value that wrapped the key, and give another value another id; ' +
      'if it was never changed, the wrapped key is damaged: restart every ledger, which ' +
      'restores it from topic organization.keys',
  })
}

/** The value of an entry may be a key, or contain one by mistake, so no error shows it. */
function rootKeyOf (
  entry: RootKeyEntry, { env = process.env, timeoutMs = 5_000, metrics }: RootKeyOptions
): RootKey {
  const { id, where, setting } = entry
  checkKeyId(id, setting)
  const provider = /^([\w-]+):/.exec(where)?.[1]
  if (provider === undefined) return localRootKey(entry)
  const measured = (root: RootKey, name: RootKeyProvider) =>
    metrics === undefined ? root : measureCalls(root, name, metrics)
  if (provider === 'aws-kms') return measured(awsKmsRootKey(entry, timeoutMs), provider)
  if (provider === 'vault') return measured(vaultRootKey(entry, env, timeoutMs), provider)
  throw new ConfigError([`${setting}: ${nameKey(id)} has an unknown provider: use ` +
    'aws-kms:<key id, alias or ARN>, vault:<mount>/<key name>, or the base64 of 32 bytes'])
}

/** A key in the memory of this process: AES-256-GCM. */
function localRootKey ({ id, where, setting }: RootKeyEntry): RootKey {
  const key = Buffer.from(where, 'base64')
  if (key.length !== KEY_BYTES || key.toString('base64') !== where) {
    throw new ConfigError([`${setting}: ${nameKey(id)} must be ${KEY_BYTES} bytes of base64: ` +
      `create one with "openssl rand -base64 ${KEY_BYTES}"`])
  }
  const bindingOf = ({ purpose, organization }: KeyContext): Binding =>
    ['root-key', id, purpose, organization]
  return {
    encrypt: async (plain, context) => sealPlain(key, bindingOf(context), plain),
    decrypt: async (ciphertext, context) => openSealed(key, bindingOf(context), ciphertext),
  }
}

/** The ids of the root keys of a class that a process knows, and which one wraps. */
type KnownIds = {
  readonly ids: readonly string[]
  readonly active: string
  /** What `rootKeyDigest` returns for each value, by id; processes of older releases have none. */
  readonly digests?: Readonly<Record<string, string>>
}

/** A running process, and the ids of the root keys in its settings. Never the keys. */
export type RootKeyHolder = {
  readonly process: string
  readonly keys: Readonly<Partial<Record<KeyClass, KnownIds>>>
}

/**
 * Distinguishes the value of a root key from another one under the same id. It reveals nothing of
 * 32 random bytes. Undefined for a key of a provider, which may have several names.
 */
const rootKeyDigest = (value: string): string | undefined => value.includes(':')
  ? undefined
  : createHash('sha256').update(`root key ${value}`).digest('hex').slice(0, 16)

const KEY = 'processes:root-keys'
const EXPIRES_AFTER_SECONDS = 30
const PUBLISH_EVERY_MS = 5_000

/** Adds a record if there is one, and returns those that are not older than ARGV[1] seconds. */
const SOURCE = `
local now = redis.call('TIME')[1]
if ARGV[2] then redis.call('ZADD', KEYS[1], now, ARGV[2]) end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[1])
return redis.call('ZRANGE', KEYS[1], 0, -1)`

const call = async (redis: RedisClient, ...record: readonly string[]) => {
  const run = script(redis, { name: 'root-key-holders', source: SOURCE, numberOfKeys: 1 })
  return await run([KEY], [EXPIRES_AFTER_SECONDS, ...record]) as readonly string[]
}

/**
 * Publishes the ids of the root keys of a process until it stops, so that an operator's command
 * wraps nothing by a key that some process lacks. A process without root keys publishes nothing.
 * While Redis is unavailable it is not published; no start and no stop waits for it.
 */
export function publishRootKeyIds (
  redis: RedisClient,
  { process, settings, onStop }: {
    readonly process: string,
    /** Of the process, with the names of `rootKeys`. */
    readonly settings: object,
    readonly onStop: (close: () => unknown) => void,
  }
): void {
  const keys = knownIdsIn(settings as Readonly<Record<string, unknown>>)
  if (Object.keys(keys).length === 0) return
  const record = JSON.stringify({ process, id: randomUUID(), keys })
  const publish = () => { call(redis, record).catch(() => {}) }
  publish()
  const timer = setInterval(publish, PUBLISH_EVERY_MS).unref()
  onStop(async () => {
    clearInterval(timer)
    if (redis.status === 'ready') await redis.zrem(KEY, record).catch(() => {})
  })
}

function knownIdsIn (settings: Readonly<Record<string, unknown>>): RootKeyHolder['keys'] {
  return Object.fromEntries(KEY_CLASSES.flatMap(keyClass => {
    const [keys, active] = rootKeys[keyClass].map(setting => settings[setting])
    if (typeof keys !== 'object' || keys === null) return []
    const digests = Object.fromEntries(Object.entries(keys).map(([id, value]) =>
      [id, rootKeyDigest(String(value))]))
    return [[keyClass, { ids: Object.keys(keys), active: String(active), digests }]]
  }))
}

/** The running processes that have root keys; one that crashed is listed for 30 seconds. */
export async function readRootKeyHolders (
  redis: RedisClient
): Promise<readonly RootKeyHolder[]> {
  return (await call(redis)).map(record => JSON.parse(record) as RootKeyHolder)
}

/** The names of the processes that have root keys of a class, but not this one. */
export const processesWithout = (
  holders: readonly RootKeyHolder[], keyClass: KeyClass, id: string
): readonly string[] => namesOf(holders, keyClass, ({ ids }) => !ids.includes(id))

/** The names of the processes in which this root key of a class is active. */
export const processesWithActive = (
  holders: readonly RootKeyHolder[], keyClass: KeyClass, id: string
): readonly string[] => namesOf(holders, keyClass, ({ active }) => active === id)

function namesOf (
  holders: readonly RootKeyHolder[], keyClass: KeyClass, matches: (ids: KnownIds) => boolean
): readonly string[] {
  return holders.filter(({ keys: { [keyClass]: ids } }) => ids !== undefined && matches(ids))
    .map(({ process }) => process).toSorted()
}

/** The root key that wraps. */
type Active = { readonly activeId: string, readonly activeDigest?: string | undefined }

/**
 * Refuses to wrap by a root key that a running process of its class lacks, or has with another
 * value: the process could not read what the key wraps.
 * @throws UsageError that names the setting and the processes.
 */
export function refuseUnknownRootKeys (
  holders: readonly RootKeyHolder[],
  roots: Readonly<Record<KeyClass, Active>>
): void {
  const faults = KEY_CLASSES.flatMap(keyClass => {
    const { activeId, activeDigest } = roots[keyClass]
    const lacking = processesWithout(holders, keyClass, activeId)
    const others = namesOf(holders, keyClass, ({ digests = {} }) =>
      digests[activeId] !== undefined && digests[activeId] !== activeDigest)
    const [setting, activeSetting] = rootKeys[keyClass]
    const start = `${activeSetting} of this command is "${activeId}", but ${setting} of these ` +
      'processes'
    return [
      ...lacking.length === 0 ? [] : [`${start} lacks that key: ${lacking.join(', ')}.`],
      ...others.length === 0
        ? []
        : [`${start} has another value under that id: ${others.join(', ')}.`],
    ]
  })
  if (faults.length === 0) return
  const advice = 'They could not read what it wraps. Nothing was changed: give each process and ' +
    'this command the same key, and restart the process, as deploy/docs/keys.md describes.'
  throw new UsageError([...faults, advice].join('\n'))
}
