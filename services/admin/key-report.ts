import { lacksKeys, type StoredKey } from '../accounts/organization-key-store.ts'
import { organizationKeyId, wrappingKeyId } from '../accounts/organization-keys.ts'
import { rootIdOf, type RootKeys } from '../runtime/crypto/root-keys/root-keys.ts'
import { SealError } from '../runtime/crypto/seal.ts'
import { rootKeys } from '../runtime/platform/config.ts'
import {
  processesWithout, processesWithActive, type RootKeyHolder,
} from '../runtime/platform/root-key-holders.ts'
import { KEY_CLASSES, type KeyClass } from '../topology.ts'
import { KEY_LOCATIONS, type KeyLocation, type WrappedKeySources } from './wrapped-keys.ts'

/** The keys of each organization that has some, all versions of all classes. */
export type KeysByOrganization = ReadonlyMap<string, readonly StoredKey[]>

/** The stored keys of organizations. */
export async function readKeysOf (
  { read }: { readonly read: (orgId: string) => Promise<readonly StoredKey[]> },
  organizations: Iterable<string>
): Promise<KeysByOrganization> {
  const found = new Map<string, readonly StoredKey[]>()
  for (const orgId of organizations) found.set(orgId, await read(orgId))
  return found
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

type Deps = {
  readonly organizations: KeysByOrganization
  readonly roots: Readonly<Record<KeyClass, Pick<RootKeys, 'activeId' | 'ids'>>>
  readonly holders: readonly RootKeyHolder[]
  readonly sources: WrappedKeySources
  readonly isErased: (orgId: string) => Promise<boolean>
}

/** Counts what each root key and each replaced key of an organization wraps. Changes nothing. */
export async function reportKeys (
  { organizations, roots, holders, sources, isErased }: Deps
): Promise<KeyReport> {
  const rootUses = KEY_CLASSES.flatMap(keyClass =>
    rootKeysIn({ organizations, holders }, keyClass, roots[keyClass]))
  const uses = new Map<string, ReplacedKeyUse>()
  for (const [organization, keys] of organizations) {
    for (const key of keys) {
      if (newestOf(keys, key.class) === key) continue
      useOf(uses, { organization, key: organizationKeyId(key), exists: true })
    }
  }
  let broken = [...organizations.values()].flat().filter(key => rootIdIn(key) === undefined).length
  for (const location of KEY_LOCATIONS) {
    for await (const { orgId: organization, pieces } of sources[location]()) {
      const keys = organizations.get(organization) ?? []
      for (const piece of pieces) {
        const key = keyIdIn(piece.bytes)
        const newest = newestOf(keys, piece.class)
        if (key === undefined) broken += 1
        else if (newest === undefined || key !== organizationKeyId(newest)) {
          const exists = keys.some(one => organizationKeyId(one) === key)
          const { wraps } = useOf(uses, { organization, key, exists })
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
  return { rootKeys: rootUses, replaced, broken, lacking }
}

/** The version that wraps: the newest one of its class. */
export const newestOf = (
  keys: readonly StoredKey[], keyClass: KeyClass
): StoredKey | undefined => keys.findLast(key => key.class === keyClass)

/** The id of the organization key that wraps a piece; undefined for damaged bytes. */
export const keyIdIn = (bytes: Buffer): string | undefined => readId(bytes, wrappingKeyId)

/** The id of the root key that wraps an organization key; undefined for damaged bytes. */
export const rootIdIn = ({ wrapped }: StoredKey): string | undefined => readId(wrapped, rootIdOf)

function readId (bytes: Buffer, read: (bytes: Buffer) => string): string | undefined {
  try {
    return read(bytes)
  } catch (error) {
    if (error instanceof SealError) return undefined
    throw error
  }
}

function rootKeysIn (
  { organizations, holders }: Pick<Deps, 'organizations' | 'holders'>, keyClass: KeyClass,
  { activeId, ids }: Pick<RootKeys, 'activeId' | 'ids'>
): readonly RootKeyUse[] {
  const counts = new Map(ids.map(id => [id, 0]))
  for (const keys of organizations.values()) {
    for (const key of keys.filter(one => one.class === keyClass)) {
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
  uses: readonly T[], isErased: Deps['isErased']
): Promise<readonly T[]> {
  const kept = await Promise.all(uses.map(async use =>
    use.exists || !await isErased(use.organization) ? [use] : []))
  return kept.flat()
}

function useOf (
  uses: Map<string, ReplacedKeyUse>, found: Omit<ReplacedKeyUse, 'wraps'>
): ReplacedKeyUse {
  const name = `${found.organization} ${found.key}`
  const use = uses.get(name) ?? {
    ...found,
    wraps: Object.fromEntries(KEY_LOCATIONS.map(location =>
      [location, 0])) as Record<KeyLocation, number>,
  }
  uses.set(name, use)
  return use
}

/** The root keys that wrap keys of organizations and are not configured, in words. */
export function missingRootKeys (
  organizations: KeysByOrganization, roots: Deps['roots']
): readonly string[] {
  return KEY_CLASSES.flatMap(keyClass => {
    const keys = [...organizations.values()].flat().filter(key => key.class === keyClass)
    const ids = new Set(keys.flatMap(key => rootIdIn(key) ?? []))
    return [...ids].filter(id => !roots[keyClass].ids.includes(id)).map(id =>
      `key "${id}" of ${rootKeys[keyClass][0]}`)
  })
}
