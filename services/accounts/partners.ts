import { randomBytes } from 'node:crypto'
import { deriveKeyId, textOfPartnerKey } from '../../schemas/feeds/seal.ts'
import type { OrganizationKeys } from './organization-keys.ts'
import {
  type Wrapped, accountKey, createAccountRecords, PARTNERS_KEY, type AccountRecords,
} from './records.ts'
import { type RedisClient, script } from '../runtime/platform/redis.ts'
import { isMode, tenantOf, type Mode } from './tenant.ts'

/**
 * Whether true, false and numbers are such in the results of a partner, as in JSON results, or all
 * of them texts, as for partners that were registered before there was a choice.
 */
export const FEED_TYPES = ['json', 'text'] as const

export type FeedTypes = typeof FEED_TYPES[number]

/** A customer that sends contacts in bulk through its own topics. */
export type Partner = {
  readonly name: string
  readonly orgId: string
  readonly tenant: string
  readonly mode: Mode
  /** Unit prices in USD micros that differ from the price list, by service. */
  readonly pricesMicros: Readonly<Record<string, number>>
  readonly partitions: number
  readonly types: FeedTypes
  readonly createdAtMs: number
  /** 0 while it is active. */
  readonly revokedAtMs: number
  /** Oldest first; the newest one does not expire. */
  readonly keys: readonly PartnerKey[]
}

/** The metadata of a partner's key. */
export type PartnerKey = {
  /** 8 hexadecimal digits, part of every seal by the key. */
  readonly id: string
  readonly createdAtMs: number
  /** 0: never. */
  readonly expiresAtMs: number
}

export type NewPartner =
  Pick<Partner, 'name' | 'orgId' | 'mode' | 'pricesMicros' | 'partitions'> & {
    /** True for a random name. */
    readonly random?: boolean
  }

export type Partners = ReturnType<typeof createPartners>

type Options = {
  readonly redis: RedisClient
  readonly keys: OrganizationKeys
  readonly now?: () => number
}
/** `wrapped`: base64. */
type StoredKey = PartnerKey & { readonly wrapped: string }
type Stored = Omit<Partner, 'tenant' | 'keys' | 'types'> & {
  readonly keys: readonly StoredKey[]
  /** Undefined for text. */
  readonly types?: FeedTypes
}
type Context = Options & { readonly now: () => number, readonly records: AccountRecords }

const KEY_BYTES = 32
const NAME = /^[a-z0-9][a-z0-9-]{0,62}$/
const recordName = (name: string) => `partner:${name}`
const buildAad = (name: string, keyId: string) => ['partner-key', name, keyId]

const VERSION = `
local revisions = {}
for index, name in ipairs(redis.call('SMEMBERS', KEYS[1])) do
  local revision = redis.call('HGET', '${accountKey('partner:')}' .. name, 'revision')
  revisions[index] = name .. ' ' .. (revision or '')
end
table.sort(revisions)
return redis.sha1hex(table.concat(revisions, '\\n'))`

/**
 * The registered partners of bulk feeds, in Redis as `partner:<name>`, their keys wrapped by the
 * key of their organization. A name is never reused, as its topics hold data of its first owner.
 */
export function createPartners ({ redis, keys, now = Date.now }: Options) {
  const context = { redis, keys, now, records: createAccountRecords(redis) }
  const read = async (name: string) => (await readStored(context, name))?.stored
  const version = script(redis, { name: 'partners-version', source: VERSION, numberOfKeys: 1 })
  return {
    /** Registers a partner; its key is shown only here. Undefined if the name is taken. */
    async create (
      { random = false, ...partner }: NewPartner
    ): Promise<{ readonly key: string } | undefined> {
      checkName(partner.name)
      const { key, stored: first } = await newKey(context, partner)
      const stored: Stored = {
        ...partner, types: 'json', createdAtMs: now(), revokedAtMs: 0, keys: [first],
      }
      const isMade = await write(context, stored, { from: 0, random })
      return isMade ? { key: textOfPartnerKey(key) } : undefined
    },

    /**
     * Creates a new key, which is shown only here; the others expire after `graceMs` at the latest.
     * Undefined if the partner does not exist.
     */
    rotate: (name: string, graceMs: number) => rotateKey(context, name, graceMs),

    /** Stops accepting contacts of a partner; pending results are still delivered. */
    async revoke (name: string): Promise<boolean> {
      const after = await change(context, name, stored =>
        ({ ...stored, revokedAtMs: stored.revokedAtMs || now() }))
      return after !== undefined
    },

    /** Changes the form of results. Resolves to false if the partner does not exist. */
    async setTypes (name: string, types: FeedTypes): Promise<boolean> {
      return await change(context, name, stored => ({ ...stored, types })) !== undefined
    },

    list: () => readPartners(redis, now()),

    /** A text that changes with every change of a partner: cheaper than to list all. */
    version: async () => String(await version([PARTNERS_KEY], [])),

    async find (name: string): Promise<Partner | undefined> {
      const stored = await read(name)
      return stored === undefined ? undefined : toPartner(stored, now())
    },

    /** The wrapped keys of all partners. */
    wrapped: () => wrappedKeys(context),

    /**
     * The keys that have not expired, oldest first. Each opens contacts. The oldest seals results,
     * so that clients without the newer keys can read them until their key expires.
     */
    keysOf: (name: string) => readKeys(context, name),
  }
}

