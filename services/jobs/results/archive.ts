import { hash } from 'node:crypto'
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import { encodeTime } from 'ulid'
import type { UsageGroup } from '../../../schemas/api/account.ts'
import { USAGE_COUNTERS } from '../../../schemas/api/job.ts'
import { ROW_STATUSES } from '../../../schemas/api/verdicts.ts'
import { verdictsBody } from '../job-view.ts'
import type { Job, ManifestEntry } from '../job.ts'
import type { RecordMac, SignedRecord } from '../../runtime/crypto/mac.ts'
import { type Clickhouse, insertDivided } from '../../runtime/platform/clickhouse.ts'
import { InfrastructureError } from '../../runtime/platform/errors.ts'
import { eventLoop } from '../../runtime/platform/limits.ts'
import type { JobStore } from '../store.ts'

/** A job that has ended, with the manifest of its result blocks. */
export type ArchivedJob = { readonly job: Job, readonly manifest: readonly ManifestEntry[] }

export type ListOptions = {
  readonly limit: number
  /** Only jobs with a smaller id, which are older ones. */
  readonly before?: string
  readonly status?: string
  readonly service?: string
  /** Only jobs created from here on. */
  readonly fromMs?: number
  /** Only jobs created before this time. */
  readonly toMs?: number
}

export type Archive = {
  /** Stores final records in one insert. Of several of a job, reads return the latest end. */
  readonly save: (jobs: readonly ArchivedJob[]) => Promise<void>
  /** @throws InfrastructureError when the job has rows, and all of them are forged. */
  readonly find: (tenant: string, job: string) => Promise<ArchivedJob | undefined>
  /** The stored ones of several jobs of these tenants, by id. */
  readonly findAll: (
    tenants: readonly string[], jobs: readonly string[]
  ) => Promise<ReadonlyMap<string, Job>>
  /** The stored ones of several jobs of a tenant, with manifests, each job once. */
  readonly findAllWithManifest: (
    tenant: string, jobs: readonly string[]
  ) => Promise<readonly ArchivedJob[]>
  /** Newest first: ids sort by the time of the request. */
  readonly list: (tenant: string, options: ListOptions) => Promise<readonly Job[]>
  /** The jobs created in a time range, each once, in the order of their requests. */
  readonly createdBetween: (
    tenant: string, range: { readonly fromMs: number, readonly toMs: number }
  ) => AsyncIterable<Job>
  /** The jobs of all tenants that ended since a time in Unix ms, each once. */
  readonly endedSince: (endedMs: number) => AsyncIterable<Job>
  /** The same as `list` with the manifests. */
  readonly listWithManifest: (
    tenant: string, options: ListOptions
  ) => Promise<readonly ArchivedJob[]>
}

/** Growth of a page that forged rows or duplicates have filled. */
const PAGE_GROWTH = 16

/**
 * The archive of ended jobs in ClickHouse, read once Redis keeps no more than their header. Skips
 * rows without a valid MAC; forged rows cost time and never hide authentic ones.
 */
