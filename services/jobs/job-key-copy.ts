import { createHash } from 'node:crypto'
import type { ClickHouseClient } from '@clickhouse/client'
import { insertRows, streamRows } from '../platform/clickhouse.ts'
import type { RecordMac, SignedRecord } from '../crypto/record-mac.ts'
import { batchWrites } from '../platform/batch-writes.ts'

/** The wrapped data key of a job, and when it was sent: ms of the brokers' clock. */
export type CopiedKey = {
  readonly tenant: string
  readonly job: string
  readonly wrapped: Buffer
  readonly createdMs: number
}

export type JobKeyCopy = ReturnType<typeof createJobKeyCopy>

/** Questions of several callers are asked together, so many at a time. */
const JOBS_A_QUERY = 100

/**
 * The copy of the topic `job.keys` in ClickHouse, where the wrapped data keys of closed jobs are
 * read: Redis forgets them soon after the close, and a search of the topic takes its time. Rows
 * that no service has signed are reported and left out.
 */
export function createJobKeyCopy (
  clickhouse: Pick<ClickHouseClient, 'query' | 'insert' | 'command'>, mac: RecordMac
) {
  const select = async function * (query: string, parameters: Record<string, unknown> = {}) {
    for await (const row of streamRows<StoredKey>(clickhouse, query, parameters)) {
      if (mac.isAuthentic(row.mac, signedOf(row))) yield keyOf(row)
    }
  }
  const ask = batchWrites<Question>(async questions => {
    const parameters = {
      tenants: [...new Set(questions.map(({ tenant }) => tenant))],
      jobs: [...new Set(questions.map(({ job }) => job))],
    }
    const found = new Map<string, Buffer>()
    for await (const { tenant, job, wrapped } of select(SELECT_SOME, parameters)) {
      found.set(`${tenant}:${job}`, wrapped)
    }
    for (const { tenant, job, answer } of questions) answer(found.get(`${tenant}:${job}`))
  }, JOBS_A_QUERY)
  return {
    /** Stores all in one insert; the same insert tried again leaves what is there as it is. */
    append: async (keys: readonly CopiedKey[]): Promise<void> => {
      if (keys.length === 0) return
      const values = keys.map(key => rowOf(key, mac))
      // Of MACs: an attacker who can predict the token can make ClickHouse drop the insert.
      const token = createHash('sha256').update(values.map(row => row.mac).join()).digest('hex')
      await insertRows(clickhouse, { table: 'job_keys', columns: COLUMNS, values, token })
    },

    /** The newest wrapped key of a job; whoever asks at the same time shares a query. */
    find: async (tenant: string, job: string): Promise<Buffer | undefined> => {
      let wrapped: Buffer | undefined
      await ask([{ tenant, job, answer: found => { wrapped = found } }])
      return wrapped
    },

    /** All there are. */
    all: (): AsyncIterable<CopiedKey> => select(SELECT),

    /** The job of each row that there is of some jobs of a tenant, forged ones included. */
    rowsOf: async (tenant: string, jobs: readonly string[]): Promise<readonly string[]> => {
      const found: string[] = []
      const rows = streamRows<{ readonly job: string }>(clickhouse, SELECT_JOBS, { tenant, jobs })
      for await (const { job } of rows) found.push(job)
      return found
    },

    /** Deletes the rows of some jobs of a tenant; the files with them go some seconds later. */
    erase: async (tenant: string, jobs: readonly string[]): Promise<void> => {
      await clickhouse.command({ query: ERASE, query_params: { tenant, jobs } })
    },

    /** Deletes, of all jobs that have a row wrapped by this key of the ring, every other row. */
    keepWrappedBy: async (kid: string): Promise<void> => {
      const prefix = Buffer.from([Buffer.byteLength(kid), ...Buffer.from(kid)]).toString('hex')
      await clickhouse.command({ query: KEEP, query_params: { prefix } })
    },
  }
}

type Question = {
  readonly tenant: string
  readonly job: string
  readonly answer: (wrapped: Buffer | undefined) => void
}

type SignedKey = { readonly tenant: string, readonly job: string, readonly wrapped_base64: string }
type StoredKey = SignedKey & { readonly created_ms: string, readonly mac: string }

const signedOf = ({ tenant, job, wrapped_base64: content }: SignedKey): SignedRecord =>
  ({ table: 'job_keys', tenant, id: job, content })

const COLUMNS = ['tenant', 'job', 'wrapped_base64', 'created', 'mac'] as const

const SELECT = `
  SELECT tenant, job, base64Encode(wrapped) AS wrapped_base64,
    toString(toUnixTimestamp64Milli(created)) AS created_ms, mac
  FROM job_keys`
const OF_JOBS = 'WHERE tenant = {tenant:String} AND job IN {jobs:Array(String)}'
const SELECT_SOME = `
  ${SELECT} WHERE tenant IN {tenants:Array(String)} AND job IN {jobs:Array(String)}
  ORDER BY created`
const SELECT_JOBS = `SELECT job FROM job_keys ${OF_JOBS}`
const ERASE = `ALTER TABLE job_keys DELETE ${OF_JOBS} SETTINGS mutations_sync = 2`
const IS_WRAPPED = 'startsWith(wrapped, unhex({prefix:String}))'
const KEEP = `
  ALTER TABLE job_keys DELETE
  WHERE NOT ${IS_WRAPPED}
    AND (tenant, job) IN (SELECT tenant, job FROM job_keys WHERE ${IS_WRAPPED})
  SETTINGS mutations_sync = 2`

function rowOf ({ tenant, job, wrapped, createdMs }: CopiedKey, mac: RecordMac) {
  const row = { tenant, job, wrapped_base64: wrapped.toString('base64') }
  return { ...row, created: new Date(createdMs).toISOString(), mac: mac.sign(signedOf(row)) }
}

function keyOf ({ tenant, job, wrapped_base64: wrapped, created_ms: at }: StoredKey): CopiedKey {
  return { tenant, job, wrapped: Buffer.from(wrapped, 'base64'), createdMs: Number(at) }
}
