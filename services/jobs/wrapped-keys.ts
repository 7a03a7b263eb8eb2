import { hash } from 'node:crypto'
import type { Keys } from '../../schemas/types.ts'
import type { Wrapped, WrappedPiece } from '../accounts/records.ts'
import { parseTenant } from '../accounts/tenant.ts'
import {
  JOB_KEY_HEAD_BYTES, jobKeyBinding, type JobKeyPart, type JobKeysOptions, joinJobKey, keysInTopic,
  splitJobKey,
} from './job-keys.ts'
import { jobRedisKeys } from './job-record.ts'
import { withKeyId } from '../runtime/crypto/key-ring.ts'
import type { RecordMac } from '../runtime/crypto/mac.ts'
import { SealError } from '../runtime/crypto/seal.ts'
import {
  bytes, dateTime, signedTable, type SignedRow, text,
} from '../runtime/crypto/signed-table.ts'
import type { Producer, RawMessage } from '../runtime/kafka/bus.ts'
import type { Codec } from '../runtime/kafka/registry.ts'
import { batchReads } from '../runtime/platform/batch-writes.ts'
import { createCompareAndSet, listMasters, type RedisClient } from '../runtime/platform/redis.ts'
import { type Clickhouse, deleteRows } from '../runtime/platform/clickhouse.ts'
import { messageKey, topicName } from '../runtime/platform/topics.ts'
import type { Connections } from '../runtime/engine/connections.ts'

/** The wrapped data key of a job, and when it was sent: broker time in ms. */
export type CopiedKey = {
  readonly tenant: string
  readonly job: string
  readonly wrapped: Buffer
  readonly createdMs: number
}

export type JobKeyCopy = ReturnType<typeof createJobKeyCopy>

/** Concurrent lookups share a query of up to this many jobs. */
const MAX_JOBS_PER_QUERY = 100

/**
 * The copy of the topic `job.keys` in ClickHouse, for the data keys of closed jobs: Redis deletes
 * them soon after the close, and a search of the topic is slow. Rows without a valid signature are
 * reported and skipped.
 */
export function createJobKeyCopy (clickhouse: Clickhouse, mac: RecordMac) {
  const select = async function * (query: string, parameters: Record<string, unknown> = {}) {
    for await (const row of clickhouse.stream<SignedRow>(query, parameters)) {
      const key = TABLE.toEntry(row)
      if (TABLE.isSigned(row, key, mac)) yield key
    }
  }
  const find = batchReads(async (wanted: readonly JobName[]) => {
    const parameters = {
      tenants: [...new Set(wanted.map(({ tenant }) => tenant))],
      jobs: [...new Set(wanted.map(({ job }) => job))],
    }
    const keys = new Map<string, Buffer>()
    for await (const { tenant, job, wrapped } of select(SELECT_SOME, parameters)) {
      keys.set(`${tenant}:${job}`, wrapped)
    }
    return wanted.map(({ tenant, job }) => keys.get(`${tenant}:${job}`))
  }, MAX_JOBS_PER_QUERY)
  return {
    /** Stores all keys in one insert; repeating the same insert has no effect. */
    append: async (keys: readonly CopiedKey[]): Promise<void> => {
      if (keys.length === 0) return
      const values = keys.map(key => TABLE.toRow(key, mac))
      // A digest of MACs: with a predictable token an attacker could make ClickHouse drop the
      // insert.
      const token = hash('sha256', values.map(row => row.mac).join())
      await clickhouse.insert({ table: 'job_keys', values, token })
    },

    /** The newest wrapped key of a job. Concurrent calls share a query. */
    find: (tenant: string, job: string): Promise<Buffer | undefined> => find({ tenant, job }),

    /** All keys. */
    all: (): AsyncIterable<CopiedKey> => select(SELECT),

    /** The job of each stored row of these jobs, including forged rows. */
    rowsOf: async (tenant: string, jobs: readonly string[]): Promise<readonly string[]> => {
      const rows = await clickhouse.rows<{ readonly job: string }>(SELECT_JOBS, { tenant, jobs })
      return rows.map(({ job }) => job)
    },

    /** Deletes the rows of these jobs; ClickHouse deletes their files some seconds later. */
    erase: async (tenant: string, jobs: readonly string[]): Promise<void> => {
      await deleteRows(clickhouse, 'job_keys', () => OF_JOBS, { tenant, jobs })
    },

    /**
     * For all jobs of these tenants with a row whose first part is wrapped by this key, deletes
     * every other row.
     */
    keepWrappedBy: async (tenants: readonly string[], id: string): Promise<void> => {
      const prefix = withKeyId(id, Buffer.alloc(0)).toString('hex')
      await deleteRows(clickhouse, 'job_keys', isReplacedIn, { prefix, tenants })
    },
  }
}

