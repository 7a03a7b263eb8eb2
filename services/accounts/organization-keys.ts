import { randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import {
  createKeyRing, MissingKeyError, MissingOrganizationKeyError, splitKeyId, withKeyId, type KeyRing,
} from '../runtime/crypto/key-ring.ts'
import type { RootKeys } from '../runtime/crypto/root-keys/root-keys.ts'
import { type Binding, boxPublicKey, openBox, sealBox } from '../runtime/crypto/seal.ts'
import { InfrastructureError } from '../runtime/platform/errors.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import { sleep } from '../runtime/platform/retry.ts'
import type { KeyClass } from '../topology.ts'
import type { OrganizationKeyStore, StoredKey } from './organization-key-store.ts'

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
  readonly roots: Pick<RootKeys, 'unwrap'>
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
export const organizationKeyId = ({ class: keyClass, version }: Pick<StoredKey,
  'class' | 'version'>): string => `${keyClass}.${version}`

/**
 * The id of the version that wrapped these bytes, by itself or by its public key.
 * @throws SealError for bytes that are not wrapped.
 */
export function wrappingKeyId (wrapped: Buffer): string {
  const { id } = splitKeyId(wrapped)
  return id.endsWith(BOX) ? id.slice(0, -BOX.length) : id
}

/** The context that the root key of a class authenticates. */
export const rootContextOf = (orgId: string, keyClass: KeyClass) =>
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
        secret = await deps.roots.unwrap(key.wrapped, rootContextOf(orgId, deps.class))
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
    readonly store: Pick<OrganizationKeyStore, 'add'>,
    readonly roots: Pick<RootKeys, 'wrap'>,
    readonly class: KeyClass,
  },
  orgId: string, version: number
): Promise<void> {
  const secret = randomBytes(32)
  await store.add(orgId, {
    class: keyClass,
    version,
    wrapped: await roots.wrap(secret, rootContextOf(orgId, keyClass)),
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
