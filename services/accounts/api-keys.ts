import type { Redis } from 'ioredis'
import { LRUCache } from 'lru-cache'
import { hashOf, isWellFormed, newSecret } from './key-format.ts'
import { createKeyStore, type KeyRecord, type KeyStore, type Scope } from './key-store.ts'
import { tenantOf, type Mode } from './tenant.ts'

export { SCOPES, type Scope } from './key-store.ts'

/** Who a request comes from. */
export type Caller = {
  readonly org: string
  readonly tenant: string
  readonly mode: Mode
  readonly scopes: readonly Scope[]
}

export type KeyLookup =
  | { readonly kind: 'ok', readonly key: Caller }
  | { readonly kind: 'missing' | 'invalid' | 'expired' | 'revoked' }

export type NewKey = {
  readonly orgId: string
  readonly mode: Mode
  readonly scopes: readonly Scope[]
  readonly expiresAtMs?: number
}

/** The one time a secret is shown. */
export type MadeKey = { readonly id: string, readonly secret: string }

/** A key as it may be shown: never the secret. */
export type KeySummary = Omit<KeyRecord, 'orgId' | 'hash'>

export type ApiKeys = ReturnType<typeof createApiKeys>

/** A revoked key works no longer than this. */
const CACHE_MS = 1_000
const CACHED_KEYS = 10_000
const LAST_USED_EVERY_MS = 60_000

/** The keys of all organizations, stored as SHA-256 in Redis (`key:<sha256>`). */
export function createApiKeys (redis: Redis, now: () => number = Date.now) {
  const deps: KeyDeps = { store: createKeyStore(redis), records: recordCache(), now }
  const noted = new LRUCache<string, number>({ max: CACHED_KEYS })

  return {
    create: (key: NewKey) => createKey(deps, key),

    /** Ends a key at once (seen everywhere within a second); false when there is no such key. */
    revoke: (orgId: string, keyId: string) => revokeKey(deps, orgId, keyId),

    /** Whose key a secret is; the secret itself goes nowhere. Asks Redis at most once a second. */
    async findKey (secret: string): Promise<KeyLookup> {
      if (secret === '') return { kind: 'missing' }
      const hash = hashOf(secret)
      if (!isWellFormed(secret)) return { kind: 'invalid' }
      const record = await recordOf(deps, hash)
      if (record === undefined) return { kind: 'invalid' }
      const why = endOf(record, now())
      if (why !== undefined) return { kind: why }
      noteUse(deps, noted, record)
      return { kind: 'ok', key: callerOf(record) }
    },

    /** All keys of an organization, newest last, without their secrets. */
    async list (orgId: string): Promise<KeySummary[]> {
      const records = await deps.store.list(orgId)
      return records.map(({ orgId: _orgId, hash: _hash, ...summary }) => summary)
    },

    /**
     * Makes a key like an old one, which goes on working for `graceMs`. A key that expires gets a
     * successor that lasts as long from now. Returns undefined when there is no such key, or when
     * it is revoked or expired.
     */
    async roll (orgId: string, keyId: string, graceMs: number): Promise<MadeKey | undefined> {
      const old = await recordById(deps.store, orgId, keyId)
      if (old === undefined || endOf(old, now()) !== undefined) return undefined
      const { mode, scopes, createdAtMs, expiresAtMs } = old
      const fresh = await createKey(deps, {
        orgId,
        mode,
        scopes,
        ...expiresAtMs === 0 ? {} : { expiresAtMs: now() + expiresAtMs - createdAtMs },
      })
      await deps.store.change(old.hash, { expiresAt: String(graceEndMs(old, now() + graceMs)) })
      deps.records.delete(old.hash)
      return fresh
    },
  }
}

const recordCache = () =>
  new LRUCache<string, { readAtMs: number, record: KeyRecord }>({ max: CACHED_KEYS })

/** What work on keys is done with. */
type KeyDeps = {
  readonly store: KeyStore
  /** Keys as they were when last read. */
  readonly records: ReturnType<typeof recordCache>
  readonly now: () => number
}

async function recordOf ({ store, records, now }: KeyDeps, hash: string) {
  const cached = records.get(hash)
  if (cached !== undefined && now() - cached.readAtMs < CACHE_MS) return cached.record
  const record = await store.read(hash)
  if (record !== undefined) records.set(hash, { readAtMs: now(), record })
  return record
}

async function recordById (store: KeyStore, orgId: string, keyId: string) {
  return (await store.list(orgId)).find(record => record.id === keyId)
}

async function createKey ({ store, now }: KeyDeps, key: NewKey): Promise<MadeKey> {
  const secret = newSecret(key.mode)
  const id = await store.add({
    ...key, hash: hashOf(secret), last4: secret.slice(-4), createdAtMs: now(),
  })
  return { id, secret }
}

async function revokeKey (
  { store, records, now }: KeyDeps, orgId: string, keyId: string
): Promise<boolean> {
  const record = await recordById(store, orgId, keyId)
  if (record === undefined) return false
  if (record.revokedAtMs === 0) await store.change(record.hash, { revokedAt: String(now()) })
  records.delete(record.hash)
  return true
}

function noteUse (
  { store, now }: KeyDeps, noted: LRUCache<string, number>, record: KeyRecord
): void {
  const last = noted.get(record.hash) ?? record.lastUsedAtMs
  if (now() - last < LAST_USED_EVERY_MS) return
  noted.set(record.hash, now())
  // Nobody waits for this, and a lost note is made again a minute later.
  store.noteUse(record.hash, now()).catch(() => noted.delete(record.hash))
}

/** Why a key works no more; undefined while it does. */
function endOf (record: KeyRecord, nowMs: number): 'revoked' | 'expired' | undefined {
  if (record.revokedAtMs !== 0) return 'revoked'
  return record.expiresAtMs !== 0 && record.expiresAtMs <= nowMs ? 'expired' : undefined
}

/** A grace never lengthens the life of a key that was to expire earlier. */
function graceEndMs (old: KeyRecord, endsAtMs: number): number {
  return old.expiresAtMs === 0 ? endsAtMs : Math.min(old.expiresAtMs, endsAtMs)
}

function callerOf ({ orgId, mode, scopes }: KeyRecord): Caller {
  return { org: orgId, tenant: tenantOf(orgId, mode), mode, scopes }
}