/** All partners by name, revoked ones included. */
export async function readPartners (redis: RedisClient, nowMs = Date.now()): Promise<Partner[]> {
  const records = createAccountRecords(redis)
  const names = await redis.smembers(PARTNERS_KEY)
  const registrations =
    await Promise.all(names.toSorted().map(name => readStored({ records }, name)))
  return registrations.flatMap(registration =>
    registration === undefined ? [] : [toPartner(registration.stored, nowMs)])
}

async function readKeys (
  context: Context, name: string
): Promise<PartnerKeys | undefined> {
  const stored = (await readStored(context, name))?.stored
  if (stored === undefined) return undefined
  const [oldest, ...newer] = await Promise.all(unexpired(stored, context.now()).map(
    ({ id, wrapped }) => context.keys.unwrap(
      stored.orgId, Buffer.from(wrapped, 'base64'), buildAad(name, id))))
  if (oldest === undefined) throw new Error(`partner ${name} has no unexpired key`)
  return [oldest, ...newer]
}

/** At least one. */
export type PartnerKeys = readonly [oldest: Buffer, ...newer: Buffer[]]

/** Throws RangeError for a name that is not valid in the name of a topic. */
export function checkName (name: string): void {
  if (NAME.test(name)) return
  throw new RangeError(`partner name "${name}" is invalid; use 1 to 63 lowercase letters, digits ` +
    'and dashes, not starting with a dash')
}

async function newKey (
  { keys, now }: Context, { name, orgId }: Pick<Partner, 'name' | 'orgId'>
): Promise<{ readonly key: Buffer, readonly stored: StoredKey }> {
  const key = randomBytes(KEY_BYTES)
  const id = deriveKeyId(key)
  const wrapped = await keys.wrap(orgId, key, buildAad(name, id))
  return {
    key,
    stored: { id, createdAtMs: now(), expiresAtMs: 0, wrapped: wrapped.toString('base64') },
  }
}

async function rotateKey (
  context: Context, name: string, graceMs: number
): Promise<{ readonly key: string, readonly keys: readonly PartnerKey[] } | undefined> {
  const { now } = context
  const before = (await readStored(context, name))?.stored
  if (before === undefined) return undefined
  const { key, stored: fresh } = await newKey(context, before)
  const endsAtMs = now() + graceMs
  const after = await change(context, name, stored => ({
    ...stored, keys: [...unexpired(stored, now()).map(endingAt(endsAtMs)), fresh],
  }))
  if (after === undefined) return undefined
  return { key: textOfPartnerKey(key), keys: unexpired(after, now()).map(withoutKey) }
}

function unexpired ({ keys }: Stored, nowMs: number): readonly StoredKey[] {
  return keys.filter(({ expiresAtMs }) => expiresAtMs === 0 || expiresAtMs > nowMs)
}

/** Keeps the expiry of a key that expires earlier. */
const endingAt = (endsAtMs: number) => (key: StoredKey): StoredKey =>
  ({ ...key, expiresAtMs: Math.min(key.expiresAtMs || Infinity, endsAtMs) })

/** Changes a registration with optimistic locking; undefined if it does not exist. */
async function change (
  context: Context, name: string, changed: (stored: Stored) => Stored
): Promise<Stored | undefined> {
  for (;;) {
    const before = await readStored(context, name)
    if (before === undefined) return undefined
    const after = changed(before.stored)
    if (await write(context, after, { from: before.revision })) return after
  }
}

/** Resolves to false if the registration has another revision by now. */
function write (
  { records }: Context, stored: Stored,
  how: { readonly from: number, readonly random?: boolean }
): Promise<boolean> {
  const fields = { registration: JSON.stringify(stored) }
  return records.change({ ...how, name: recordName(stored.name), fields })
}

async function wrappedKeys (context: Context): Promise<Wrapped[]> {
  const names = await context.redis.smembers(PARTNERS_KEY)
  const boxes = await Promise.all(names.map(async name => {
    const { keys = [], orgId = '' } = (await readStored(context, name))?.stored ?? {}
    return keys.map(({ id, wrapped }): Wrapped => ({
      orgId,
      pieces: [{
        class: 'partners', bytes: Buffer.from(wrapped, 'base64'), binding: buildAad(name, id),
      }],
      replace: ([fresh]) => replaceKey(context, { name, wrapped, fresh }),
    }))
  }))
  return boxes.flat()
}

/** Resolves to false if the key was changed or removed by now. */
async function replaceKey (
  context: Context,
  { name, wrapped, fresh }:
  { readonly name: string, readonly wrapped: string, readonly fresh: Buffer }
): Promise<boolean> {
  const by = fresh.toString('base64')
  const after = await change(context, name, stored => ({
    ...stored,
    keys: stored.keys.map(key => key.wrapped === wrapped ? { ...key, wrapped: by } : key),
  }))
  return after?.keys.some(key => key.wrapped === by) === true
}

async function readStored (
  { records }: Pick<Context, 'records'>, name: string
): Promise<{ readonly revision: number, readonly stored: Stored } | undefined> {
  const { revision = 0, fields = {} } = await records.read(recordName(name)) ?? {}
  const text = fields['registration']
  return text === undefined ? undefined : { revision, stored: JSON.parse(text) as Stored }
}

function withoutKey ({ wrapped: _wrapped, ...key }: StoredKey): PartnerKey {
  return key
}

function toPartner (stored: Stored, nowMs: number): Partner {
  if (!isMode(stored.mode)) throw new Error(`partner ${stored.name} has no mode`)
  const keys = unexpired(stored, nowMs).map(withoutKey)
  const { types = 'text' } = stored
  return { ...stored, tenant: tenantOf(stored.orgId, stored.mode), types, keys }
}
