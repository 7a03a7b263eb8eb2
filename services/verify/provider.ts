import type { ServiceSlug } from '../records/columns.ts'
import type { CheckedRecord } from '../records/record.ts'

/** One contact to check. `row` is only repeated in the answer, which is matched by it. */
export type ProviderRow = { readonly row: number, readonly canonical: string }

/** A verdict before the stage adds the time it was made. */
export type ProviderVerdict = Omit<CheckedRecord, 'checkedAtMs'>

/**
 * `again`: the verdict holds only if it can't be asked for again. Until the part's deadline the row
 * waits on its own, and the others of the call go on.
 */
export type ProviderAnswer = {
  readonly row: number
  readonly verdict: ProviderVerdict
  readonly again?: true
}

export type CheckOptions = {
  readonly service: ServiceSlug
  /** Ends the check early; the provider then fails with `timeout`. */
  readonly signal: AbortSignal
  /** Unix time in milliseconds after which nobody waits for the answer. */
  readonly deadlineMs: number
}

/**
 * An adapter to whoever can tell something about a contact. Answers come in any order and are
 * matched by `row`, never by position; a row without an answer was not checked. `check` rejects
 * with a `ProviderError` when it can't answer at all. `id` is all that operators' metrics show.
 */
export type Provider = {
  readonly id: number
  readonly services: readonly ServiceSlug[]
  /** Most rows of a call; as many as there are when left out. */
  readonly maxRows?: number
  /** Its checks cost nothing and wait for nobody, so none is worth a lease. */
  readonly asksNobody?: true
  /** What this provider needs to be other than for all. */
  readonly limits?: {
    readonly timeoutMs?: number
    readonly attemptTimeoutMs?: number
    readonly concurrency?: number
    readonly rate?: { readonly calls: number, readonly perMs: number }
  }
  check (rows: readonly ProviderRow[], options: CheckOptions): Promise<readonly ProviderAnswer[]>
}

/** Every way a provider can fail; which of them are tried again is the stage's policy. */
export const PROVIDER_FAILURES = [
  'timeout', 'rate_limited', 'unavailable', 'rejected_input', 'auth', 'bad_response',
] as const

export type ProviderFailure = typeof PROVIDER_FAILURES[number]

/** Carries a failure of the closed set and nothing a vendor said, which could name it. */
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
