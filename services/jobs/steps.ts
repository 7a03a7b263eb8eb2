import type { Journal, Submitted } from '../../schemas/types.ts'
import type { Job, Refusal } from './job.ts'

/** What the steps of a job's way take, and what they answer. */

export type ClaimRequest = {
  /** Id of the job to be, its time part by Redis time. */
  readonly job: string
  /** Empty when the request has none. */
  readonly idempotencyKey: string
  /** HMAC of the canonical body. */
  readonly fingerprint: string
  readonly acceptWithinMs: number
  /** True for a request that wants its price alone: its outcome is the refusal `quoted`. */
  readonly quoteOnly?: boolean
  /** The process that brings the rows on their way, if others can tell whether it lives. */
  readonly owner?: string
}

/**
 * `same`: the key belongs to a job of the same request; `acceptByMs` is 0 once that was closed so
 * long ago that the archive alone knows it; `owner` is who brings its rows on their way, or '' once
 * it is accepted or if nobody can tell. `reused`: the key belongs to another request.
 */
export type Claim =
  | { readonly kind: 'new', readonly nowMs: number, readonly acceptByMs: number }
  | {
    readonly kind: 'same'
    readonly job: string
    readonly acceptByMs: number
    readonly owner: string
  }
  | { readonly kind: 'reused' }

/** Where the contacts of a feed job came from, which cursor it moves, and its price. */
export type Feed = NonNullable<Submitted['feed']>

export type AcceptRequest = Pick<Job,
  'id' | 'service' | 'lane' | 'preflight' | 'unitPriceMicros' | 'chunks' | 'forceFresh' |
  'header' | 'createdAtMs'
> & {
  /** Empty when the request had none. */
  readonly idempotencyKey: string
  readonly acceptByMs: number
  /** How many jobs with fresh rows the organization may have at a time. */
  readonly maxActiveJobs: number
  /** Only of a feed job, which is refused unless its cursor stands where it says. */
  readonly feed?: Feed
}

/** `entry`: the reserve entry, while the outbox holds it. */
export type Accepted =
  | { readonly kind: 'accepted', readonly job: Job, readonly entry: Journal | undefined }
  | { readonly kind: 'refused', readonly refusal: Refusal }

/**
 * `open`: nothing is decided yet. An accepted job may not be announced yet. `entry`: its reserve
 * entry while the outbox holds it, which only `refuse` tells. `forgotten`, told by `refuse` alone:
 * Redis has nothing of the claim, and its job may have been accepted and closed long ago.
 */
export type Outcome =
  | { readonly kind: 'accepted', readonly job: Job, readonly entry?: Journal | undefined }
  | { readonly kind: 'refused', readonly refusal: Refusal, readonly forgotten?: true }
  | { readonly kind: 'open' }

/**
 * What a block says of its chunk; the bitmaps have the same length, least significant bit first.
 */
export type TallyBlock = {
  readonly job: string
  readonly chunk: number
  /** Hex SHA-256 of the sealed bytes. */
  readonly digest: string
  /** True when the block holds all inputs of its chunk. */
  readonly inputs: boolean
  /**
   * True when it stands in for blocks nobody can read: its inputs are blank, so others are noted
   * after them.
   */
  readonly standsIn: boolean
  /** Index within the job, from 0, of the first row of the chunk. */
  readonly firstRow: number
  readonly finished: Buffer
  readonly cached: Buffer
  /** Charged. */
  readonly live: Buffer
  readonly invalid: Buffer
  readonly unknown: Buffer
  readonly cancelled: Buffer
  /** Originals that have duplicates: index within the chunk, number of duplicates. */
  readonly copies: readonly { readonly row: number, readonly copies: number }[]
}

/** All open rows of a stalled job in one block: chunk number = chunks of the job, first row 0. */
export type FailBlock = {
  /** Empty when nothing can be sealed for the job: its rows are lost, and none is charged. */
  readonly digest: string
  /** Bitmap of the whole job, exactly the rows `openRows` told. */
  readonly finished: Buffer
}

/**
 * `counted`: the block was counted now, even if it won no row. `known`: it was counted before, or
 * the job has ended without it. `ended`: the job waits to be closed; `entry` is its settle (or
 * void) entry, while the outbox holds it. `skip`: the job is closed or was never accepted.
 */
export type Tallied =
  | {
    readonly kind: 'counted' | 'known'
    readonly ended: boolean
    readonly job: Job
    readonly entry: Journal | undefined
  }
  | { readonly kind: 'skip' }

/** `ended`: the job came to its end before. */
export type Cancelled =
  | { readonly kind: 'cancelling' | 'ended', readonly job: Job }
  | { readonly kind: 'unknown' }

export type OpenJob = {
  readonly job: string
  /** When it was accepted, or a block last won a row of it; Redis time. */
  readonly progressAtMs: number
}