export function createArchive (clickhouse: Clickhouse, mac: RecordMac): Archive {
  const save = async (jobs: readonly ArchivedJob[]) => {
    const values = jobs.map(job => archiveRow(mac, job))
    // Made of MACs: with a predictable token an attacker could make ClickHouse drop the insert.
    const token = hash('sha256', values.map(row => row.mac).join())
    await insertDivided(clickhouse, { table: 'jobs', values, token })
  }
  const isAuthentic = (row: StoredJob) =>
    mac.isAuthentic(row.mac, toSignedRecord(row)) && hasSignedManifest(row)
  const select = (query: string, parameters: Record<string, unknown>, onRow = () => {}) =>
    keepLatest(clickhouse.stream<StoredJob>(query, parameters), row => {
      onRow()
      return isAuthentic(row)
    })
  const find = async (tenant: string, job: string) => {
    let rows = 0
    const { value: authentic } = await select(FIND, { tenant, job }, () => { rows++ }).next()
    if (authentic === undefined && rows > 0) {
      throw new InfrastructureError(`job ${job} has no record with a valid MAC in ClickHouse: ` +
        'another client wrote it, or MESSAGE_KEYS lacks the key that signed it')
    }
    return authentic
  }
  const findAll = async (tenants: readonly string[], jobs: readonly string[]) => {
    const byId = new Map<string, Job>()
    for await (const { job } of select(FIND_ALL, { tenants, jobs })) byId.set(job.id, job)
    return byId
  }
  const findAllWithManifest = async (tenant: string, jobs: readonly string[]) => {
    const archivedJobs: ArchivedJob[] = []
    const rows = select(FIND_ALL_WITH_MANIFEST, { tenants: [tenant], jobs })
    for await (const archived of rows) archivedJobs.push(archived)
    return archivedJobs
  }
  const page = async (columns: string, tenant: string, options: ListOptions) => {
    const { limit, before = '', status = '', service = '', fromMs, toMs } = options
    const query = selectPage(columns)
    // The rows of a job are complete once another job or the end follows them.
    for (let maxRows = limit + 1; ; maxRows *= PAGE_GROWTH) {
      const listed: ArchivedJob[] = []
      let rows = 0
      const parameters = { tenant, before, status, service, ...idRange(fromMs, toMs), maxRows }
      for await (const archived of select(query, parameters, () => { rows++ })) {
        if (isListed(archived.job, options)) listed.push(archived)
        if (listed.length > limit) break
      }
      if (listed.length > limit || rows < maxRows) return listed.slice(0, limit)
    }
  }
  return {
    save,
    find,
    createdBetween: async function * (tenant, range) {
      const ids = idRange(range.fromMs, range.toMs)
      for await (const { job } of select(SELECT_RANGE, { tenant, ...ids })) {
        if (isCreatedIn(job, range)) yield job
      }
    },
    endedSince: async function * (endedMs) {
      for await (const { job } of select(SELECT_ENDED, { endedMs })) yield job
    },
    findAll,
    findAllWithManifest,
    list: async (...of) => (await page(RECORD, ...of)).map(({ job }) => job),
    listWithManifest: (...of) => page(WITH_MANIFEST, ...of),
  }
}

/** A job, from Redis, or from the archive once Redis has forgotten it. */
export async function findStoredJob (
  { store, archive }: {
    readonly store: Pick<JobStore, 'read'>, readonly archive: Pick<Archive, 'find'>
  }, tenant: string, job: string
): Promise<Job | undefined> {
  return await store.read(tenant, job) ?? (await archive.find(tenant, job))?.job
}

/** Returns each job once, in the order of the rows, which are grouped by job. */
async function * keepLatest (
  rows: AsyncIterable<StoredJob>, isAuthentic: (row: StoredJob) => boolean
): AsyncGenerator<ArchivedJob, undefined> {
  let last: ArchivedJob | undefined
  for await (const row of rows) {
    if (!isAuthentic(row)) continue
    const { manifest, header } = row
    const { manifestDigest: _, ...stored } = JSON.parse(row.record) as SignedFields
    // Records of older releases have no verdicts.
    const { verdicts = {} } = stored
    const next = {
      // The record is stored just before the job is closed.
      job: { ...stored, verdicts, closed: true, header: Buffer.from(header, 'base64') },
      manifest: manifest === undefined ? [] : unpackManifest(Buffer.from(manifest, 'base64')),
    }
    if (last !== undefined && last.job.id !== next.job.id) {
      yield last
      last = undefined
    }
    if (last === undefined || next.job.endedAtMs > last.job.endedAtMs) last = next
  }
  if (last !== undefined) yield last
  return undefined
}

/** Checks the signed record, as the columns that the query filters by are not signed. */
const isListed = (job: Job, options: ListOptions): boolean => {
  const { status = '', service = '' } = options
  return (status === '' || job.status === status) && (service === '' || job.service === service) &&
    isCreatedIn(job, options)
}

