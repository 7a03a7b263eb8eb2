import { zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import type { ClickHouseClient } from '@clickhouse/client'
import type { Job, ManifestEntry } from '../jobs/job.ts'
import { insertRows } from '../lib/clickhouse.ts'
import { InfrastructureError } from '../lib/errors.ts'
import type { RecordMac, SignedRecord } from '../lib/record-mac.ts'
import { digestOf } from './result-blocks.ts'

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
  /** Stores final records in one insert; the same job again replaces its own. */
  readonly save: (jobs: readonly ArchivedJob[]) => Promise<void>
  /** @throws InfrastructureError when all that is stored of the job is forged. */
  readonly find: (tenant: string, job: string) => Promise<ArchivedJob | undefined>
  /** Those of several jobs of a tenant that are stored, by id. */
  readonly findAll: (
    tenant: string, jobs: readonly string[]
  ) => Promise<ReadonlyMap<string, Job>>
  /** Newest first: ids sort by the time of the request. */
  readonly list: (tenant: string, options: ListOptions) => Promise<readonly Job[]>
  /** The same with the manifests, for whoever reads the results of every job. */
  readonly listWhole: (
    tenant: string, options: ListOptions
  ) => Promise<readonly ArchivedJob[]>
}

/** Only so many of the records of a job are looked at: one, unless others than ours were added. */
const MOST_RECORDS = 10

/**
 * Jobs that ended, in ClickHouse: read there once Redis holds no more than their header. Nothing is
 * believed that no service has signed.
 */
export function createArchive (clickhouse: ClickHouseClient, mac: RecordMac): Archive {
  const save = async (jobs: readonly ArchivedJob[]) => {
    const values = jobs.map(job => rowOf(mac, job))
    await insertRows(clickhouse, { table: 'jobs', columns: COLUMNS, values })
  }
  const find = async (tenant: string, job: string) => {
    const query = `SELECT ${WHOLE} FROM jobs
      WHERE tenant = {tenant:String} AND job = {job:String} ORDER BY stored DESC
      LIMIT ${MOST_RECORDS}`
    const rows = await select<WholeStoredJob>(query, { tenant, job })
    const own = rows.find(row => isOwn(row) && isWhole(row))
    if (own === undefined && rows.length > 0) {
      throw new InfrastructureError(`the record of ${job} in ClickHouse is forged`)
    }
    return own === undefined ? undefined : archivedOf(own)
  }
  const isOwn = (row: StoredJob) => mac.isAuthentic(row.mac, signedOf(row))
  const findAll = async (tenant: string, jobs: readonly string[]) => {
    const query = `SELECT ${RECORD} FROM jobs
      WHERE tenant = {tenant:String} AND job IN {jobs:Array(String)}
      ORDER BY job, stored DESC LIMIT 1 BY job`
    const found = (await select<StoredJob>(query, { tenant, jobs })).filter(isOwn).map(jobOf)
    return new Map(found.map(job => [job.id, job]))
  }
  const list = async (tenant: string, options: ListOptions) =>
    (await select<StoredJob>(listOf(RECORD), filled(tenant, options))).filter(isOwn).map(jobOf)
  const listWhole = async (tenant: string, options: ListOptions) =>
    (await select<WholeStoredJob>(listOf(WHOLE), filled(tenant, options)))
      .filter(row => isOwn(row) && isWhole(row)).map(archivedOf)
  const select = async <T>(query: string, parameters: Record<string, unknown>) => {
    const answer = await clickhouse.query({
      query, query_params: parameters, format: 'JSONEachRow',
    })
    return await answer.json<T>()
  }
  return { save, find, findAll, list, listWhole }
}

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

type PackedEntry =
  [chunk: number, digest: string, won: string, firstRow: number, inputs: number]

type StoredJob = {
  readonly tenant: string
  readonly job: string
  readonly record: string
  readonly header: string
  readonly mac: string
}
type WholeStoredJob = StoredJob & { readonly manifest: string }

const COLUMNS = [
  'tenant', 'job', 'service', 'status', 'total_rows', 'charged_micros', 'released_micros',
  'created', 'ended', 'record', 'header_base64', 'manifest_base64', 'mac',
]

const RECORD = 'tenant, job, record, base64Encode(header) AS header, mac'
const WHOLE = `${RECORD}, base64Encode(manifest) AS manifest`

const listOf = (columns: string) => `
  SELECT ${columns} FROM jobs
  WHERE tenant = {tenant:String}
    AND ({before:String} = '' OR job < {before:String})
    AND ({status:String} = '' OR status = {status:String})
    AND ({service:String} = '' OR service = {service:String})
  ORDER BY job DESC, stored DESC LIMIT 1 BY job LIMIT {limit:UInt32}`

const filled = (
  tenant: string, { limit, before = '', status = '', service = '' }: ListOptions
) => ({ tenant, limit, before, status, service })

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
  { tenant, job, record, header }: Omit<StoredJob, 'mac'>
): SignedRecord =>
  ({ table: 'jobs', tenant, id: job, content: JSON.stringify([record, header]) })

/** A job is only read here once it is closed, although it was stored a moment before that. */
function jobOf ({ record, header }: StoredJob): Job {
  const { manifestDigest: _, ...stored } = JSON.parse(record) as SignedFields
  return { ...stored, closed: true, header: Buffer.from(header, 'base64') }
}

type SignedFields = Omit<Job, 'header'> & { readonly manifestDigest: string }

/** Whether the manifest is that of the record, which is signed. */
const isWhole = ({ record, manifest }: WholeStoredJob): boolean =>
  digestOf(Buffer.from(manifest, 'base64')) === (JSON.parse(record) as SignedFields).manifestDigest

function archivedOf (row: WholeStoredJob): ArchivedJob {
  return { job: jobOf(row), manifest: unpackManifest(Buffer.from(row.manifest, 'base64')) }
}
