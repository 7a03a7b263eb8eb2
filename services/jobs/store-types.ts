import type { Journal, Submitted } from '../../schemas/types.ts'
import type { Job, ManifestEntry, Refusal } from './job.ts'

/** Arguments and results of the steps of a job: claim, accept, tally, fail, close. */

export type ClaimRequest = {
  /** Id of the new job; its timestamp is Redis time. */
  readonly job: string
  /** Empty when the request has none. */
  readonly idempotencyKey: string
  /** HMAC of the canonical body. */
  readonly fingerprint: string
  readonly acceptWithinMs: number
  /** The data key of the job, wrapped by the key ring. */
  readonly wrappedKey: Buffer
  /** True for a quote: its outcome is the refusal `quoted`. */
  readonly quoteOnly?: boolean
  /** Id of the process that sends the rows, if other processes can see whether it is alive. */
  readonly owner?: string
  /** Id of the API key of the request. */
  readonly apiKey?: string
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
  /** Only of a feed job; it is refused unless its cursor is at `from`. */
  readonly feed?: Feed
}

/** A text for the requests that wait for a job, which `tally` sends with its end. */
export type Attachment = {
  /** '' for none. */
  readonly attached: string
  /** Keep it with the job until that is closed. */
  readonly keeps: boolean
}

/** `entry`: the reserve entry, while the outbox holds it. */
export type Accepted =
  | { readonly kind: 'accepted', readonly job: Job, readonly entry: Journal | undefined }
  | { readonly kind: 'refused', readonly refusal: Refusal }

/**
 * `open`: undecided. An accepted job may not be announced yet. Only `refuse` returns `entry`, the
 * reserve entry while the outbox holds it, and `forgotten`: Redis has no record of the claim, and
 * its job may have been accepted and closed long ago.
 */
export type Outcome =
  | { readonly kind: 'accepted', readonly job: Job, readonly entry?: Journal | undefined }
  | { readonly kind: 'refused', readonly refusal: Refusal, readonly forgotten?: true }
  | { readonly kind: 'open' }

/**
 * The counts of a block; the bitmaps of its chunk have equal length, least significant bit first.
 */
export type TallyBlock = {
  readonly job: string
  readonly chunk: number
  /** Hex SHA-256 of the sealed bytes. */
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

/** `ended`: the job has ended already. */
export type Cancelled =
  | { readonly kind: 'cancelling' | 'ended', readonly job: Job }
  | { readonly kind: 'unknown' }

export type OpenJob = {
  readonly job: string
  /** Redis time of its acceptance, its end or its recovery; its record has that of its progress. */
  readonly sinceMs: number
}
