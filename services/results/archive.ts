import { createHash } from 'node:crypto'
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import type { ClickHouseClient } from '@clickhouse/client'
import type { Job, ManifestEntry } from '../jobs/job.ts'
import { insertRows, streamRows } from '../platform/clickhouse.ts'
import { InfrastructureError } from '../platform/errors.ts'
import type { RecordMac, SignedRecord } from '../crypto/record-mac.ts'

/** A job that came to its end, with the blocks its results are made of. */
export type ArchivedJob = { readonly job: Job, readonly manifest: readonly ManifestEntry[] }

export type ListOptions = {
  readonly limit: number
  /** Only jobs whose id sorts before this one, which means older ones. */
  readonly before?: string
  readonly status?: string
  readonly service?: string
}

export type Archive = {
  /** Stores final records in one insert; of several of a job, that of the latest end is read. */
  readonly save: (jobs: readonly ArchivedJob[]) => Promise<void>
  /** @throws InfrastructureError when all that is stored of the job is forged. */
  readonly find: (tenant: string, job: string) => Promise<ArchivedJob | undefined>
  /** Those of several jobs of these tenants that are stored, by id. */
  readonly findAll: (
    tenants: readonly string[], jobs: readonly string[]
  ) => Promise<ReadonlyMap<string, Job>>
  /** The same with the manifests, each job once. */
  readonly findAllWhole: (
    tenant: string, jobs: readonly string[]
  ) => Promise<readonly ArchivedJob[]>
  /** Newest first: ids sort by the time of the request. */
  readonly list: (tenant: string, options: ListOptions) => Promise<readonly Job[]>
  /** The same with the manifests, for whoever reads the results of every job. */
  readonly listWhole: (
    tenant: string, options: ListOptions
  ) => Promise<readonly ArchivedJob[]>
}

/** How many times more rows are read when forged ones or copies filled a page. */
const PAGE_GROWTH = 16

/**
 * Jobs that ended, in ClickHouse: read there once Redis holds no more than their header. Nothing is
 * believed that no service has signed. Rows of another hand take time to skip, and nobody's place.
 */
export function createArchive (clickhouse: ClickHouseClient, mac: RecordMac): Archive {
  const save = async (jobs: readonly ArchivedJob[]) => {
    const values = jobs.map(job => rowOf(mac, job))
    // Of MACs: whoever can predict the token can make ClickHouse drop the insert.
    const token = digestOf(values.map(row => row.mac).join())
    await insertRows(clickhouse, { table: 'jobs', columns: COLUMNS, values, token })
  }
  const isOwn = (row: StoredJob) => mac.isAuthentic(row.mac, signedOf(row)) && isWhole(row)
  const select = (query: string, parameters: Record<string, unknown>, onRow = () => {}) =>
    latestOf(streamRows<StoredJob>(clickhouse, query, parameters), row => {
      onRow()
      return isOwn(row)
    })
  const find = async (tenant: string, job: string) => {
    let rows = 0
    const { value: own } = await select(FIND, { tenant, job }, () => { rows++ }).next()
    if (own === undefined && rows > 0) {
      throw new InfrastructureError(`the record of ${job} in ClickHouse is forged`)
    }
    return own
  }
  const findAll = async (tenants: readonly string[], jobs: readonly string[]) => {
    const found = new Map<string, Job>()
    for await (const { job } of select(FIND_ALL, { tenants, jobs })) found.set(job.id, job)
    return found
  }
  const findAllWhole = async (tenant: string, jobs: readonly string[]) => {
    const found: ArchivedJob[] = []
    const parameters = { tenants: [tenant], jobs }
    for await (const archived of select(FIND_ALL_WHOLE, parameters)) found.push(archived)
    return found
  }
  const page = async (columns: string, tenant: string, options: ListOptions) => {
    const { limit, before = '', status = '', service = '' } = options
    const query = listOf(columns)
    // The rows of a job are only complete once another job or the end comes behind them.
    for (let most = limit + 1; ; most *= PAGE_GROWTH) {
      const found: ArchivedJob[] = []
      let rows = 0
      const parameters = { tenant, before, status, service, most }
      for await (const archived of select(query, parameters, () => { rows++ })) {
        if (isListed(archived.job, options)) found.push(archived)
        if (found.length > limit) break
      }
      if (found.length > limit || rows < most) return found.slice(0, limit)
    }
  }
  return {
    save,
    find,
    findAll,
    findAllWhole,
    list: async (...of) => (await page(RECORD, ...of)).map(({ job }) => job),
    listWhole: (...of) => page(WHOLE, ...of),
  }
}

/** Each job once, in the order of the rows, which keep those of a job together. */
async function * latestOf (
  rows: AsyncIterable<StoredJob>, isOwn: (row: StoredJob) => boolean
): AsyncGenerator<ArchivedJob, undefined> {
  let last: ArchivedJob | undefined
  for await (const row of rows) {
    if (!isOwn(row)) continue
    const next = archivedOf(row)
    if (last !== undefined && last.job.id !== next.job.id) {
      yield last
      last = undefined
    }
    if (last === undefined || next.job.endedAtMs > last.job.endedAtMs) last = next
  }
  if (last !== undefined) yield last
  return undefined
}

