import type { Binding } from '../runtime/crypto/seal.ts'
import { InfrastructureError } from '../runtime/platform/errors.ts'
import { globalKey, type RedisClient, RUN_ID_LUA, script } from '../runtime/platform/redis.ts'
import { retry, sleep } from '../runtime/platform/retry.ts'
import type { KeyClass } from '../topology.ts'
import { MODES, tenantOf } from './tenant.ts'

/**
 * A stored organization, its contact lists, API key or partner, with the name `org:<id>`,
 * `lists:<id>`, `key:<sha256>` or `partner:<name>`: a Redis hash. Its field `revision` grows with
 * every change.
 */
export type AccountRecord = {
  readonly revision: number
  readonly fields: Readonly<Record<string, string>>
}

export type AccountRecords = ReturnType<typeof createAccountRecords>

/** The Redis key of the record with a name. */
export const accountKey = globalKey

/** The name of the record of an organization. */
export const organizationRecord = (orgId: string): string => `org:${orgId}`

/** Set of the names of all account records. */
export const ACCOUNTS_KEY = globalKey('accounts')
/** Set of the names whose last change the topic `accounts` has not acknowledged. */
export const ACCOUNTS_OUTBOX_KEY = globalKey('accounts:outbox')
/** Set of the names that a restore has not read in the topic; only while one runs. */
export const ACCOUNTS_UNREAD_KEY = globalKey('accounts:unread')
/** String: the run of the server in which the records were compared with the topic. */
export const ACCOUNTS_RUN_KEY = globalKey('accounts:run')
/** Set of the tenants of all organizations. */
export const ORGANIZATION_TENANTS_KEY = globalKey('tenants')
/** Set of the names of all partners. */
export const PARTNERS_KEY = globalKey('partners')
/** Sorted set of the hashes of an organization's API keys, by creation time. */
export const keysOfOrganization = (orgId: string) => globalKey(`org:${orgId}:keys`)
/** Set of the organizations that may have a person with this digest. */
export const organizationsOfPerson = (digest: string) => globalKey(`people:${digest}`)

/** Field of `org:<id>`: the digests of its people, as JSON. `ledger` copies it without a key. */
export const PEOPLE_INDEX_FIELD = 'peopleIndex'

/** The keys of all sets that list an organization with this field; none for an absent one. */
export const indexKeysIn = (field = '[]'): readonly string[] =>
  (JSON.parse(field) as readonly string[]).map(organizationsOfPerson)

/** Redis has just started and may lack changes of accounts: retry later. */
export class AccountsRecoveringError extends InfrastructureError {
  constructor (name: string, cause?: unknown) {
    super(`account record ${withoutHash(name)} is locked until the leader of ledger has restored ` +
      'accounts from topic accounts after the restart of Redis; if this lasts, check that a ' +
      'ledger is running', { cause })
  }
}

/** The name for logs, which contain no hashes of API keys. */
const withoutHash = (name: string) => name.replace(/^(key:.{8}).*/, '$1...')

/** How long a process may use what it read of a record. */
export const ACCOUNTS_CACHE_MS = 1_000

/**
 * Runs a script that refuses with RECOVERING while accounts are locked.
 * @throws AccountsRecoveringError then.
 */
export async function unlessLocked<T> (name: string, run: () => Promise<T>): Promise<T> {
  try {
    return await run()
  } catch (error) {
    const isRecovering = error instanceof Error && error.message.startsWith('RECOVERING')
    throw isRecovering ? new AccountsRecoveringError(name, error) : error
  }
}

const SHIPPED_WITHIN_MS = 5_000
const LEADER_POLL_MS = 100
const TRIES = 8
const MAX_PAUSE_MS = 2_000

/**
 * A script that reads a record, with whether it is current: compared with the topic in this run of
 * the server, or created in it under a random name, which cannot have an older record.
 */
const readScript = (command: string) => `
local run = ${RUN_ID_LUA}
local isCurrent = redis.call('HGET', KEYS[1], 'madeIn') == run or redis.call('GET', KEYS[2]) == run
return { isCurrent and 1 or 0, redis.call(${command}) }`

const READ = readScript("'HGETALL', KEYS[1]")

