/** The maximum age of a record, whatever the policy of an organization: 90 days. */
export const MAX_FRESHNESS_MS = 90 * 24 * 60 * 60 * 1_000

/**
 * When a record must be verified again, in Unix milliseconds, under a policy of `freshnessMs`; the
 * maximum of 90 days always applies.
 */
export function expiresAtMs (checkedAtMs: number, freshnessMs: number): number {
  return checkedAtMs + Math.min(freshnessMs, MAX_FRESHNESS_MS)
}

export type FreshnessRule = {
  /** The time of the quote, the same for every row of a job. */
  readonly quotedAtMs: number
  readonly freshnessMs: number
}

/**
 * Whether a record can be used for a job quoted at `quotedAtMs`. A record made after the quote is
 * fresh; at the exact time of its expiry it is not.
 */
export function isFresh (record: { readonly checkedAtMs: number }, rule: FreshnessRule): boolean {
  return expiresAtMs(record.checkedAtMs, rule.freshnessMs) > rule.quotedAtMs
}
