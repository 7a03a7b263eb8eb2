import { organizationKeyTombstone, sendOrganizationKeys } from '../accounts/account-topics.ts'
import { wrappedListsKey } from '../accounts/contact-lists.ts'
import {
  lacksKeys, organizationKeyId, type OrganizationKeys, type OrganizationKeyStore, toRootContext,
  type StoredKey, wrappingKeyId,
} from '../accounts/organization-keys.ts'
import { createOrganizations } from '../accounts/organizations.ts'
import { createPartners } from '../accounts/partners.ts'
import { wrappedPeople } from '../accounts/people.ts'
import type { Wrapped } from '../accounts/records.ts'
import { parseTenant, tenantsOf } from '../accounts/tenant.ts'
import { jobRedisKeys } from '../jobs/job-record.ts'
import { wrappedInRedis, wrappedInTopic, wrappedJobKey } from '../jobs/wrapped-keys.ts'
import { createTenants } from '../money/wallet.ts'
import { MissingKeyError } from '../runtime/crypto/key-ring.ts'
import {
  processesWithActive, processesWithout, readRootKeyHolders, refuseUnknownRootKeys, readRootId,
  type RootKeyHolder, type RootKeys,
} from '../runtime/crypto/root-keys.ts'
import { SealError } from '../runtime/crypto/seal.ts'
import { batchWrites } from '../runtime/platform/batch-writes.ts'
import { rootKeys } from '../runtime/platform/config.ts'
import { UsageError } from '../runtime/platform/run-command.ts'
import { KEY_CLASSES, type KeyClass } from '../topology.ts'
import { createWebhookEndpoints } from '../webhooks/endpoints.ts'
import { wrappedSecrets } from '../webhooks/secrets.ts'
import type { Stores } from './deps.ts'

export type RewrapReport = KeyReport & {
  readonly rewrapped: number
  /** Changed by another process meanwhile; the next run rewraps them. */
  readonly missed: number
  /** Replaced keys that wrapped nothing any more and were deleted. */
  readonly deleted: readonly string[]
  /** Keys of organizations whose bytes do not open, in words; what they wrap was left out. */
  readonly damaged: readonly string[]
}

export type RotationDeps = {
  readonly readKeys: () => Promise<KeysByOrganization>
  /** The running processes, and the root keys that they know. */
  readonly readHolders: () => Promise<readonly RootKeyHolder[]>
  readonly store: OrganizationKeyStore
  readonly roots: Readonly<Record<KeyClass, RootKeys>>
  readonly keys: Readonly<Record<KeyClass, OrganizationKeys>>
  readonly sourcesOf: (organizations: KeysByOrganization) => WrappedKeySources
  readonly isErased: (orgId: string) => Promise<boolean>
  /** Writes keys to the topic `organization.keys`. */
  readonly sendKeys: (orgId: string, keys: readonly StoredKey[]) => Promise<void>
  /** Deletes a key from that topic. */
  readonly sendTombstone: (orgId: string, key: StoredKey) => Promise<void>
  readonly now: () => number
}

/** A broker acknowledges a batch of this size about as fast as one message. */
const MAX_CONCURRENT = 200
/** Longer than any process takes to see a new version. */
const DELETE_AFTER_MS = 60_000

type SourceStores = Pick<Stores, 'redis' | 'codec' | 'producer' | 'read' | 'keyCopy'>

/** The dependencies of a rotation, on open connections. */
export function rotationDeps (
  stores: SourceStores, keys: RotationDeps['keys'] & Pick<RotationDeps, 'store' | 'roots'>
): RotationDeps {
  const { redis, codec, producer } = stores
  return {
    store: keys.store,
    keys,
    roots: keys.roots,
    readKeys: async () => {
      const tenants = await createTenants(redis).all()
      const organizations = new Set(tenants.map(tenant => parseTenant(tenant).orgId))
      return await readOrganizationKeys(keys.store, organizations)
    },
    readHolders: () => readRootKeyHolders(redis),
    sourcesOf: organizations => wrappedKeySources(stores, keys, organizations),
    isErased: createOrganizations(redis).isErased,
    sendKeys: (orgId, sent) =>
      sendOrganizationKeys({ codec, accountsProducer: producer }, { orgId, keys: sent }),
    sendTombstone: async (orgId, key) => {
      await producer.send([organizationKeyTombstone(orgId, key)])
    },
    now: Date.now,
  }
}

/** Counts what each key wraps; changes nothing. */
export const listKeys = async (deps: RotationDeps): Promise<KeyReport> =>
  reportKeys(deps, await deps.readKeys())

