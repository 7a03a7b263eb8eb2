import { createHash, randomUUID } from 'node:crypto'
import { KEY_CLASSES, type KeyClass } from '../../topology.ts'
import { rootKeys } from './config.ts'
import { type RedisClient, script } from './redis.ts'
import { UsageError } from './run-command.ts'

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
export const rootKeyDigest = (value: string): string | undefined => value.includes(':')
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