/** ARGV: the fields to read. */
const READ_FIELDS = readScript("'HMGET', KEYS[1], unpack(ARGV)")

/** Blank while accounts may be missing. */
const CURRENT_RUN = `
local run = ${RUN_ID_LUA}
return redis.call('GET', KEYS[1]) == run and run or ''`

/** ARGV: name, the expected revision or '', 1 for a random name, then fields and values. */
const CHANGE = `
local run = ${RUN_ID_LUA}
local current = redis.call('HMGET', KEYS[1], 'revision', 'madeIn')
local isNew = ARGV[3] == '1' and not current[1]
if not isNew and current[2] ~= run and redis.call('GET', KEYS[4]) ~= run then
  return redis.error_reply(
    'RECOVERING accounts are locked until ledger has restored them from topic accounts')
end
if ARGV[2] ~= '' and ARGV[2] ~= (current[1] or '0') then
  return 0
end
if isNew then
  redis.call('HSET', KEYS[1], 'madeIn', run)
end
redis.call('HSET', KEYS[1], unpack(ARGV, 4))
redis.call('HINCRBY', KEYS[1], 'revision', 1)
redis.call('SADD', KEYS[2], ARGV[1])
redis.call('SADD', KEYS[3], ARGV[1])
return 1`

type Change = {
  readonly name: string
  readonly fields: Readonly<Record<string, string>>
  /** The expected revision; 0 if the record must not exist. */
  readonly from?: number
  /** True for a new record with a random name. */
  readonly random?: boolean
}

/**
 * The store of account records. One script makes a change, increments the revision of the record
 * and adds its name to the outbox, from which `ledger` ships it to the topic `accounts`.
 */
export function createAccountRecords (redis: RedisClient) {
  const readCurrent = script(redis, { name: 'read-account', source: READ, numberOfKeys: 2 })
  const readFields = script(redis, {
    name: 'read-account-fields', source: READ_FIELDS, numberOfKeys: 2,
  })
  const readRun = script(redis, { name: 'current-run', source: CURRENT_RUN, numberOfKeys: 1 })
  const change = script(redis, { name: 'change-account', source: CHANGE, numberOfKeys: 4 })
  const write = async ({ name, fields, from, random = false }: Change): Promise<boolean> => {
    const keys = [accountKey(name), ACCOUNTS_KEY, ACCOUNTS_OUTBOX_KEY, ACCOUNTS_RUN_KEY]
    const args = [name, String(from ?? ''), random ? '1' : '0', ...Object.entries(fields).flat()]
    return await unlessLocked(name, () => change(keys, args)) === 1
  }
  return {
    /** The record; undefined if it does not exist. */
    read: async (name: string): Promise<AccountRecord | undefined> =>
      parseRecord(await redis.hgetall(accountKey(name))),

    /**
     * The record, if no change of it can be missing.
     * @throws AccountsRecoveringError until `ledger` has compared it with the topic.
     */
    readCurrent: async (name: string): Promise<AccountRecord | undefined> => {
      const flat = ifCurrent<string>(
        name, await readCurrent([accountKey(name), ACCOUNTS_RUN_KEY], []))
      return parseRecord(Object.fromEntries(Array.from({ length: flat.length / 2 }, (_, index) =>
        [flat[2 * index] ?? '', flat[2 * index + 1] ?? ''])))
    },

    /**
     * The values of fields of the record, null for absent ones, if no change of it can be missing.
     * @throws AccountsRecoveringError until `ledger` has compared it with the topic.
     */
    readCurrentFields: async (
      name: string, fields: readonly string[]
    ): Promise<readonly (string | null)[]> =>
      ifCurrent(name, await readFields([accountKey(name), ACCOUNTS_RUN_KEY], fields)),

    /**
     * The run of the server, in which no account record lacks a change.
     * @throws AccountsRecoveringError until `ledger` has compared all of them with the topic.
     */
    currentRun: async (name: string): Promise<string> => {
      const run = await readRun([ACCOUNTS_RUN_KEY], []) as string
      if (run === '') throw new AccountsRecoveringError(name)
      return run
    },

    /**
     * Changes fields of a record, or creates it; false if its revision is not the expected one.
     * @throws AccountsRecoveringError if `ledger` does not compare it within some seconds.
     */
    change: async (change: Change): Promise<boolean> => {
      // Listed first, so that a crash leaves no valid record that is not listed.
      if (change.from === 0) await listAccount(redis, change)
      return await retry(TRIES, () => write(change), {
        maxMs: MAX_PAUSE_MS, when: error => error instanceof AccountsRecoveringError,
      })
    },

    /** Whether the topic has all changes; waits some seconds for `ledger` to ship them. */
    areShipped: async (): Promise<boolean> => {
      for (let leftMs = SHIPPED_WITHIN_MS; leftMs > 0; leftMs -= LEADER_POLL_MS) {
        if (await redis.scard(ACCOUNTS_OUTBOX_KEY) === 0) return true
        await sleep(LEADER_POLL_MS)
      }
      return false
    },
  }
}