/**
 * Wraps the keys of organizations with the active root keys, and everything below them with the
 * newest keys of organizations. Then deletes replaced keys that wrap nothing. Can be interrupted
 * and repeated; skips what is wrapped by a missing or damaged key.
 * @throws UsageError when a running process lacks an active root key or has another value of it,
 * or when a root key of this command opens nothing of what it wraps.
 */
export async function rewrapAll (deps: RotationDeps): Promise<RewrapReport> {
  refuseUnknownRootKeys(await deps.readHolders(), deps.roots)
  const before = await deps.readKeys()
  const damaged = await findDamaged(deps, before)
  const done = { rewrapped: 0, missed: 0 }
  const count = (isReplaced: boolean) => { done[isReplaced ? 'rewrapped' : 'missed'] += 1 }
  for (const [orgId, keys] of withoutDamaged(before, damaged)) {
    for (const key of keys) await rewrapByRoot(deps, { orgId, key }, count)
  }
  const organizations = await deps.readKeys()
  const intact = withoutDamaged(organizations, damaged)
  const sources = deps.sourcesOf(organizations)
  const pending: Promise<void>[] = []
  for (const location of KEY_LOCATIONS) {
    for await (const wrapped of sources[location]()) {
      if (isCurrent(intact, wrapped)) continue
      pending.push(rewrapOne(deps, wrapped).then(count))
      if (pending.length === MAX_CONCURRENT) await Promise.all(pending.splice(0))
    }
    // Before the next location: the last step of some deletes what was replaced.
    await Promise.all(pending.splice(0))
  }
  const report = await reportKeys(deps, organizations)
  const deleted = await deleteReplaced(deps, intact, report)
  // Reading all keys again takes long, so it is done only for a change.
  return {
    ...deleted.length === 0 ? report : await listKeys(deps),
    ...done,
    deleted,
    damaged: damaged.map(({ organization, key }) =>
      `key ${organizationKeyId(key)} of ${organization}`),
  }
}

type Damaged = { readonly organization: string, readonly key: StoredKey }

/**
 * Opens every key of an organization before the first change, and returns those that do not open.
 * @throws UsageError when a root key opens nothing of what it wraps: its value is wrong then.
 */
async function findDamaged (
  { roots }: RotationDeps, organizations: KeysByOrganization
): Promise<readonly Damaged[]> {
  const damaged: Damaged[] = []
  const opening = new Set<string>()
  const wrong = new Map<string, MissingKeyError>()
  for (const [organization, keys] of organizations) {
    for (const key of keys) {
      const root = roots[key.class]
      const id = rootIdIn(key)
      if (id !== undefined && !root.ids.includes(id)) continue
      const name = `${key.class} ${id}`
      try {
        await root.unwrap(key.wrapped, toRootContext(organization, key.class))
        opening.add(name)
      } catch (error) {
        if (error instanceof MissingKeyError) wrong.set(name, error)
        else if (!(error instanceof SealError)) throw error
        damaged.push({ organization, key })
      }
    }
  }
  const [first] = [...wrong].filter(([name]) => !opening.has(name))
  if (first !== undefined) throw new UsageError(`${first[1].lack}. Nothing was changed.`)
  return damaged
}

/** A damaged version keeps all others of its class from being opened as well. */
function withoutDamaged (
  organizations: KeysByOrganization, damaged: readonly Damaged[]
): KeysByOrganization {
  const keyName = (organization: string, key: StoredKey) => `${organization} ${key.class}`
  const names = new Set(damaged.map(({ organization, key }) => keyName(organization, key)))
  return new Map([...organizations].map(([organization, keys]) =>
    [organization, keys.filter(key => !names.has(keyName(organization, key)))]))
}

async function rewrapByRoot (
  { roots, store, sendKeys, sendTombstone }: RotationDeps,
  { orgId, key }: { readonly orgId: string, readonly key: StoredKey },
  count: (isReplaced: boolean) => void
): Promise<void> {
  const root = roots[key.class]
  const id = rootIdIn(key)
  if (id === root.activeId || id === undefined || !root.ids.includes(id)) return
  const context = toRootContext(orgId, key.class)
  const wrapped = await root.wrap(await root.unwrap(key.wrapped, context), context)
  // The topic comes first: a crash in between leaves Redis with a key that opens the same.
  await sendKeys(orgId, [{ ...key, wrapped }])
  const isReplaced = await store.replace(orgId, key, wrapped)
  count(isReplaced)
  if (isReplaced) return
  // The organization may have been erased meanwhile: a tombstone follows what was just sent.
  const ids = (await store.read(orgId)).map(organizationKeyId)
  if (!ids.includes(organizationKeyId(key))) await sendTombstone(orgId, key)
}

