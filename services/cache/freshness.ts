/** No record is used longer than this, whatever an organization's policy says: 90 days. */
export const MAX_FRESHNESS_MS = 90 * 24 * 60 * 60 * 1_000

/**
 * When a record checked at `checkedAtMs` has to be verified again, in Unix milliseconds, under a
 * policy of `freshnessMs`; the cap of 90 days always holds.
 */
export function expiresAtMs (checkedAtMs: number, freshnessMs: number): number {
  return checkedAtMs + Math.min(freshnessMs, MAX_FRESHNESS_MS)
}

export type FreshnessRule = {
  /** The time of the quote, by which every row of a job is judged alike. */
  readonly quotedAtMs: number
  readonly freshnessMs: number
}

/**
 * Whether a record may answer a row of a job quoted at `quotedAtMs`. A record made after the quote
 * is fresh; at the very moment of its end it no longer is.
 */
export function isFresh (record: { readonly checkedAtMs: number }, rule: FreshnessRule): boolean {
  return expiresAtMs(record.checkedAtMs, rule.freshnessMs) > rule.quotedAtMs
}