function isCreatedIn (
  { createdAtMs }: Job,
  { fromMs = -Infinity, toMs = Infinity }: Pick<ListOptions, 'fromMs' | 'toMs'>
): boolean {
  return createdAtMs >= fromMs && createdAtMs < toMs
}

/** The id of a job has the time of its request, a moment before or after its creation. */
const ID_SKEW_MS = 60_000

/** The ids of the jobs that may have been created in a range: `first` included, `last` excluded. */
function idRange (fromMs = 0, toMs = Infinity): { readonly first: string, readonly last: string } {
  const idAt = (ms: number) => `job_${encodeTime(ms).toLowerCase()}`
  return {
    first: idAt(Math.max(0, fromMs - ID_SKEW_MS)),
    last: idAt(Math.min(toMs + ID_SKEW_MS, MAX_ID_MS)),
  }
}

/** The largest time of a ULID. */
const MAX_ID_MS = 2 ** 48 - 1

/** Packs a manifest for storage: zstd of JSON, one array per entry. */
function packManifest (manifest: readonly ManifestEntry[]): Buffer {
  const entries = manifest.map(({ chunk, digest, won, firstRow, inputs, order = 0 }) =>
    [chunk, digest, won.toString('base64'), firstRow, inputs ? 1 : 0, order] satisfies PackedEntry)
  return zstdCompressSync(JSON.stringify(entries))
}

/** Unpacks a stored manifest. */
function unpackManifest (packed: Buffer): readonly ManifestEntry[] {
  const entries = JSON.parse(zstdDecompressSync(packed).toString('utf8')) as readonly PackedEntry[]
  return entries.map(([chunk, digest, won, firstRow, inputs, order = 0]) => ({
    chunk,
    digest,
    won: Buffer.from(won, 'base64'),
    firstRow,
    inputs: inputs === 1,
    order: order === 0 ? undefined : order,
  }))
}

type PackedEntry =
  [chunk: number, digest: string, won: string, firstRow: number, inputs: number,
    order?: number]

type StoredJob = {
  readonly tenant: string
  readonly job: string
  readonly record: string
  readonly header: string
  readonly mac: string
  /** Undefined if not selected. */
  readonly manifest?: string
}

const RECORD = 'tenant, job, record, base64Encode(header) AS header, mac'
const WITH_MANIFEST = `${RECORD}, base64Encode(manifest) AS manifest`

const FIND = `
  SELECT ${WITH_MANIFEST} FROM jobs WHERE tenant = {tenant:String} AND job = {job:String}`

const selectAll = (columns: string) => `
  SELECT ${columns} FROM jobs
  WHERE tenant IN {tenants:Array(String)} AND job IN {jobs:Array(String)} ORDER BY job`
const FIND_ALL = selectAll(RECORD)
const FIND_ALL_WITH_MANIFEST = selectAll(WITH_MANIFEST)

const selectPage = (columns: string) => `
  SELECT ${columns} FROM jobs
  WHERE tenant = {tenant:String}
    AND ({before:String} = '' OR job < {before:String})
    AND ({status:String} = '' OR status = {status:String})
    AND ({service:String} = '' OR service = {service:String})
    AND job >= {first:String} AND job < {last:String}
  ORDER BY job DESC LIMIT {maxRows:UInt64}`

const SELECT_RANGE = `
  SELECT ${RECORD} FROM jobs
  WHERE tenant = {tenant:String} AND job >= {first:String} AND job < {last:String} ORDER BY job`

const SELECT_ENDED = `
  SELECT ${RECORD} FROM jobs
  WHERE ended >= fromUnixTimestamp64Milli({endedMs:Int64}) ORDER BY job`

/** The signed row of a final record. */
export function archiveRow (mac: RecordMac, { job, manifest }: ArchivedJob) {
  const { header: sealed, ...fields } = job
  const packed = packManifest(manifest)
  const record = JSON.stringify({ ...fields, manifestDigest: hash('sha256', packed) })
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
    mac: mac.sign(toSignedRecord({ ...of, record, header })),
  }
}

