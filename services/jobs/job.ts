import type { EventType } from '../../schemas/api/event.ts'
import type { JOB_STATES } from '../../schemas/api/job.ts'
import { newId, timeOfId } from '../runtime/platform/ids.ts'
import type { Lane, ServiceSlug } from '../topology.ts'

/** Returns `job_` and a ULID in lower case; `nowMs` is Redis time. */
export function newJobId (nowMs: number): string {
  return newId('job', nowMs)
}

/**
 * The time in a job id, when the job was requested: Redis time in ms.
 * @throws Error for a text that is not a job id.
 */
export function requestedAtMs (job: string): number {
  return timeOfId(job)
}

export type JobStatus = typeof JOB_STATES[number]

/**
 * Why a job was not accepted; `expired` and `internal` are answered with 503. `quoted`: the request
 * was for a quote only. `cursor_moved`: the cursor of its feed has moved, so some of its contacts
 * may belong to another job already. `frozen`: the wallet is frozen because of an inconsistency,
 * until an operator thaws it.
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

/** The preflight of a request: counts of rows, and the maximum price in USD micros. */
export type Preflight = {
  readonly totalRows: number
  readonly invalidRows: number
  readonly duplicateRows: number
  readonly cacheHits: number
  readonly freshChecks: number
  readonly maxQuoteMicros: number
  readonly quoteId: string
}

/** The feed partition that the contacts of a job come from. */
export type JobFeed = { readonly partner: string, readonly partition: number }

/** An accepted job: in Redis while it runs, in ClickHouse once it is closed. */
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
  /** Id of the API key that created the job; none for feed jobs and those of older releases. */
  readonly apiKey?: string
  readonly forceFresh: boolean
  /** Sealed metadata and webhook address; empty without both. */
  readonly header: Buffer
  readonly createdAtMs: number
  readonly updatedAtMs: number
  readonly announced: boolean
  /**
   * True if the job was rebuilt from the journal: its messages may be produced without `announced`.
   */
  readonly rebuilt: boolean
  readonly ended: boolean
  readonly closed: boolean
  /** 0 until the job has ended. */
  readonly endedAtMs: number
  readonly counts: JobCounts
  readonly chargedMicros: number
  readonly releasedMicros: number
  /** The events before its end that had a subscriber when it was accepted; absent for none. */
  readonly events?: readonly EventType[]
  /** Only if its reservation took the available balance below the threshold of the policy. */
  readonly lowBalance?: LowBalance
}

/** A balance that fell below a threshold. */
export type LowBalance = { readonly thresholdMicros: number, readonly availableMicros: number }

/**
 * The fall below a threshold by a reservation: the balance was at least as high before it.
 * Undefined for a balance that is still as high, or was low already.
 */
export function lowBalanceOf (
  { thresholdMicros, reservedMicros, availableMicros }: LowBalance & {
    /** Amount of the reservation. */
    readonly reservedMicros: number
  }
): LowBalance | undefined {
  const isCrossed = availableMicros < thresholdMicros &&
    availableMicros + reservedMicros >= thresholdMicros
  return isCrossed ? { thresholdMicros, availableMicros } : undefined
}

/**
 * The rows that are counted so far. Each finished row is counted in exactly one of `cacheHits`,
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
  /** Originals without a verdict, except cancelled ones. */
  readonly unknownRecords: number
  readonly cancelledRecords: number
  /** Rows with a verdict, duplicates included. */
  readonly successRecords: number
  readonly failedRecords: number
}

/** A block that counts: its chunk and the rows that it was the first to finish. */
export type ManifestEntry = {
  readonly chunk: number
  /** Hex SHA-256 of the sealed bytes. */
  readonly digest: string
  /** Bitmap of the chunk: the rows that this block was the first to finish. */
  readonly won: Buffer
  readonly firstRow: number
  readonly inputs: boolean
}
