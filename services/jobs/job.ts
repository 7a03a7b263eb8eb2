import type { EventType } from '../../schemas/api/webhooks.ts'
import type { JOB_STATES } from '../../schemas/api/job.ts'
import type { Reason } from '../../schemas/api/verdicts.ts'
import { newId, timeOfId } from '../runtime/platform/ids.ts'
import type { Lane, ServiceSlug } from '../topology.ts'
import type { Completed, Journal, Submitted } from '../../schemas/types.ts'

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
  | {
    readonly code: 'quoted'
    readonly preflight: Preflight
    /** Redis time when it is forgotten. */
    readonly expiresAtMs: number
    /** As wanted by the submission; absent for a list that is too small. */
    readonly sample?: QuoteSample
  }
  | { readonly code: 'cursor_moved' }
  | { readonly code: 'frozen' }
  | { readonly code: 'expired' }
  | { readonly code: 'internal' }

/** The rows that stand for a list; only a quote has them, of a list that is large enough. */
export type QuoteSample = {
  /** 16 bytes in hex: the same for all lists with the same contacts in the sample. */
  readonly digest: string
  /** Their indexes in the list, from 0. */
  readonly rows: readonly number[]
}

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
  /** Redis time at which its open rows end without a verdict; only of a job with a deadline. */
  readonly deadlineMs?: number
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
  readonly verdicts: VerdictCounts
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
export function checkLowBalance (
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

/**
 * Rows by status and reason, such as `valid deliverable`. An original counts together with its
 * duplicates, as in `successRecords` and `failedRecords`, so both have the same sum, unless rows
 * were counted by an older release, or duplicates were lost: then the verdicts are not known.
 */
export type VerdictCounts = Readonly<Record<string, number>>

/** A block that counts: its chunk and the rows that it was the first to finish. */
export type ManifestEntry = {
  readonly chunk: number
  /** See `blockDigest`. */
  readonly digest: string
  /** Bitmap of the chunk: the rows that this block was the first to finish. */
  readonly won: Buffer
  readonly firstRow: number
  readonly inputs: boolean
  /**
   * Its number, from 1, in the order in which the blocks of the job were counted; absent if an
   * older release counted it.
   */
  readonly order?: number | undefined
}

// Arguments and results of the steps of a job: claim, accept, tally, fail, close.

export type ClaimRequest = {
  /** Id of the new job; its timestamp is Redis time. */
  readonly job: string
  /** Empty when the request has none. */
  readonly idempotencyKey: string
  /** See `Submission`: the first is bound, and a key that any of them is bound to is the same. */
  readonly fingerprint: string
  readonly otherFingerprints?: readonly string[] | undefined
  readonly acceptWithinMs: number
  /** The data key of the job, wrapped by the key ring. */
  readonly wrappedKey: Buffer
  /** True for a quote: its outcome is the refusal `quoted`. */
  readonly quoteOnly?: boolean
  /** Id of the process that sends the rows, if other processes can see whether it is alive. */
  readonly owner?: string
  /** Id of the API key of the request. */
  readonly apiKey?: string
  /** The deadline of the job, counted from the claim; absent for none. */
  readonly endWithinMs?: number | undefined
}

/**
 * `same`: the key belongs to a job of the same request. Then `acceptByMs` is 0 for a closed job
 * that only the archive knows; `owner` is the process that sends its rows, or '' if the job is
 * accepted or the process is unknown. `reused`: the key belongs to another request.
 */
export type IdempotencyClaim =
  | { readonly kind: 'new', readonly nowMs: number, readonly acceptByMs: number }
  | {
    readonly kind: 'same'
    readonly job: string
    readonly acceptByMs: number
    readonly owner: string
  }
  | { readonly kind: 'reused' }

/** The source of a feed job, the cursor that it moves, and its price. */
export type Feed = NonNullable<Submitted['feed']>

export type AcceptRequest = Pick<Job,
  'id' | 'service' | 'lane' | 'preflight' | 'unitPriceMicros' | 'chunks' | 'forceFresh' |
  'header' | 'createdAtMs' | 'events'
> & {
  /** Empty when the request had none. */
  readonly idempotencyKey: string
  readonly acceptByMs: number
  /** Maximum of concurrent jobs of the organization that check rows live. */
  readonly maxActiveJobs: number
  /** A reservation that takes the balance below it is reported by the event `balance.low`. */
  readonly lowBalanceMicros?: number
  /** Only of a quote. */
  readonly sample?: QuoteSample
  /** Only of a feed job; it is refused unless its cursor is at `from`. */
  readonly feed?: Feed
}

/** The results of a small job, which `tally` sends with its end to the requests that wait. */
export type InlineResults = {
  /** See `packInlineResults`; '' for none. */
  readonly text: string
  /** Keep it with the job until that is closed. */
  readonly keeps: boolean
}

/**
 * An accepted job may not be announced yet. Only `accept` and `refuse` return `entry`, the reserve
 * entry while the outbox holds it, and only `refuse` returns `forgotten`: Redis has no record of
 * the claim, and its job may have been accepted and closed long ago.
 */
export type DecidedOutcome =
  | { readonly kind: 'accepted', readonly job: Job, readonly entry?: Journal | undefined }
  | { readonly kind: 'refused', readonly refusal: Refusal, readonly forgotten?: true }

/** `open`: undecided. */
export type Outcome = DecidedOutcome | { readonly kind: 'open' }

/**
 * The counts of a block; the bitmaps of its chunk have equal length, least significant bit first.
 */
export type TallyBlock = {
  readonly job: string
  readonly chunk: number
  /** See `blockDigest`. */
  readonly digest: string
  /** True if the block contains all inputs of its chunk. */
  readonly inputs: boolean
  /**
   * True if it replaces unreadable blocks. Its inputs are blank, so real inputs are stored even
   * after it.
   */
  readonly replacesLost: boolean
  /** Index within the job, from 0, of the first row of the chunk. */
  readonly firstRow: number
  readonly finished: Buffer
  readonly cached: Buffer
  /** Charged. */
  readonly live: Buffer
  readonly invalid: Buffer
  readonly unknown: Buffer
  readonly cancelled: Buffer
  /** Originals with duplicates: index within the chunk, number of duplicates. */
  readonly duplicates: readonly { readonly row: number, readonly count: number }[]
  /** The originals by status and reason; null in a block of an older release. */
  readonly verdicts: Completed['verdicts']
}

/** All open rows of a stalled job in one block: chunk number = chunks of the job, first row 0. */
export type FailBlock = {
  /** Empty if the data key of the job is lost: then no row is charged. */
  readonly digest: string
  /** Bitmap of the whole job: the rows that `unfinishedRows` returned. */
  readonly finished: Buffer
}

/**
 * `counted`: the block is counted now, even if it won no row. `known`: it was counted before, or
 * the job has ended without it. `ended`: the job can be closed; `entry` is its settle or void entry
 * while the outbox holds it; `manifest` is there if the step that ended the job counted all of its
 * blocks. `skip`: the job is closed or was never accepted.
 */
export type Tallied =
  | {
    readonly kind: 'counted' | 'known'
    readonly ended: boolean
    readonly job: Job
    readonly entry: Journal | undefined
    readonly manifest?: readonly ManifestEntry[]
  }
  | { readonly kind: 'skip' }

/**
 * What to do with a verification batch. `cancelling`: end its rows free. `skip`: emit nothing.
 * `deadlineMs` as in `Job`.
 */
export type BatchAction = {
  readonly action: 'run' | 'cancelling' | 'skip'
  readonly deadlineMs?: number
}

/** The rows of a verification batch that wait for their next check. */
export type WaitingBatch = {
  /** The number of rows by the reason why they have no verdict yet; without zeros. */
  readonly reasons: Readonly<Partial<Record<Reason, number>>>
  /** Redis time when the last of them is due. */
  readonly lastDueMs: number
  /** How many are due and wait for their turn; absent in records of earlier releases: all. */
  readonly dueRows?: number | undefined
  /** Redis time when they end without an answer; absent in records of earlier releases. */
  readonly deadlineMs?: number | undefined
}

/** The rows of a job that wait, of all its batches; times are those of its last batch. */
export type WaitingRows = WaitingBatch & {
  readonly rows: number
  readonly dueRows: number
  /** How many rows of the job had an answer at a Redis time some minutes ago. */
  readonly earlier?: { readonly atMs: number, readonly answered: number } | undefined
}

/** `ended`: the job has ended already. */
export type Cancelled =
  | { readonly kind: 'cancelling' | 'ended', readonly job: Job }
  | { readonly kind: 'unknown' }

export type OpenJob = {
  readonly job: string
  /** Redis time of its acceptance, its end or its recovery; its record has that of its progress. */
  readonly sinceMs: number
}
