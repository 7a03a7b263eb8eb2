import type { OrganizationKeyStore, StoredKey } from '../accounts/organization-key-store.ts'
import {
  organizationKeyId, rootContextOf, type OrganizationKeys,
} from '../accounts/organization-keys.ts'
import type { Wrapped } from '../accounts/wrapped.ts'
import { MissingKeyError } from '../runtime/crypto/key-ring.ts'
import type { RootKeys } from '../runtime/crypto/root-keys/root-keys.ts'
import { SealError } from '../runtime/crypto/seal.ts'
import { refuseUnknownRootKeys, type RootKeyHolder } from '../runtime/platform/root-key-holders.ts'
import { UsageError } from '../runtime/platform/run-command.ts'
import type { KeyClass } from '../topology.ts'
import {
  keyIdIn, newestOf, reportKeys, rootIdIn, type KeyReport, type KeysByOrganization,
} from './key-report.ts'
import { KEY_LOCATIONS, type WrappedKeySources } from './wrapped-keys.ts'

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
  readonly store: Pick<OrganizationKeyStore, 'read' | 'replace' | 'remove'>
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

/** Counts what each key wraps; changes nothing. */
export async function listKeys (
  deps: Pick<RotationDeps, 'readKeys' | 'readHolders' | 'roots' | 'sourcesOf' | 'isErased'>
): Promise<KeyReport> {
  const organizations = await deps.readKeys()
  return await reportOn(deps, organizations)
}

const reportOn = async (
  deps: Pick<RotationDeps, 'readHolders' | 'roots' | 'sourcesOf' | 'isErased'>,
  organizations: KeysByOrganization
): Promise<KeyReport> => reportKeys({
  organizations,
  roots: deps.roots,
  holders: await deps.readHolders(),
  sources: deps.sourcesOf(organizations),
  isErased: deps.isErased,
})

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
  const report = await reportOn(deps, organizations)
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
  { roots }: Pick<RotationDeps, 'roots'>, organizations: KeysByOrganization
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
        await root.unwrap(key.wrapped, rootContextOf(organization, key.class))
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
  const nameOf = (organization: string, key: StoredKey) => `${organization} ${key.class}`
  const names = new Set(damaged.map(({ organization, key }) => nameOf(organization, key)))
  return new Map([...organizations].map(([organization, keys]) =>
    [organization, keys.filter(key => !names.has(nameOf(organization, key)))]))
}

async function rewrapByRoot (
  { roots, store, sendKeys, sendTombstone }: RotationDeps,
  { orgId, key }: { readonly orgId: string, readonly key: StoredKey },
  count: (isReplaced: boolean) => void
): Promise<void> {
  const root = roots[key.class]
  const id = rootIdIn(key)
  if (id === root.activeId || id === undefined || !root.ids.includes(id)) return
  const context = rootContextOf(orgId, key.class)
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
      const newest = newestOf(keys, keyClass)
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
    const key = keys.find(one => organizationKeyId(one) === id)
    const shippedAtMs = key && newestOf(keys, key.class)?.shippedAtMs
    const isSettled = shippedAtMs !== undefined && shippedAtMs > 0 &&
      shippedAtMs + DELETE_AFTER_MS < deps.now()
    if (key === undefined || !isSettled || Object.values(wraps).some(count => count > 0)) continue
    await deps.sendTombstone(organization, key)
    await deps.store.remove(organization, key)
    deleted.push(`${id} of ${organization}`)
  }
  return deleted
}
