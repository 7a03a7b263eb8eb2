import { decodeTime, ulid } from 'ulid'
import type { Lane, ServiceSlug } from '../topology.ts'

/** `job_` and a ULID in lower case; the moment is Redis time in ms. */
export function newJobId (nowMs: number): string {
  return `job_${ulid(nowMs).toLowerCase()}`
}

/**
 * When the job of an id was requested: Redis time in ms.
 * @throws Error for a text that is no id of a job.
 */
export function requestedAtMs (job: string): number {
  return decodeTime(job.slice('job_'.length).toUpperCase())
}

export const JOB_STATUSES = [
  'queued', 'preparing', 'verifying', 'completed', 'cancelling', 'cancelled', 'failed',
] as const

export type JobStatus = typeof JOB_STATUSES[number]

/**
 * Why a job was not accepted; `expired` and `internal` are answered with 503. `quoted`: only the
 * price was asked for, and no job was to come of it. `cursor_moved`: other contacts of its feed are
 * next, as some of its own may belong to a job already. `frozen`: something about the tenant's
 * money cannot be explained, and it moves again only once people have seen to it.
 */
export type Refusal =
  | {
    readonly code: 'insufficient_balance'
    readonly requiredMicros: number
    readonly availableMicros: number
  }
  | { readonly code: 'concurrent_jobs_limit' }
  | { readonly code: 'quoted', readonly preflight: Preflight }
  | { readonly code: 'cursor_moved' }
  | { readonly code: 'frozen' }
  | { readonly code: 'expired' }
  | { readonly code: 'internal' }

/** The frozen answer to a request: counts of rows, and the maximum price in USD micros. */
export type Preflight = {
  readonly totalRows: number
  readonly invalidRows: number
  readonly duplicateRows: number
  readonly cacheHits: number
  readonly freshChecks: number
  readonly maxQuoteMicros: number
  readonly quoteId: string
}

/** Where the contacts of a feed job came from. */
export type JobFeed = { readonly partner: string, readonly partition: number }

/** An accepted job, as Redis holds it while it runs and as ClickHouse holds it afterwards. */
export type Job = {
  readonly id: string
  readonly tenant: string
  readonly service: ServiceSlug
  readonly lane: Lane
  readonly status: JobStatus
  readonly preflight: Preflight
  readonly unitPriceMicros: number
  readonly chunks: number
  /** Only of a feed job. */
  readonly feed?: JobFeed
  readonly forceFresh: boolean
  /** Sealed metadata and webhook address (purpose `header`); empty when there are none. */
  readonly header: Buffer
  readonly createdAtMs: number
  readonly updatedAtMs: number
  readonly announced: boolean
  /** Made anew from the journal: not announced, and yet its parts may have been produced. */
  readonly rebuilt: boolean
  readonly ended: boolean
  readonly closed: boolean
  /** 0 until the job has ended. */
  readonly endedAtMs: number
  readonly counts: JobCounts
  readonly chargedMicros: number
  readonly releasedMicros: number
}

/**
 * What the tally has counted so far. Each finished row is counted in exactly one of `cacheHits`,
 * `freshRecords`, `invalidRecords`, `duplicateRecords`, `unknownRecords` and `cancelledRecords`.
 */
export type JobCounts = {
  readonly finishedRows: number
  readonly inputBlocks: number
  readonly cacheHits: number
  /** Originals with a verdict of a live check; these are charged. */
  readonly freshRecords: number
  readonly invalidRecords: number
  readonly duplicateRecords: number
  /** Originals that ended without a verdict, other than by a cancellation. */
  readonly unknownRecords: number
  readonly cancelledRecords: number
  /** Rows with a verdict, duplicates included. */
  readonly successRecords: number
  readonly failedRecords: number
}

/** One block that counts: which rows of it won, and where it stands. */
export type ManifestEntry = {
  readonly chunk: number
  /** Hex SHA-256 of the sealed bytes. */
  readonly digest: string
  /** Bitmap of the chunk: the rows this block was first to bring. */
  readonly won: Buffer
  readonly firstRow: number
  readonly inputs: boolean
}
