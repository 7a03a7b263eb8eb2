import type { Redis } from 'ioredis'
import { LRUCache } from 'lru-cache'
import {
  hashOf, isWellFormed, newApiKey, createKeyStore, type KeyRecord, type KeyStore, type Scope,
} from './key-store.ts'
import { tenantOf, type Mode } from './tenant.ts'

/** The owner of the API key of a request. */
export type Caller = {
  readonly org: string
  readonly tenant: string
  readonly mode: Mode
  readonly scopes: readonly Scope[]
  /** The id of the key, which is safe to show. */
  readonly keyId: string
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

/** A new key; its secret is shown only once. */
export type CreatedKey = { readonly id: string, readonly secret: string }

/** A key without its secret and hash. */
export type KeySummary = Omit<KeyRecord, 'orgId' | 'hash'>

export type ApiKeys = ReturnType<typeof createApiKeys>

/** Maximum time that a revoked key still works. */
const CACHE_MS = 1_000
const CACHED_KEYS = 10_000
const LAST_USED_EVERY_MS = 60_000

/** The keys of all organizations, stored as SHA-256 in Redis (`key:<sha256>`). */
export function createApiKeys (redis: Redis, now: () => number = Date.now) {
  const deps: KeyDeps = { store: createKeyStore(redis), records: recordCache(), now }
  const usedAt = new LRUCache<string, number>({ max: CACHED_KEYS })

  return {
    create: (key: NewKey) => createKey(deps, key),

    /** Revokes a key, everywhere within a second; false if it does not exist. */
    revoke: (orgId: string, keyId: string) => revokeKey(deps, orgId, keyId),

    /** Finds the owner of a secret. Reads Redis at most once a second; stores no secret. */
    async findKey (secret: string): Promise<KeyLookup> {
      if (secret === '') return { kind: 'missing' }
      const hash = hashOf(secret)
      if (!isWellFormed(secret)) return { kind: 'invalid' }
      const record = await recordOf(deps, hash)
      if (record === undefined) return { kind: 'invalid' }
      const reason = inactiveReason(record, now())
      if (reason !== undefined) return { kind: reason }
      recordUse(deps, usedAt, record)
      return { kind: 'ok', key: callerOf(record) }
    },

    /** All keys of an organization, newest last, without their secrets. */
    async list (orgId: string): Promise<KeySummary[]> {
      const records = await deps.store.list(orgId)
      return records.map(({ orgId: _orgId, hash: _hash, ...summary }) => summary)
    },

    /**
     * Creates a key like an old one, which stays valid for `graceMs`. The successor of a key that
     * expires has the same lifetime. Returns undefined if the key does not exist, or is revoked or
     * expired.
     */
    async roll (orgId: string, keyId: string, graceMs: number): Promise<CreatedKey | undefined> {
      const old = await recordById(deps.store, orgId, keyId)
      if (old === undefined || inactiveReason(old, now()) !== undefined) return undefined
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

/** The dependencies of key operations. */
type KeyDeps = {
  readonly store: KeyStore
  /** Cache of keys. */
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

async function createKey ({ store, now }: KeyDeps, key: NewKey): Promise<CreatedKey> {
  const secret = newApiKey(key.mode)
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

function recordUse (
  { store, now }: KeyDeps, usedAt: LRUCache<string, number>, record: KeyRecord
): void {
  const last = usedAt.get(record.hash) ?? record.lastUsedAtMs
  if (now() - last < LAST_USED_EVERY_MS) return
  usedAt.set(record.hash, now())
  // Not awaited; a lost update is repeated a minute later.
  store.recordUse(record.hash, now()).catch(() => usedAt.delete(record.hash))
}

/** Why a key is not valid; undefined if it is. */
function inactiveReason (record: KeyRecord, nowMs: number): 'revoked' | 'expired' | undefined {
  if (record.revokedAtMs !== 0) return 'revoked'
  return record.expiresAtMs !== 0 && record.expiresAtMs <= nowMs ? 'expired' : undefined
}

/** The grace period never extends the life of a key that expires earlier. */
function graceEndMs (old: KeyRecord, endsAtMs: number): number {
  return old.expiresAtMs === 0 ? endsAtMs : Math.min(old.expiresAtMs, endsAtMs)
}

function callerOf ({ id, orgId, mode, scopes }: KeyRecord): Caller {
  return { org: orgId, tenant: tenantOf(orgId, mode), mode, scopes, keyId: id }
}