type JobName = Pick<CopiedKey, 'tenant' | 'job'>

const TABLE = signedTable<CopiedKey>({
  tenant: text('tenant'),
  job: text('job'),
  wrapped: bytes('wrapped'),
  createdMs: dateTime('created'),
}, ({ tenant, job, wrapped }) =>
  ({ table: 'job_keys', tenant, id: job, content: wrapped.toString('base64') }))

const SELECT = `SELECT ${TABLE.selected} FROM job_keys`
const OF_JOBS = 'tenant = {tenant:String} AND job IN {jobs:Array(String)}'
const SELECT_SOME = `
  ${SELECT} WHERE tenant IN {tenants:Array(String)} AND job IN {jobs:Array(String)}
  ORDER BY created`
const SELECT_JOBS = `SELECT job FROM job_keys WHERE ${OF_JOBS}`
const IS_WRAPPED = `startsWith(substring(wrapped, ${1 + JOB_KEY_HEAD_BYTES}),
  unhex({prefix:String}))`
const isReplacedIn = (name: string) => `tenant IN {tenants:Array(String)} AND NOT ${IS_WRAPPED}
  AND (tenant, job) IN (SELECT tenant, job FROM ${name}
    WHERE tenant IN {tenants:Array(String)} AND ${IS_WRAPPED})`

/**
 * Finds the wrapped data keys of closed jobs in ClickHouse, or in the topic `job.keys` if `ledger`
 * has not copied one yet.
 */
export function closedKeys (
  { bus, codec, clickhouse, recordMac }:
  Pick<Connections, 'bus' | 'codec' | 'clickhouse' | 'recordMac'>
): NonNullable<JobKeysOptions['findClosed']> {
  const copy = createJobKeyCopy(clickhouse, recordMac)
  const findInTopic = keysInTopic({ bus, codec })
  return async (tenant, job) => await copy.find(tenant, job) ?? await findInTopic(tenant, job)
}

/**
 * Passes the messages of a topic, all or those since a time, to `onMessages`, in order for each
 * partition.
 */
export type ReadTopic = (
  topic: string, onMessages: (messages: readonly RawMessage[]) => Promise<void> | void,
  limits?: { readonly sinceMs?: number | undefined },
) => Promise<unknown>

type TopicDeps = {
  readonly redis: RedisClient
  readonly codec: Codec
  readonly producer: Pick<Producer, 'send'>
  readonly read: ReadTopic
}

/** A stored data key for a rotation: both parts, replaced together; damaged bytes as one. */
export function wrappedJobKey (
  { tenant, job, wrapped }: Keys, replace: (fresh: Buffer) => Promise<boolean>
): Wrapped {
  const { orgId } = parseTenant(tenant)
  const toPiece = (part: JobKeyPart, bytes: Buffer): WrappedPiece =>
    ({ class: part, bytes, binding: jobKeyBinding(part, tenant, job) })
  try {
    const { results, webhooks } = splitJobKey(wrapped)
    return {
      orgId,
      pieces: [toPiece('results', results), toPiece('webhooks', webhooks)],
      replace: ([first, second = Buffer.alloc(0)]) =>
        replace(joinJobKey({ results: first, webhooks: second })),
    }
  } catch (error) {
    if (!(error instanceof SealError)) throw error
    return { orgId, pieces: [toPiece('results', wrapped)], replace: async () => false }
  }
}

