import { hash } from 'node:crypto'
import type { ClickHouseClient } from '@clickhouse/client'
import { deleteRows, insertRows, streamRows } from '../runtime/platform/clickhouse.ts'
import { withKeyId } from '../runtime/crypto/key-ring.ts'
import type { RecordMac, SignedRecord } from '../runtime/crypto/mac.ts'
import { batchReads } from '../runtime/platform/batch-writes.ts'
import { JOB_KEY_HEAD_BYTES } from './job-keys.ts'

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
export function createJobKeyCopy (
  clickhouse: Pick<ClickHouseClient, 'query' | 'insert' | 'command'>, mac: RecordMac
) {
  const select = async function * (query: string, parameters: Record<string, unknown> = {}) {
    for await (const row of streamRows<StoredKey>(clickhouse, query, parameters)) {
      if (!mac.isAuthentic(row.mac, signedOf(row))) continue
      const { tenant, job, wrapped_base64: wrapped, created_ms: createdMs } = row
      yield { tenant, job, wrapped: Buffer.from(wrapped, 'base64'), createdMs: Number(createdMs) }
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
      const values = keys.map(({ tenant, job, wrapped, createdMs }) => {
        const row = { tenant, job, wrapped_base64: wrapped.toString('base64') }
        return { ...row, created: new Date(createdMs).toISOString(), mac: mac.sign(signedOf(row)) }
      })
      // A digest of MACs: with a predictable token an attacker could make ClickHouse drop the
      // insert.
      const token = hash('sha256', values.map(row => row.mac).join())
      await insertRows(clickhouse, { table: 'job_keys', columns: COLUMNS, values, token })
    },

    /** The newest wrapped key of a job. Concurrent calls share a query. */
    find: (tenant: string, job: string): Promise<Buffer | undefined> => find({ tenant, job }),

    /** All keys. */
    all: (): AsyncIterable<CopiedKey> => select(SELECT),

    /** The job of each stored row of these jobs, including forged rows. */
    rowsOf: async (tenant: string, jobs: readonly string[]): Promise<readonly string[]> => {
      const copied: string[] = []
      const rows = streamRows<{ readonly job: string }>(clickhouse, SELECT_JOBS, { tenant, jobs })
      for await (const { job } of rows) copied.push(job)
      return copied
    },

    /** Deletes the rows of these jobs; ClickHouse deletes their files some seconds later. */
    erase: async (tenant: string, jobs: readonly string[]): Promise<void> => {
      await deleteRows(clickhouse, {
        table: 'job_keys', where: () => OF_JOBS, parameters: { tenant, jobs },
      })
    },

    /**
     * For all jobs of these tenants with a row whose first part is wrapped by this key, deletes
     * every other row.
     */
    keepWrappedBy: async (tenants: readonly string[], id: string): Promise<void> => {
      const prefix = withKeyId(id, Buffer.alloc(0)).toString('hex')
      await deleteRows(clickhouse, {
        table: 'job_keys', where: isReplacedIn, parameters: { prefix, tenants },
      })
    },
  }
}

type JobName = Pick<CopiedKey, 'tenant' | 'job'>

type SignedKey = { readonly tenant: string, readonly job: string, readonly wrapped_base64: string }
type StoredKey = SignedKey & { readonly created_ms: string, readonly mac: string }

const signedOf = ({ tenant, job, wrapped_base64: content }: SignedKey): SignedRecord =>
  ({ table: 'job_keys', tenant, id: job, content })

const COLUMNS = ['tenant', 'job', 'wrapped_base64', 'created', 'mac'] as const

const SELECT = `
  SELECT tenant, job, base64Encode(wrapped) AS wrapped_base64,
    toString(toUnixTimestamp64Milli(created)) AS created_ms, mac
  FROM job_keys`
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