/** Whether all pieces are wrapped by the newest keys, or cannot be rewrapped. */
function isCurrent (organizations: KeysByOrganization, { orgId, pieces }: Wrapped): boolean {
  const keys = organizations.get(orgId) ?? []
  const ids = keys.map(organizationKeyId)
  return pieces.some(({ bytes }) => !ids.includes(keyIdIn(bytes) ?? '')) ||
    pieces.every(({ class: keyClass, bytes }) => {
      const newest = newestKey(keys, keyClass)
      return newest !== undefined && keyIdIn(bytes) === organizationKeyId(newest)
    })
}

async function rewrapOne (
  { keys }: RotationDeps, { orgId, pieces: [first, ...more], replace }: Wrapped
): Promise<boolean> {
  const fresh = async ({ class: keyClass, bytes, binding }: typeof first): Promise<Buffer> => {
    const { wrap, unwrap } = keys[keyClass]
    return await wrap(orgId, await unwrap(orgId, bytes, binding), binding)
  }
  return await replace([await fresh(first), ...await Promise.all(more.map(fresh))])
}

/**
 * Deletes replaced keys that wrap nothing, if all processes wrap with the newest one. The topic
 * comes first: a crash in between leaves the key in Redis, and the next run deletes it.
 */
async function deleteReplaced (
  deps: RotationDeps, organizations: KeysByOrganization, { replaced }: KeyReport
): Promise<readonly string[]> {
  const deleted: string[] = []
  for (const { organization, key: id, wraps } of replaced) {
    const keys = organizations.get(organization) ?? []
    const key = keys.find(stored => organizationKeyId(stored) === id)
    const shippedAtMs = key && newestKey(keys, key.class)?.shippedAtMs
    const isSettled = shippedAtMs !== undefined && shippedAtMs > 0 &&
      shippedAtMs + DELETE_AFTER_MS < deps.now()
    if (key === undefined || !isSettled || Object.values(wraps).some(count => count > 0)) continue
    await deps.sendTombstone(organization, key)
    await deps.store.remove(organization, key)
    deleted.push(`${id} of ${organization}`)
  }
  return deleted
}

/** The keys of each organization that has some, all versions of all classes. */
type KeysByOrganization = ReadonlyMap<string, readonly StoredKey[]>

/** The stored keys of organizations. */
export async function readOrganizationKeys (
  store: OrganizationKeyStore, organizations: Iterable<string>
): Promise<KeysByOrganization> {
  const keys = new Map<string, readonly StoredKey[]>()
  for (const orgId of organizations) keys.set(orgId, await store.read(orgId))
  return keys
}

/** How many keys of organizations a root key wraps; it may be missing from the configuration. */
type RootKeyUse = {
  readonly class: KeyClass
  readonly id: string
  readonly configured: boolean
  readonly isActive: boolean
  readonly wraps: number
  /** The running processes in which it is active. */
  readonly activeIn: readonly string[]
  /** The running processes of the class that lack it, and so cannot read what it wraps. */
  readonly missingIn: readonly string[]
  /** It wraps nothing and is active nowhere: it is new, or it may be removed. */
  readonly isFree: boolean
}

/** A version of an organization's key that a newer one has replaced, or that is missing. */
type ReplacedKeyUse = {
  readonly organization: string
  /** `<class>.<version>`. */
  readonly key: string
  readonly exists: boolean
  readonly wraps: Readonly<Record<KeyLocation, number>>
}

export type KeyReport = {
  readonly rootKeys: readonly RootKeyUse[]
  readonly replaced: readonly ReplacedKeyUse[]
  /** Stored values that are not a wrapped key. */
  readonly broken: number
  /** Keys that wrap something but do not exist, in words. */
  readonly lacking: readonly string[]
}

