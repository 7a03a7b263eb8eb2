import { createHash, randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { LRUCache } from 'lru-cache'
import {
  parseNetworks, plainAddress, wholeNetwork, type Networks,
} from '../runtime/platform/networks.ts'
import type { RedisClient } from '../runtime/platform/redis.ts'
import { createOrganizations } from './organizations.ts'
import {
  accountKey, ACCOUNTS_CACHE_MS, ACCOUNTS_KEY, createAccountRecords, keysOfOrganization,
} from './records.ts'
import { isMode, tenantOf, type Mode } from './tenant.ts'

/** The permissions of keys. */
export const SCOPES =
  ['jobs:write', 'jobs:read', 'results:read', 'usage:read', 'webhooks:write'] as const

export type Scope = typeof SCOPES[number]

/** The scopes of a key for which none are chosen; they include all others. */
export const DEFAULT_SCOPES = ['jobs:write', 'jobs:read'] as const

/** The broader scope that includes a narrower one. */
const INCLUDED_IN: Readonly<Partial<Record<Scope, Scope>>> = {
  'results:read': 'jobs:read', 'usage:read': 'jobs:read', 'webhooks:write': 'jobs:write',
}

/** A scope, and the broader one that includes it. */
export const scopesThatAllow = (scope: Scope): readonly Scope[] =>
  [scope, ...INCLUDED_IN[scope] === undefined ? [] : [INCLUDED_IN[scope]]]

/** Whether a key with these scopes has one, by itself or in a broader one. */
export const hasScope = (scopes: readonly Scope[], wanted: Scope): boolean =>
  scopesThatAllow(wanted).some(scope => scopes.includes(scope))

/** The id of all keys that the workspace page makes for itself. */
export const WORKSPACE_KEY = 'workspace'

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
  | { readonly kind: 'missing' | 'invalid' | 'expired' | 'revoked' | 'foreign_address' }

export type NewKey = {
  readonly orgId: string
  readonly mode: Mode
  readonly scopes: readonly Scope[]
  /** Up to 100 characters. */
  readonly name?: string
  /** Who asked for it, such as 'operator'. */
  readonly createdBy?: string
  /** IP addresses and networks that may use it; all by default. */
  readonly networks?: readonly string[]
  /** At most as far away as the policy `keyDays` allows, which also is its default. */
  readonly expiresAtMs?: number
}

type Rolling = { readonly graceMs: number, readonly createdBy: string }

/** A value of a new key that is not allowed; the message says what is. */
export class NewKeyError extends Error {
  override readonly name = 'NewKeyError'
}

/** A new key; its secret is shown only once. */
export type CreatedKey = {
  readonly id: string
  readonly secret: string
  /** 0 for never. */
  readonly expiresAtMs: number
}

/** The key that replaces an old one, and until when the old one works. */
export type RolledKey = CreatedKey & { readonly oldExpiresAtMs: number }

/** A key without its secret and hash. */
export type KeySummary = Omit<KeyRecord, 'orgId' | 'hash'>

export type ApiKeys = ReturnType<typeof createApiKeys>

const CACHED_KEYS = 10_000
const LAST_USED_EVERY_MS = 60_000
const DAY_MS = 86_400_000
const MAX_NAME_CHARACTERS = 100
const MAX_NETWORKS = 20

/** The keys of all organizations, stored as SHA-256 in Redis (`key:<sha256>`). */
export function createApiKeys (redis: RedisClient, now: () => number = Date.now) {
  const organizations = createOrganizations(redis, now)
  const maxDays = async (orgId: string) => (await organizations.find(orgId))?.policy.keyDays
  const deps: KeyDeps = { store: createKeyStore(redis), records: recordCache(), now, maxDays }
  const usedAt = new LRUCache<string, number>({ max: CACHED_KEYS })

  return {
    /** @throws NewKeyError for a name, network or expiry that is not allowed. */
    async create (key: NewKey): Promise<CreatedKey> {
      checkNewKey(key)
      return await createKey(deps, key)
    },

    /** Revokes a key, everywhere within a second; false if it does not exist. */
    revoke: (orgId: string, keyId: string) => revokeKey(deps, orgId, keyId),

    /** Revokes all keys of an erased organization, and forgets their names and creators. */
    async revokeAll (orgId: string): Promise<void> {
      const { store, records } = deps
      for (const { hash, revokedAtMs, name, createdBy } of await store.list(orgId)) {
        if (revokedAtMs !== 0 && name === '' && createdBy === '') continue
        const revokedAt = String(revokedAtMs || now())
        await store.change(hash, { revokedAt, name: '', createdBy: '' })
        records.delete(hash)
      }
    },

    /**
     * Finds the owner of a secret that came from an address. All keys of an erased organization are
     * revoked, those of the workspace page too, which no list has. Reads Redis at most once a
     * second; stores no secret.
     */
    async findKey (secret: string, address: string): Promise<KeyLookup> {
      if (secret === '') return { kind: 'missing' }
      const hash = hashSecret(secret)
      if (!isWellFormed(secret)) return { kind: 'invalid' }
      const key = await findRecord(deps, hash)
      if (key === undefined) return { kind: 'invalid' }
      const { record, allowed } = key
      const reason = inactiveReason(record, now())
      if (reason !== undefined) return { kind: reason }
      if (await organizations.isErased(record.orgId)) return { kind: 'revoked' }
      const from = plainAddress(address)
      if (allowed?.has(from) === false) return { kind: 'foreign_address' }
      recordUse(deps, usedAt, { record, from })
      const { id, orgId, mode, scopes } = record
      return {
        kind: 'ok', key: { org: orgId, tenant: tenantOf(orgId, mode), mode, scopes, keyId: id },
      }
    },

    /** Those of these hashes of secrets that are of keys, valid or not; one read of Redis. */
    async findExisting (hashes: readonly string[]): Promise<ReadonlySet<string>> {
      const existing = await redis.smismember(ACCOUNTS_KEY, ...hashes.map(recordName))
      return new Set(hashes.filter((_hash, at) => existing[at] === 1))
    },

    /** All keys of an organization, newest last, without their secrets. */
    list: async (orgId: string): Promise<KeySummary[]> => (await deps.store.list(orgId))
      .map(({ orgId: _orgId, hash: _hash, ...summary }) => summary),

    /**
     * Creates a key like an old one, which stays valid for `graceMs`. The successor of a key that
     * expires has the same lifetime. Returns undefined if the key does not exist, or is revoked or
     * expired.
     */
    roll: (orgId: string, keyId: string, how: Rolling) => rollKey(deps, { orgId, keyId }, how),
  }
}

/** A key, and the addresses that may use it; undefined if all may. */
type CheckedKey = { readonly record: KeyRecord, readonly allowed: Networks | undefined }

const recordCache = () =>
  new LRUCache<string, { readonly readAtMs: number } & CheckedKey>({ max: CACHED_KEYS })

/** The dependencies of key operations. */
type KeyDeps = {
  readonly store: KeyStore
  /** Cache of keys. */
  readonly records: ReturnType<typeof recordCache>
  readonly now: () => number
  /** The longest lifetime of a key of an organization, in days, if it has one. */
  readonly maxDays: (orgId: string) => Promise<number | undefined>
}

async function findRecord (
  { store, records, now }: KeyDeps, hash: string
): Promise<CheckedKey | undefined> {
  const cached = records.get(hash)
  if (cached !== undefined && now() - cached.readAtMs < ACCOUNTS_CACHE_MS) return cached
  const readAtMs = now()
  const record = await store.read(hash)
  if (record === undefined) return undefined
  const { networks } = record
  const checked = { record, allowed: networks.length === 0 ? undefined : parseNetworks(networks) }
  records.set(hash, { readAtMs, ...checked })
  return checked
}

async function recordById (store: KeyStore, orgId: string, keyId: string) {
  return (await store.list(orgId)).find(record => record.id === keyId)
}

async function createKey (deps: KeyDeps, key: NewKey): Promise<CreatedKey> {
  const { orgId, mode, scopes, createdBy = '', networks = [] } = key
  const name = (key.name ?? '').trim()
  const expiresAtMs = await decideExpiry(deps, key)
  const secret = newApiKey(mode)
  const id = await deps.store.add({
    orgId,
    mode,
    scopes,
    name,
    createdBy,
    networks,
    hash: hashSecret(secret),
    last4: secret.slice(-4),
    createdAtMs: deps.now(),
    expiresAtMs,
  })
  return { id, secret, expiresAtMs }
}

/** A key that replaces another keeps its values, which were allowed when it was created. */
function checkNewKey ({ name = '', networks = [] }: NewKey): void {
  const { length } = name.trim()
  if (length > MAX_NAME_CHARACTERS) {
    throw new NewKeyError(`The name has ${length} characters; use at most ` +
      `${MAX_NAME_CHARACTERS}.`)
  }
  if (networks.length > MAX_NETWORKS) {
    throw new NewKeyError(`There are ${networks.length} networks; use at most ${MAX_NETWORKS}.`)
  }
  const wrong = networks.find(network => !isNetwork(network))
  if (wrong !== undefined) {
    throw new NewKeyError(`"${wrong}" is not an IP address or network: use one like 192.0.2.7, ` +
      '192.0.2.0/24 or 2001:db8::/32.')
  }
  const partial = networks.find(network => wholeNetwork(network) !== network)
  if (partial !== undefined) {
    const [address] = partial.split('/')
    throw new NewKeyError(`"${partial}" is an address within a network: use ` +
      `${wholeNetwork(partial)} for the network, or ${address} for the address.`)
  }
}

function isNetwork (text: string): boolean {
  try {
    parseNetworks([text])
    return true
  } catch {
    return false
  }
}

/** When a new key expires; 0 for never. */
async function decideExpiry (
  { now, maxDays }: KeyDeps, { orgId, expiresAtMs = 0 }: NewKey
): Promise<number> {
  if (expiresAtMs !== 0 && expiresAtMs <= now()) {
    throw new NewKeyError(`The key would expire at ${new Date(expiresAtMs).toISOString()}, which ` +
      'is in the past. Choose a later time.')
  }
  const days = await maxDays(orgId)
  if (days === undefined) return expiresAtMs
  const latestMs = now() + days * DAY_MS
  if (expiresAtMs > latestMs) {
    throw new NewKeyError(`The key would expire after more than ${days} days, the longest ` +
      'lifetime that this organization allows. Choose an earlier time.')
  }
  return expiresAtMs === 0 ? latestMs : expiresAtMs
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

async function rollKey (
  deps: KeyDeps, { orgId, keyId }: { readonly orgId: string, readonly keyId: string },
  how: Rolling
): Promise<RolledKey | undefined> {
  const { now, maxDays } = deps
  const old = await recordById(deps.store, orgId, keyId)
  if (old === undefined || inactiveReason(old, now()) !== undefined) return undefined
  const { expiresAtMs } = old
  const lifetimeMs = await remainingLifetime(deps.store, old)
  const longestMs = (await maxDays(orgId) ?? Infinity) * DAY_MS
  const endsAtMs = now() + Math.min(lifetimeMs, longestMs)
  const { expiresAtMs: _old, ...same } = old
  const fresh = await createKey(deps, {
    ...same, createdBy: how.createdBy, ...endsAtMs !== Infinity && { expiresAtMs: endsAtMs },
  })
  // The grace period never extends the life of a key that expires earlier.
  const oldExpiresAtMs = Math.min(expiresAtMs || Infinity, now() + how.graceMs)
  await deps.store.change(old.hash, {
    expiresAt: String(oldExpiresAtMs), replacedBy: fresh.id,
  })
  deps.records.delete(old.hash)
  return { ...fresh, oldExpiresAtMs }
}

/** The expiry of a replaced key ends its grace period; its successors have its lifetime. */
async function remainingLifetime (store: KeyStore, key: KeyRecord): Promise<number> {
  const successor = key.replacedBy === ''
    ? undefined
    : await recordById(store, key.orgId, key.replacedBy)
  if (successor !== undefined) return await remainingLifetime(store, successor)
  return key.expiresAtMs === 0 ? Infinity : key.expiresAtMs - key.createdAtMs
}

function recordUse (
  { store, now }: KeyDeps, usedAt: LRUCache<string, number>,
  { record, from }: { readonly record: KeyRecord, readonly from: string }
): void {
  const last = usedAt.get(record.hash) ?? record.lastUsedAtMs
  if (now() - last < LAST_USED_EVERY_MS) return
  usedAt.set(record.hash, now())
  // Not awaited; a lost update is repeated a minute later.
  store.recordUse(record.hash, { atMs: now(), from }).catch(() => usedAt.delete(record.hash))
}

/** Why a key is not valid; undefined if it is. */
function inactiveReason (record: KeyRecord, nowMs: number): 'revoked' | 'expired' | undefined {
  if (record.revokedAtMs !== 0) return 'revoked'
  return record.expiresAtMs !== 0 && record.expiresAtMs <= nowMs ? 'expired' : undefined
}

/** A stored key; a time of 0 means never. */
type KeyRecord = {
  readonly id: string
  readonly hash: string
  readonly orgId: string
  readonly mode: Mode
  readonly scopes: readonly Scope[]
  /**
   * What the customer calls it, and who created it; '' for keys of older releases, and once its
   * organization is erased.
   */
  readonly name: string
  readonly createdBy: string
  /** IP addresses and networks that may use it; all if there are none. */
  readonly networks: readonly string[]
  readonly last4: string
  readonly createdAtMs: number
  readonly expiresAtMs: number
  /** The id of the key that replaces it until it expires; '' if it was not rolled. */
  readonly replacedBy: string
  readonly revokedAtMs: number
  readonly lastUsedAtMs: number
  /** The address of its last use; '' if it was not used. */
  readonly lastUsedFrom: string
}

type NewRecord =
  Omit<KeyRecord, 'id' | 'replacedBy' | 'revokedAtMs' | 'lastUsedAtMs' | 'lastUsedFrom'>

type KeyStore = ReturnType<typeof createKeyStore>

const recordName = (hash: string) => `key:${hash}`

/** The keys in Redis: a record `key:<sha256>` each, listed by organization. */
function createKeyStore (redis: RedisClient) {
  const records = createAccountRecords(redis)
  return {
    /** @throws AccountsRecoveringError while a change of the key may be missing. */
    read: async (hash: string): Promise<KeyRecord | undefined> =>
      parseRecord(hash, (await records.readCurrent(recordName(hash)))?.fields ?? {}),

    /** Stores a new key and returns its id, which is safe to show. */
    async add (record: NewRecord): Promise<string> {
      const { hash, orgId, mode, scopes, name, createdBy, networks } = record
      const fields = {
        org: orgId,
        mode,
        scopes: scopes.join(' '),
        name,
        createdBy,
        networks: networks.join(' '),
        last4: record.last4,
        createdAt: String(record.createdAtMs),
        expiresAt: String(record.expiresAtMs),
      }
      await records.change({ name: recordName(hash), fields, from: 0, random: true })
      return publicId(hash)
    },

    async change (hash: string, fields: Readonly<Record<string, string>>): Promise<void> {
      await records.change({ name: recordName(hash), fields })
    },

    /** Records the last use of a key, which does not change its revision. */
    async recordUse (
      hash: string, use: { readonly atMs: number, readonly from: string }
    ): Promise<void> {
      const fields = { lastUsedAt: String(use.atMs), lastUsedFrom: use.from }
      await redis.hset(accountKey(recordName(hash)), fields)
    },

    /** The keys of an organization in the order they were made. */
    async list (orgId: string): Promise<KeyRecord[]> {
      const hashes = await redis.zrange(keysOfOrganization(orgId), '0', '-1')
      const keys = await Promise.all(hashes.map(async hash =>
        parseRecord(hash, (await records.read(recordName(hash)))?.fields ?? {})))
      return keys.filter(record => record !== undefined)
    },
  }
}

function publicId (hash: string): string {
  return `key_${hash.slice(0, 16)}`
}

function parseRecord (
  hash: string, fields: Readonly<Record<string, string>>
): KeyRecord | undefined {
  const { org, mode } = fields
  if (org === undefined || mode === undefined || !isMode(mode)) return undefined
  const time = (name: string) => Number(fields[name] ?? 0)
  return {
    // Only the short-lived keys of the workspace page say what they are.
    id: fields.id ?? publicId(hash),
    hash,
    orgId: org,
    mode,
    scopes: SCOPES.filter(scope => (fields.scopes ?? '').split(' ').includes(scope)),
    name: fields.name ?? '',
    createdBy: fields.createdBy ?? '',
    networks: (fields.networks ?? '').split(' ').filter(network => network !== ''),
    last4: fields.last4 ?? '',
    createdAtMs: time('createdAt'),
    expiresAtMs: time('expiresAt'),
    replacedBy: fields.replacedBy ?? '',
    revokedAtMs: time('revokedAt'),
    lastUsedAtMs: time('lastUsedAt'),
    lastUsedFrom: fields.lastUsedFrom ?? '',
  }
}

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const RANDOM_CHARACTERS = 30
const CHECKSUM_CHARACTERS = 6
const LAYOUT = /^(vj_(live|test)_[0-9A-Za-z]{30})([0-9A-Za-z]{6})$/

/** Creates a secret of 178 random bits; `randomInt` is unbiased. */
export function newApiKey (mode: Mode): string {
  const random = Array.from({ length: RANDOM_CHARACTERS }, () => BASE62[randomInt(BASE62.length)])
  const body = `vj_${mode}_${random.join('')}`
  return body + checksum(body)
}

/**
 * Checks the layout and checksum of a key. Rejects garbage without a read of the store, and lets
 * secret scanners recognize keys.
 */
export function isWellFormed (secret: string): boolean {
  const match = LAYOUT.exec(secret)
  return match !== null && checksum(match[1] ?? '') === match[3]
}

/** The stored hash of a key. A fast hash is enough, as a key cannot be guessed. */
export function hashSecret (secret: string): string {
  return createHash('sha256').update(secret).digest('hex')
}

function checksum (text: string): string {
  let rest = crc32(text)
  let digits = ''
  while (digits.length < CHECKSUM_CHARACTERS) {
    digits = `${BASE62[rest % BASE62.length]}${digits}`
    rest = Math.floor(rest / BASE62.length)
  }
  return digits
}
