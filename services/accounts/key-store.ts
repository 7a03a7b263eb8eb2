import { accountKey, createAccountRecords, keysOfOrganization } from './records.ts'
import { isMode, type Mode } from './tenant.ts'
import { createHash, randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { RedisClient } from '../runtime/platform/redis.ts'

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

/** A stored key; a time of 0 means never. */
export type KeyRecord = {
  readonly id: string
  readonly hash: string
  readonly orgId: string
  readonly mode: Mode
  readonly scopes: readonly Scope[]
  /** What the customer calls it, and who created it; '' for keys of older releases. */
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

export type KeyStore = ReturnType<typeof createKeyStore>

const keyOf = (hash: string) => `key:${hash}`

/** The keys in Redis: a record `key:<sha256>` each, listed by organization. */
export function createKeyStore (redis: RedisClient) {
  const records = createAccountRecords(redis)
  return {
    /** @throws AccountsRecoveringError while a change of the key may be missing. */
    read: async (hash: string): Promise<KeyRecord | undefined> =>
      recordOf(hash, (await records.readCurrent(keyOf(hash)))?.fields ?? {}),

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
      await records.change({ name: keyOf(hash), fields, from: 0, random: true })
      return idOf(hash)
    },

    async change (hash: string, fields: Readonly<Record<string, string>>): Promise<void> {
      await records.change({ name: keyOf(hash), fields })
    },

    /** Records the last use of a key, which does not change its revision. */
    async recordUse (
      hash: string, use: { readonly atMs: number, readonly from: string }
    ): Promise<void> {
      const fields = { lastUsedAt: String(use.atMs), lastUsedFrom: use.from }
      await redis.hset(accountKey(keyOf(hash)), fields)
    },

    /** The keys of an organization in the order they were made. */
    async list (orgId: string): Promise<KeyRecord[]> {
      const hashes = await redis.zrange(keysOfOrganization(orgId), '0', '-1')
      const found = await Promise.all(hashes.map(async hash =>
        recordOf(hash, (await records.read(keyOf(hash)))?.fields ?? {})))
      return found.filter(record => record !== undefined)
    },
  }
}

function idOf (hash: string): string {
  return `key_${hash.slice(0, 16)}`
}

function recordOf (hash: string, fields: Readonly<Record<string, string>>): KeyRecord | undefined {
  const { org, mode } = fields
  if (org === undefined || mode === undefined || !isMode(mode)) return undefined
  const time = (name: string) => Number(fields[name] ?? 0)
  return {
    id: fields.id ?? idOf(hash),
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
export function hashOf (secret: string): string {
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
