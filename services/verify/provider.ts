import type { ServiceSlug } from '../topology.ts'
import type { CheckedRecord } from '../cache/cache.ts'
import type { OptionName } from '../jobs/options.ts'

/** One contact to check. Answers repeat `row`, by which they are matched. */
export type ProviderRow = {
  /** Its position in the batch. */
  readonly row: number
  readonly canonical: string
  /** How often it has waited for a host, see `ProviderAnswer.retry`; never if left out. */
  readonly tries?: number
}

/** A verdict without the time of its check, which the stage adds. */
export type ProviderVerdict = Omit<CheckedRecord, 'checkedAtMs'>

const UNKNOWN = { status: 'unknown', confidence: 0, fields: {} } as const

/** The verdict of a row that no answer names. */
export const NO_ANSWER: ProviderVerdict = { ...UNKNOWN, reason: 'no_answer' }
/** The verdict of a row that a vendor may have, if there is no answer until the deadline. */
export const NOT_YET: ProviderVerdict = { ...UNKNOWN, reason: 'timeout' }
/** The verdict of a row whose answer is not understood, or contradicts itself. */
export const UNCLEAR: ProviderVerdict = { ...UNKNOWN, reason: 'unclear_answer' }

/** When a row is due again, unless its deadline comes first. */
export type RetryTime = {
  /** 0 is the next check of the batch. */
  readonly afterMs: number
  /** Its host was not asked, as others use what it takes, so that this was no try. */
  readonly isForTurn?: true
}

/**
 * `retry`: another check may have a better verdict. Until the retry deadline of the batch only this
 * row is checked again; then this verdict counts. One with a `RetryTime` waits for a host, perhaps
 * for hours.
 */
export type ProviderAnswer = {
  readonly row: number
  readonly verdict: ProviderVerdict
  readonly retry?: true | RetryTime
}

/**
 * Rows of a verification batch that a vendor has, or may have, as one task. `task` is missing until
 * the reply of the vendor is recorded: then it is not known whether the vendor has accepted them.
 */
export type VendorSubmission = {
  /** Id of the provider. */
  readonly provider: number
  /** Our name of the task, derived from job, chunk, batch, provider and rows. */
  readonly reference: string
  readonly task?: string
  /** Redis time, like the deadline, at which its open rows end without a verdict. */
  readonly submittedAtMs: number
  readonly deadlineMs: number
  /** Milliseconds between two questions for its answers. */
  readonly pollMs: number
}

/** What vendors that take batches have of one verification batch; all writes are durable. */
export type Submissions = {
  /** Redis time. */
  readonly now: () => number
  /** The newest submission with the row at this position. */
  readonly of: (position: number) => VendorSubmission | undefined
  /** Records the intention to submit the rows at these positions, before the vendor is called. */
  readonly begin: (
    positions: readonly number[],
    terms: Pick<VendorSubmission, 'provider' | 'deadlineMs' | 'pollMs'>,
  ) => Promise<VendorSubmission>
  /** Records the task that the vendor has made of it. */
  readonly accept: (submission: VendorSubmission, task: string) => Promise<void>
  /** Forgets a submission that the vendor has not accepted. */
  readonly drop: (submission: VendorSubmission) => Promise<void>
}

/** What to find out about rows, for whom, and in which check of their batch. */
export type CheckRequest = {
  readonly service: ServiceSlug
  readonly mode: 'live' | 'test'
  /** The priced options of the job: what else to find out about its rows. */
  readonly options?: readonly string[] | undefined
  /** Whose rows they are, where tenants share what a provider can do at once. */
  readonly tenant?: string
  /** The rows were not checked before, so a row that is slow may be retried. */
  readonly isFirst?: boolean
  /** The rows will not be checked again: the verdict of each counts, and nothing is submitted. */
  readonly isLast?: boolean
  /** What vendors have of the batch; needed for providers that take batches. */
  readonly submissions?: Submissions | undefined
  /** Ends the check early; the provider then fails with `timeout`. */
  readonly signal: AbortSignal
}

/** The request of a call. */
export type ProviderRequest = CheckRequest & {
  /** Asks for the answers of this submission to the given rows; undefined submits the rows. */
  readonly submission?: VendorSubmission
  /** Unix time in milliseconds of the end of the call. */
  readonly deadlineMs: number
}

/**
 * An adapter to a source of verdicts. Answers may have any order. A row without an answer ends
 * `unknown`, reason `no_answer`, unless `SECOND_OPINIONS` know more: the other `PROVIDERS` are
 * asked only after a failure. `check` rejects with a `ProviderError` if it cannot answer at all.
 * Metrics show `id` and nothing else of a provider.
 */
export type Provider = {
  readonly id: number
  readonly services: readonly ServiceSlug[]
  /** Maximum number of rows per call; unlimited if left out. */
  readonly maxRows?: number
  /** The options that it answers; none if left out. */
  readonly options?: readonly OptionName[]
  /** Its checks are free and need no network, so they need no lease. */
  readonly isOffline?: true
  /**
   * `check` submits rows and answers with `retry` until their task has ended. A call that may have
   * been accepted is never repeated without asking the vendor.
   */
  readonly takesBatches?: true
  /** Limits of this provider that differ from the configured ones. */
  readonly limits?: {
    readonly timeoutMs?: number
    readonly attemptTimeoutMs?: number
    readonly concurrency?: number
    readonly rate?: RateLimit
    /** Rate of the calls for answers of submissions; one that would wait is skipped. */
    readonly pollRate?: RateLimit
  }
  check (rows: readonly ProviderRow[], request: ProviderRequest): Promise<readonly ProviderAnswer[]>
}

/** At most this many calls in this time, by this process. */
export type RateLimit = { readonly calls: number, readonly perMs: number }

/**
 * All failures of a provider; the stage decides which of them it retries. `rejected_input` says
 * that the rows are at fault, not the provider: no retry, and the circuit stays closed.
 */
export const PROVIDER_FAILURES = [
  'timeout', 'rate_limited', 'unavailable', 'rejected_input', 'auth', 'bad_response',
] as const

export type ProviderFailure = typeof PROVIDER_FAILURES[number]

/** A failure code without any text of the vendor, which could name the vendor. */
export class ProviderError extends Error {
  readonly failure: ProviderFailure
  readonly retryAfterMs: number | undefined

  constructor (failure: ProviderFailure, retryAfterMs?: number) {
    super(`provider failed: ${failure}`)
    this.name = 'ProviderError'
    this.failure = failure
    this.retryAfterMs = retryAfterMs
  }
}