/** The columns that the query goes by are not signed; the record is. */
const isListed = (job: Job, { status = '', service = '' }: ListOptions): boolean =>
  (status === '' || job.status === status) && (service === '' || job.service === service)

/** A manifest as it is stored: zstd of JSON, one array an entry. */
export function packManifest (manifest: readonly ManifestEntry[]): Buffer {
  const entries = manifest.map(({ chunk, digest, won, firstRow, inputs }) =>
    [chunk, digest, won.toString('base64'), firstRow, inputs ? 1 : 0] satisfies PackedEntry)
  return zstdCompressSync(JSON.stringify(entries))
}

/** The manifest that was packed. */
export function unpackManifest (packed: Buffer): readonly ManifestEntry[] {
  const entries = JSON.parse(zstdDecompressSync(packed).toString('utf8')) as readonly PackedEntry[]
  return entries.map(([chunk, digest, won, firstRow, inputs]) =>
    ({ chunk, digest, won: Buffer.from(won, 'base64'), firstRow, inputs: inputs === 1 }))
}

/** Hex SHA-256, by which a record names its packed manifest. */
export function digestOf (content: string | Buffer): string {
  return createHash('sha256').update(content).digest('hex')
}

type PackedEntry =
  [chunk: number, digest: string, won: string, firstRow: number, inputs: number]

type StoredJob = {
  readonly tenant: string
  readonly job: string
  readonly record: string
  readonly header: string
  readonly mac: string
  /** Not there where it was not selected. */
  readonly manifest?: string
}

const COLUMNS = [
  'tenant', 'job', 'service', 'status', 'total_rows', 'charged_micros', 'released_micros',
  'created', 'ended', 'record', 'header_base64', 'manifest_base64', 'mac',
]

const RECORD = 'tenant, job, record, base64Encode(header) AS header, mac'
const WHOLE = `${RECORD}, base64Encode(manifest) AS manifest`

const FIND = `SELECT ${WHOLE} FROM jobs WHERE tenant = {tenant:String} AND job = {job:String}`

const findAllOf = (columns: string) => `
  SELECT ${columns} FROM jobs
  WHERE tenant IN {tenants:Array(String)} AND job IN {jobs:Array(String)} ORDER BY job`
const FIND_ALL = findAllOf(RECORD)
const FIND_ALL_WHOLE = findAllOf(WHOLE)

const listOf = (columns: string) => `
  SELECT ${columns} FROM jobs
  WHERE tenant = {tenant:String}
    AND ({before:String} = '' OR job < {before:String})
    AND ({status:String} = '' OR status = {status:String})
    AND ({service:String} = '' OR service = {service:String})
  ORDER BY job DESC LIMIT {most:UInt64}`

function rowOf (mac: RecordMac, { job, manifest }: ArchivedJob) {
  const { header: sealed, ...fields } = job
  const packed = packManifest(manifest)
  const record = JSON.stringify({ ...fields, manifestDigest: digestOf(packed) })
  const header = sealed.toString('base64')
  const of = { tenant: job.tenant, job: job.id }
  return {
    ...of,
    service: job.service,
    status: job.status,
    total_rows: job.preflight.totalRows,
    charged_micros: job.chargedMicros,
    released_micros: job.releasedMicros,
    created: new Date(job.createdAtMs).toISOString(),
    ended: new Date(job.endedAtMs).toISOString(),
    record,
    header_base64: header,
    manifest_base64: packed.toString('base64'),
    mac: mac.sign(signedOf({ ...of, record, header })),
  }
}

/** Whose the record is and everything it says. */
export const signedOf = (
  { tenant, job, record, header }: Omit<StoredJob, 'mac' | 'manifest'>
): SignedRecord =>
  ({ table: 'jobs', tenant, id: job, content: JSON.stringify([record, header]) })

/** A job is only read here once it is closed, although it was stored a moment before that. */
function jobOf ({ record, header }: StoredJob): Job {
  const { manifestDigest: _, ...stored } = JSON.parse(record) as SignedFields
  return { ...stored, closed: true, header: Buffer.from(header, 'base64') }
}

type SignedFields = Omit<Job, 'header'> & { readonly manifestDigest: string }

/** Whether the manifest is that of the record, which is signed. */
const isWhole = ({ record, manifest }: StoredJob): boolean => manifest === undefined ||
  digestOf(Buffer.from(manifest, 'base64')) === (JSON.parse(record) as SignedFields).manifestDigest

function archivedOf (row: StoredJob): ArchivedJob {
  const { manifest } = row
  return {
    job: jobOf(row),
    manifest: manifest === undefined ? [] : unpackManifest(Buffer.from(manifest, 'base64')),
  }
}