const KEYS_PER_SCAN = 1_000
const KEY_PATTERN = /^dek:\{(.+)\}(\.[^:]+):(job_.+)$/

/** The wrapped data keys of all jobs in Redis. */
export async function * wrappedInRedis (redis: RedisClient): AsyncIterable<Wrapped> {
  const compareAndSet = createCompareAndSet(redis)
  for (const master of await listMasters(redis)) {
    const scanned: AsyncIterable<readonly string[]> =
      master.scanStream({ match: 'dek:*', count: KEYS_PER_SCAN })
    for await (const keys of scanned) {
      const values = await Promise.all(keys.map(key => redis.getBuffer(key)))
      for (const [index, key] of keys.entries()) {
        const bytes = values[index]
        const [, orgId = '', mode = '', job = ''] = KEY_PATTERN.exec(key) ?? []
        if (bytes === null || bytes === undefined || job === '') continue
        const replace = (fresh: Buffer) => compareAndSet(key, bytes, fresh)
        yield wrappedJobKey({ tenant: `${orgId}${mode}`, job, wrapped: bytes }, replace)
      }
    }
  }
}

/**
 * The wrapped data keys of all jobs in the topic `job.keys`, the newest of each job. `replace`
 * writes a new one, followed by a tombstone if the job was erased meanwhile.
 */
export async function * wrappedInTopic (deps: TopicDeps): AsyncIterable<Wrapped> {
  const topic = topicName('job.keys')
  const newest = new Map<string, Buffer>()
  const erased = new Set<string>()
  await deps.read(topic, messages => {
    for (const { key, value } of messages) {
      if (value === null) erased.add(String(key))
      else newest.set(String(key), value)
    }
  })
  for (const key of erased) newest.delete(key)
  for (const value of newest.values()) {
    const { tenant, job, wrapped } = await deps.codec.decode('job.keys', value) as Keys
    const replace = (fresh: Buffer) => putInTopic(deps, { tenant, job, wrapped: fresh })
    yield wrappedJobKey({ tenant, job, wrapped }, replace)
  }
}

async function putInTopic ({ redis, codec, producer }: TopicDeps, value: Keys): Promise<boolean> {
  const { tenant, job } = value
  await producer.send([{
    topic: topicName('job.keys'),
    key: messageKey('job.keys', value),
    value: await codec.encode('job.keys-value', value),
    headers: { tenant, job },
  }])
  // An eraser sets the mark before its tombstone, so a tombstone follows in either order.
  if (await redis.exists(jobRedisKeys(tenant, job).erased) === 0) return true
  await producer.send([toTombstone(tenant, job)])
  return false
}

/** What a tombstone says of its erasure: the time, and whether cached records go too. */
export type TombstoneTerms = { readonly atMs: number, readonly cache: boolean }

/** The tombstone that removes the key of a job from the topic `job.keys`. */
export function toTombstone (tenant: string, job: string, terms?: TombstoneTerms) {
  const key = messageKey('job.keys', { job })
  const headers = {
    tenant,
    job,
    ...terms && { erased_at: String(terms.atMs), erase_cache: terms.cache ? '1' : '0' },
  }
  return { topic: topicName('job.keys'), key, value: null, headers }
}

/** The terms of a tombstone; those of older releases have only the time of the brokers. */
export function parseTombstoneTerms (
  { headers, timestampMs }: Pick<RawMessage, 'headers' | 'timestampMs'>
): TombstoneTerms {
  const { erased_at: at, erase_cache: cache } = headers
  return { atMs: at === undefined ? timestampMs : Number(at), cache: cache === '1' }
}