/** Counts what each root key and each replaced key of an organization wraps. Changes nothing. */
async function reportKeys (
  { readHolders, roots, sourcesOf, isErased }: RotationDeps, organizations: KeysByOrganization
): Promise<KeyReport> {
  const holders = await readHolders()
  const sources = sourcesOf(organizations)
  const uses = new Map<string, ReplacedKeyUse>()
  for (const [organization, keys] of organizations) {
    for (const key of keys) {
      if (newestKey(keys, key.class) === key) continue
      findUse(uses, { organization, key: organizationKeyId(key), exists: true })
    }
  }
  let broken = [...organizations.values()].flat().filter(key => rootIdIn(key) === undefined).length
  for (const location of KEY_LOCATIONS) {
    for await (const { orgId: organization, pieces } of sources[location]()) {
      const keys = organizations.get(organization) ?? []
      for (const piece of pieces) {
        const key = keyIdIn(piece.bytes)
        const newest = newestKey(keys, piece.class)
        if (key === undefined) broken += 1
        else if (newest === undefined || key !== organizationKeyId(newest)) {
          const exists = keys.some(stored => organizationKeyId(stored) === key)
          const { wraps } = findUse(uses, { organization, key, exists })
          Object.assign(wraps, { [location]: wraps[location] + 1 })
        }
      }
    }
  }
  const replaced = await withoutErased([...uses.values()], isErased)
  const missing = replaced.filter(({ exists }) => !exists)
    .map(({ organization, key }) => `key ${key} of ${organization}`)
  const without = await withoutErased([...organizations].flatMap(([organization, keys]) =>
    lacksKeys(keys) ? [{ organization, exists: false }] : []), isErased)
  const lacking = [
    ...missingRootKeys(organizations, roots),
    ...without.map(({ organization }) => `keys of ${organization}`),
    ...missing,
  ]
  const rootUses = KEY_CLASSES.flatMap(keyClass =>
    rootKeysIn(organizations, holders, keyClass, roots[keyClass]))
  return { rootKeys: rootUses, replaced, broken, lacking }
}

/** The version that wraps: the newest one of its class. */
const newestKey = (
  keys: readonly StoredKey[], keyClass: KeyClass
): StoredKey | undefined => keys.findLast(key => key.class === keyClass)

/** The id of the organization key that wraps a piece; undefined for damaged bytes. */
const keyIdIn = (bytes: Buffer): string | undefined => readId(bytes, wrappingKeyId)

/** The id of the root key that wraps an organization key; undefined for damaged bytes. */
const rootIdIn = ({ wrapped }: StoredKey): string | undefined => readId(wrapped, readRootId)

function readId (bytes: Buffer, read: (bytes: Buffer) => string): string | undefined {
  try {
    return read(bytes)
  } catch (error) {
    if (error instanceof SealError) return undefined
    throw error
  }
}

function rootKeysIn (
  organizations: KeysByOrganization, holders: readonly RootKeyHolder[], keyClass: KeyClass,
  { activeId, ids }: RootKeys
): readonly RootKeyUse[] {
  const counts = new Map(ids.map(id => [id, 0]))
  for (const keys of organizations.values()) {
    for (const key of keys.filter(stored => stored.class === keyClass)) {
      const id = rootIdIn(key)
      if (id !== undefined) counts.set(id, (counts.get(id) ?? 0) + 1)
    }
  }
  return [...counts].map(([id, wraps]) => {
    const activeIn = processesWithActive(holders, keyClass, id)
    return {
      class: keyClass,
      id,
      configured: ids.includes(id),
      isActive: id === activeId,
      wraps,
      activeIn,
      missingIn: processesWithout(holders, keyClass, id),
      isFree: id !== activeId && activeIn.length === 0 && wraps === 0,
    }
  })
}

/** What the keys of an erased organization wrapped is kept, and they are missing on purpose. */
async function withoutErased<T extends Pick<ReplacedKeyUse, 'organization' | 'exists'>> (
  uses: readonly T[], isErased: RotationDeps['isErased']
): Promise<readonly T[]> {
  const kept = await Promise.all(uses.map(async use =>
    use.exists || !await isErased(use.organization) ? [use] : []))
  return kept.flat()
}

function findUse (
  uses: Map<string, ReplacedKeyUse>, key: Omit<ReplacedKeyUse, 'wraps'>
): ReplacedKeyUse {
  const name = `${key.organization} ${key.key}`
  const use = uses.get(name) ?? {
    ...key,
    wraps: Object.fromEntries(KEY_LOCATIONS.map(location =>
      [location, 0])) as Record<KeyLocation, number>,
  }
  uses.set(name, use)
  return use
}

/** The root keys that wrap keys of organizations and are not configured, in words. */
export function missingRootKeys (
  organizations: KeysByOrganization, roots: RotationDeps['roots']
): readonly string[] {
  return KEY_CLASSES.flatMap(keyClass => {
    const keys = [...organizations.values()].flat().filter(key => key.class === keyClass)
    const ids = new Set(keys.flatMap(key => rootIdIn(key) ?? []))
    return [...ids].filter(id => !roots[keyClass].ids.includes(id)).map(id =>
      `key "${id}" of ${rootKeys[keyClass][0]}`)
  })
}