/** The signed content: the tenant, the job and the record. */
const toSignedRecord = (
  { tenant, job, record, header }: Omit<StoredJob, 'mac' | 'manifest'>
): SignedRecord =>
  ({ table: 'jobs', tenant, id: job, content: JSON.stringify([record, header]) })

type SignedFields = Omit<Job, 'header' | 'verdicts'> &
  { readonly verdicts?: Job['verdicts'], readonly manifestDigest: string }

/** Whether the manifest matches its digest in the signed record. */
const hasSignedManifest = ({ record, manifest }: StoredJob): boolean => manifest === undefined ||
  hash('sha256', Buffer.from(manifest, 'base64')) ===
    (JSON.parse(record) as SignedFields).manifestDigest

type GroupName = 'day' | 'service' | 'key'
type UsageCounts = Omit<UsageGroup, GroupName>

export type UsageOptions = {
  /** Jobs created from here on, and before `toMs`. */
  readonly fromMs: number
  readonly toMs: number
  readonly groupBy: readonly GroupName[]
  /** The most jobs to read, `MAX_USAGE_JOBS` by default. */
  readonly maxJobs?: number
}

/** Groups in their order, and their sum; `too_many`: the range has too many jobs to be read. */
export type Usage =
  | { readonly kind: 'usage', readonly groups: readonly UsageGroup[], readonly total: UsageCounts }
  | { readonly kind: 'too_many', readonly maxJobs: number }

/** Reading so many records takes some seconds. */
const MAX_USAGE_JOBS = 250_000
/** Records that are verified and added in about two milliseconds. */
const JOBS_PER_SLOT = 50

/**
 * Adds up the final records of a tenant. Sums of ClickHouse would include forged rows, and a job
 * twice that is stored twice; so every record is verified here, and each job counts once.
 */
export async function readUsage (
  archive: Archive, tenant: string, options: UsageOptions
): Promise<Usage> {
  const { maxJobs = MAX_USAGE_JOBS } = options
  const total = noCounts()
  const groups = new Map<string, UsageGroup>()
  for await (const job of archive.createdBetween(tenant, options)) {
    if (total.jobs === maxJobs) return { kind: 'too_many', maxJobs }
    if (total.jobs % JOBS_PER_SLOT === 0) await eventLoop.yield('bulk', tenant)
    const name = groupName(job, options.groupBy)
    const key = JSON.stringify(Object.values(name))
    const group = groups.get(key) ?? { ...name, ...noCounts() }
    groups.set(key, group)
    addJob(total, job)
    addJob(group, job)
  }
  const sorted = [...groups].sort(([key], [other]) => key < other ? -1 : 1)
  return { kind: 'usage', groups: sorted.map(([, group]) => group), total }
}

function groupName (job: Job, groupBy: readonly GroupName[]): Pick<UsageGroup, GroupName> {
  const names = {
    day: new Date(job.createdAtMs).toISOString().slice(0, 10),
    service: job.service,
    key: job.apiKey ?? null,
  }
  return Object.fromEntries(groupBy.map(name => [name, names[name]]))
}

const noCounts = (): UsageCounts => ({
  jobs: 0,
  totalRows: 0,
  cacheHits: 0,
  freshRecords: 0,
  invalidRecords: 0,
  duplicateRecords: 0,
  unknownRecords: 0,
  cancelledRecords: 0,
  successRecords: 0,
  failedRecords: 0,
  chargedMicros: 0,
  verdicts: { valid: 0, invalid: 0, risky: 0, unknown: 0 },
})

const ROW_COUNTS = [...USAGE_COUNTERS, 'successRecords', 'failedRecords'] as const

function addJob (sum: UsageCounts, job: Job): void {
  const { preflight, counts, chargedMicros } = job
  sum.jobs += 1
  sum.totalRows += preflight.totalRows
  for (const name of ROW_COUNTS) sum[name] += counts[name]
  sum.chargedMicros += chargedMicros
  const { verdicts } = verdictsBody(job)
  if (verdicts === null) return
  for (const status of ROW_STATUSES) sum.verdicts[status] += verdicts[status]
}