/** The values that a script has read of a record, unless a change of it may be missing. */
function ifCurrent<T> (name: string, answer: unknown): readonly T[] {
  const [isCurrent, values] = answer as readonly [number, readonly T[]]
  if (isCurrent === 0) throw new AccountsRecoveringError(name)
  return values
}

function parseRecord (fields: Readonly<Record<string, string>>): AccountRecord | undefined {
  if (Object.keys(fields).length === 0) return undefined
  return { revision: Number(fields['revision'] ?? 0), fields }
}

/** Adds a record to the list of its kind. Idempotent. */
export async function listAccount (redis: RedisClient, { name, fields }: Change): Promise<void> {
  const [kind = '', id = ''] = name.split(':')
  const tenants = MODES.map(mode => tenantOf(id, mode))
  if (kind === 'org') {
    await redis.sadd(ORGANIZATION_TENANTS_KEY, ...tenants)
    for (const key of indexKeysIn(fields[PEOPLE_INDEX_FIELD])) await redis.sadd(key, id)
  }
  if (kind === 'partner') await redis.sadd(PARTNERS_KEY, id)
  const { org = '', createdAt = '0' } = fields
  if (kind === 'key') await redis.zadd(keysOfOrganization(org), createdAt, id)
}

/** What the key of an organization for one class has wrapped. */
export type WrappedPiece = {
  readonly class: KeyClass
  readonly bytes: Buffer
  readonly binding: Binding
}

/** A stored value that keys of an organization wrap, and how to replace it during a rotation. */
export type Wrapped = {
  readonly orgId: string
  /** Of a data key the parts of both classes, otherwise one. */
  readonly pieces: readonly [WrappedPiece, ...WrappedPiece[]]
  /** Replaces all pieces; false when the value was changed or removed in the meantime. */
  readonly replace: (fresh: readonly [Buffer, ...Buffer[]]) => Promise<boolean>
}

/**
 * Fields of a record that a key of its organization wraps, as base64; without those that are absent
 * or empty.
 */
export async function wrappedFields (
  records: AccountRecords, name: string,
  wrapped: readonly {
    readonly field: string, readonly binding: Binding, readonly class: KeyClass,
  }[]
): Promise<readonly Wrapped[]> {
  const [, orgId = ''] = name.split(':')
  const { fields = {} } = await records.read(name) ?? {}
  return wrapped.flatMap(({ field, binding, class: keyClass }): Wrapped[] => {
    const text = fields[field] ?? ''
    if (text === '') return []
    return [{
      orgId,
      pieces: [{ class: keyClass, bytes: Buffer.from(text, 'base64'), binding }],
      replace: ([fresh]) => replaceField(records, name, { field, text, fresh }),
    }]
  })
}

/**
 * Replaces the value of a wrapped field; false if it is no longer `text`, which was read before.
 */
async function replaceField (
  records: AccountRecords, name: string,
  { field, text, fresh }: { readonly field: string, readonly text: string, readonly fresh: Buffer }
): Promise<boolean> {
  for (;;) {
    const { revision: from = 0, fields = {} } = await records.read(name) ?? {}
    if (fields[field] !== text) return false
    const after = { [field]: fresh.toString('base64') }
    if (await records.change({ name, from, fields: after })) return true
  }
}