/** The next step for the operator, in words. */
export function rotationNote ({ lacking, rootKeys: roots, replaced }: KeyReport): string {
  if (lacking.length > 0) {
    return `Missing, but still needed: ${lacking.join(', ')}. Put root keys back into their ` +
      'setting. Ledger restores keys of organizations from topic organization.keys within a ' +
      'minute; if keys are still missing then, restart every ledger.'
  }
  const unknown = roots.filter(({ isActive, missingIn }) => isActive && missingIn.length > 0)
  if (unknown.length > 0) {
    const lines = unknown.map(root => `These processes lack the active key "${root.id}" of ` +
      `${rootKeys[root.class][0]}: ${root.missingIn.join(', ')}.`)
    return `${lines.join(' ')} Give it to them and restart them first: "keys rewrap" ` +
      'is refused before that.'
  }
  if (replaced.length > 0) {
    return 'Some keys of organizations are replaced but not deleted yet. Run "keys rewrap" again ' +
      'a minute after they were replaced.'
  }
  const free = roots.filter(({ isFree }) => isFree).map(root =>
    `"${root.id}" of ${rootKeys[root.class][0]}`)
  return free.length === 0
    ? 'Every root key is active or wraps something. Run "keys rewrap" before you remove one.'
    : `Nothing is wrapped by ${free.join(', ')}, and no running process has it as active: a new ` +
      'key is not in use yet, a replaced one may be removed from the setting.'
}

/** Everything that keys of organizations wrap, by where it is stored. */
const KEY_LOCATIONS = [
  'jobKeys', 'jobKeysInTopic', 'jobKeysInClickhouse', 'webhookSecrets', 'people', 'partnerKeys',
  'contactLists',
] as const

type KeyLocation = typeof KEY_LOCATIONS[number]
type WrappedKeySources = Readonly<Record<KeyLocation, () => AsyncIterable<Wrapped>>>

/** Reads all wrapped keys in the stores, one iterable per location. */
function wrappedKeySources (
  stores: SourceStores, keys: RotationDeps['keys'], organizations: KeysByOrganization
): WrappedKeySources {
  const { redis } = stores
  const endpoints = createWebhookEndpoints({ redis, keys: keys.webhooks })
  const partners = createPartners({ redis, keys: keys.partners })
  return {
    jobKeys: () => wrappedInRedis(redis),
    jobKeysInTopic: () => wrappedInTopic(stores),
    jobKeysInClickhouse: () => wrappedInClickhouse(stores, organizations),
    async * webhookSecrets () {
      for (const org of organizations.keys()) {
        yield * await wrappedSecrets(redis, org)
        yield * await endpoints.wrapped(org)
      }
    },
    async * people () {
      for (const org of organizations.keys()) yield * await wrappedPeople(redis, org)
    },
    async * contactLists () {
      for (const org of organizations.keys()) yield * await wrappedListsKey(redis, org)
    },
    async * partnerKeys () { yield * await partners.wrapped() },
  }
}

/**
 * The wrapped data keys in ClickHouse. Replacing a key inserts a new row. When its job was erased
 * meanwhile, all rows of the job are deleted instead. After the last insert the replaced rows are
 * deleted.
 */
async function * wrappedInClickhouse (
  { redis, keyCopy }: SourceStores, organizations: KeysByOrganization
): AsyncIterable<Wrapped> {
  const append = batchWrites(keyCopy.append)
  const replaced = new Set<string>()
  for await (const key of keyCopy.all()) {
    const { tenant, job } = key
    yield wrappedJobKey(key, async wrapped => {
      replaced.add(parseTenant(tenant).orgId)
      await append([{ ...key, wrapped }])
      // An erasure marks the job in Redis before it deletes rows, so either it or this process
      // deletes the row that was just inserted.
      if (await redis.exists(jobRedisKeys(tenant, job).erased) === 0) return true
      await keyCopy.erase(tenant, [job])
      return false
    })
  }
  // Waits for all earlier inserts.
  if (replaced.size > 0) await append([])
  for (const orgId of replaced) {
    const newest = newestKey(organizations.get(orgId) ?? [], 'results')
    if (newest !== undefined) {
      await keyCopy.keepWrappedBy(tenantsOf(orgId), organizationKeyId(newest))
    }
  }
}
