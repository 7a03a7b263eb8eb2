import Type from 'typebox'
import { createAccountRecords, type AccountRecords } from '../accounts/records.ts'
import type { Environment } from '../platform/command-environment.ts'
import { loadConfig, pick, commonConfig } from '../platform/config.ts'
import { createKeyRing, kidOf, type KeyRing, type Wrapped } from '../crypto/key-ring.ts'
import { SealError } from '../crypto/seal.ts'
import { shippingWarning } from './options.ts'
import { withStores } from './stores.ts'
import {
  KEY_LOCATIONS, wrappedKeySources, type KeyLocation, type WrappedKeySources,
} from './wrapped-keys.ts'

/** How often a key is used for wrapping; the key may be missing from the ring. */
type KeyUse = {
  readonly kid: string
  readonly inRing: boolean
  readonly isActive: boolean
  readonly wraps: Readonly<Record<KeyLocation, number>>
  /** It wraps nothing: remove it from the ring once no process has it as its active key. */
  readonly isFree: boolean
}

export type KeyReport = {
  readonly keys: readonly KeyUse[]
  /** Stored values that are not a wrapped key. */
  readonly broken: number
  /** Keys that wrap something but are missing from the ring. */
  readonly lacking: readonly string[]
}

export type RewrapReport = KeyReport & {
  readonly rewrapped: number
  /** Changed by another process meanwhile; the next run rewraps them. */
  readonly missed: number
}

type Deps = {
  readonly ring: Pick<KeyRing, 'rewrap' | 'activeKid' | 'kids'>
  readonly sources: WrappedKeySources
}

const config = Type.Object(pick(commonConfig, ['KEY_RING', 'KEY_ACTIVE']))

/** `keys list` on the stack in `env`; throws ConfigError when a setting is missing. */
export async function listEncryptionKeys (
  env: Environment
): Promise<KeyReport & { readonly note: string }> {
  const report = await withRing(env, reportKeys)
  return { ...report, note: rotationNote(report) }
}

/** `keys rewrap` on the stack in `env`; throws ConfigError when a setting is missing. */
export async function rewrapKeys (env: Environment) {
  return await withRing(env, async deps => {
    const report = await rewrapAll(deps)
    return { ...report, note: rotationNote(report), ...await shippingWarning(deps.accounts) }
  })
}

async function withRing<T> (
  env: Environment, work: (deps: {
    readonly ring: KeyRing,
    readonly sources: WrappedKeySources,
    readonly accounts: AccountRecords
  }) => Promise<T>
): Promise<T> {
  const ring = createKeyRing(loadConfig(config, env))
  return await withStores(env, stores => work({
    ring, sources: wrappedKeySources(stores, ring), accounts: createAccountRecords(stores.redis),
  }))
}

/** The next step for the operator, in words. */
export function rotationNote ({ lacking, keys }: KeyReport): string {
  if (lacking.length > 0) {
    return `KEY_RING lacks ${lacking.join(', ')}, which still wraps stored keys: put it back.`
  }
  const free = keys.filter(({ isFree }) => isFree).map(({ kid }) => kid)
  if (free.length === 0) {
    return 'Every key besides the active one still wraps something. Run "keys rewrap" before you ' +
      'remove one.'
  }
  return `Nothing is wrapped by ${free.join(', ')}: remove it from KEY_RING once no process has ` +
    'it as KEY_ACTIVE.'
}

/** Counts what each key wraps. Changes nothing. */
export async function reportKeys ({ ring, sources }: Deps): Promise<KeyReport> {
  const counts: Counts = new Map()
  for (const kid of ring.kids) countsFor(counts, kid)
  let broken = 0
  for (const location of KEY_LOCATIONS) {
    for await (const { bytes } of sources[location]()) {
      const kid = kidIn(bytes)
      if (kid === undefined) broken += 1
      else countsFor(counts, kid)[location] += 1
    }
  }
  const { activeKid, kids } = ring
  const keys = [...counts].map(([kid, wraps]) => ({
    kid,
    inRing: kids.includes(kid),
    isActive: kid === activeKid,
    wraps,
    isFree: kid !== activeKid && Object.values(wraps).every(count => count === 0),
  }))
  return { keys, broken, lacking: keys.filter(({ inRing }) => !inRing).map(({ kid }) => kid) }
}

/** A broker acknowledges a batch of this size about as fast as one message. */
const MAX_CONCURRENT = 200

/**
 * Wraps with the active key everything that another key of the ring wraps, then reports what each
 * key wraps. Skips what is wrapped by a key that the ring lacks.
 */
export async function rewrapAll (deps: Deps): Promise<RewrapReport> {
  const { ring, sources } = deps
  const done = { rewrapped: 0, missed: 0 }
  const pending: Promise<void>[] = []
  const replaceOne = async ({ replace }: Wrapped, rewrapped: Buffer) => {
    if (await replace(rewrapped)) done.rewrapped += 1
    else done.missed += 1
  }
  for (const location of KEY_LOCATIONS) {
    for await (const wrapped of sources[location]()) {
      const { bytes, binding } = wrapped
      const kid = kidIn(bytes)
      if (kid === undefined || !ring.kids.includes(kid)) continue
      const rewrapped = ring.rewrap(bytes, binding)
      if (rewrapped !== undefined) pending.push(replaceOne(wrapped, rewrapped))
      if (pending.length === MAX_CONCURRENT) await Promise.all(pending.splice(0))
    }
  }
  await Promise.all(pending)
  return { ...await reportKeys(deps), ...done }
}

function kidIn (bytes: Buffer): string | undefined {
  try {
    return kidOf(bytes)
  } catch (error) {
    if (error instanceof SealError) return undefined
    throw error
  }
}

type Counts = Map<string, Record<KeyLocation, number>>

function countsFor (counts: Counts, kid: string): Record<KeyLocation, number> {
  const known = counts.get(kid) ??
    Object.fromEntries(KEY_LOCATIONS.map(name => [name, 0])) as Record<KeyLocation, number>
  counts.set(kid, known)
  return known
}
