import { CHECK_OUTCOMES, type CheckOutcome } from '../../schemas/api/checks.ts'
import type { CheckName } from '../../schemas/api/services.ts'

/** The checks of a contact with a canonical form; the check of its syntax is passed. */
export type MadeChecks = Readonly<Partial<Record<StoredCheck, CheckOutcome>>>

/**
 * The same as a number, as records and result blocks store it: three bits per check, 0 for one that
 * was not made.
 */
export type Evidence = number

export type StoredCheck = Exclude<CheckName, 'syntax'>

/** By position in the number; checks are added at the end only. */
const STORED = [
  'lists', 'domain', 'mailbox', 'catch_all', 'numbering_plan', 'carrier_range', 'vendor',
] as const satisfies readonly StoredCheck[]

/** Three bits per check; multiplication, as the bits of more than ten checks exceed 32. */
const RADIX = 8

/** Packs checks into a number below 2^53. */
export function packChecks (checks: MadeChecks): Evidence {
  return STORED.reduceRight((packed, name) => packed * RADIX + codeOf(checks[name]), 0)
}

/** Unpacks checks; those of later releases are left out. */
export function unpackChecks (evidence: Evidence): MadeChecks {
  const found: Partial<Record<StoredCheck, CheckOutcome>> = {}
  let rest = evidence
  for (const name of STORED) {
    const outcome = CHECK_OUTCOMES[rest % RADIX - 1]
    if (outcome !== undefined) found[name] = outcome
    rest = Math.floor(rest / RADIX)
  }
  return found
}

/** The checks of both; of a check that both made, the later outcome unless it is inconclusive. */
export function mergeEvidence (earlier: Evidence = 0, later: Evidence = 0): Evidence {
  const [before, after] = [unpackChecks(earlier), unpackChecks(later)]
  const conclusive = Object.entries(after).filter(([, outcome]) => outcome !== 'inconclusive')
  return packChecks({ ...after, ...before, ...Object.fromEntries(conclusive) })
}

/** The checks of the first that the second did not make. */
export function addedEvidence (more: Evidence = 0, own: Evidence = 0): Evidence {
  const made = unpackChecks(own)
  return packChecks(Object.fromEntries(
    Object.entries(unpackChecks(more)).filter(([name]) => !(name in made))))
}

/** Codes start at 1. */
function codeOf (outcome: CheckOutcome | undefined): number {
  return outcome === undefined ? 0 : CHECK_OUTCOMES.indexOf(outcome) + 1
}
