import { CHECK_OUTCOMES, type CheckName, type CheckOutcome } from '../../schemas/api/services.ts'
import type { Reason } from '../../schemas/api/verdicts.ts'

/** The checks of a contact with a canonical form; the check of its syntax is passed. */
export type MadeChecks = Readonly<Partial<Record<StoredCheck, CheckOutcome>>>

/**
 * The same as a number, as records and result blocks store it: three bits per check, 0 for one that
 * was not made.
 */
export type Evidence = number

type StoredCheck = Exclude<CheckName, 'syntax'>

/** By position in the number; checks are added at the end only. */
const STORED = Object.keys({
  lists: true,
  domain: true,
  mailbox: true,
  catch_all: true,
  numbering_plan: true,
  carrier_range: true,
  vendor: true,
} satisfies Readonly<Record<StoredCheck, true>>) as readonly StoredCheck[]

/** Three bits per check; multiplication, as the bits of more than ten checks exceed 32. */
const RADIX = 8

/** Packs checks into a number below 2^53. */
export function packChecks (checks: MadeChecks): Evidence {
  return STORED.reduceRight((packed, name) => {
    const outcome = checks[name]
    // Codes start at 1.
    const code = outcome === undefined ? 0 : CHECK_OUTCOMES.indexOf(outcome) + 1
    return packed * RADIX + code
  }, 0)
}

/** Unpacks checks; those of later releases are left out. */
export function unpackChecks (evidence: Evidence): MadeChecks {
  const checks: Partial<Record<StoredCheck, CheckOutcome>> = {}
  let rest = evidence
  for (const name of STORED) {
    const outcome = CHECK_OUTCOMES[rest % RADIX - 1]
    if (outcome !== undefined) checks[name] = outcome
    rest = Math.floor(rest / RADIX)
  }
  return checks
}

/** The checks of both; of a check that both made, the later outcome unless it is inconclusive. */
export function mergeEvidence (earlier: Evidence = 0, later: Evidence = 0): Evidence {
  const [before, after] = [unpackChecks(earlier), unpackChecks(later)]
  const conclusive = Object.entries(after).filter(([, outcome]) => outcome !== 'inconclusive')
  return packChecks({ ...after, ...before, ...Object.fromEntries(conclusive) })
}

/** The checks of the first that the second did not make. */
export function addedEvidence (first: Evidence = 0, second: Evidence = 0): Evidence {
  const made = unpackChecks(second)
  return packChecks(Object.fromEntries(
    Object.entries(unpackChecks(first)).filter(([name]) => !(name in made))))
}

type Weights = Readonly<Partial<Record<CheckOutcome, number>>>

/** How strongly each outcome of a check supports a claim, 0 to 100. */
export type Support = Readonly<Partial<Record<StoredCheck, Weights>>>

/**
 * What supports each verdict; the guide to results shows this table. A reserved name is certain.
 * Domains and mail servers are authoritative about their own state. The list of disposable domains
 * is curated by hand; a role name, a probable typo and a domain without a mail exchange are only
 * likely to be a problem. An accepted recipient says little until the server has refused a name
 * that does not exist. What only the words of a reply say, not its code, is never above 60. An
 * assigned range says nothing about the single subscriber, and a range that is missing from the
 * plan may have been assigned since: the plan alone is never above 60. Where mobile numbers are
 * ported (a `caution`), the first holder of a range is often not the present carrier of a number. A
 * verdict of a vendor has the confidence that the configuration states.
 */
export const SUPPORT = {
  assigned_range: { numbering_plan: { passed: 50 }, carrier_range: { passed: 20, caution: 20 } },
  unassigned_range: { numbering_plan: { failed: 60 } },
  /** The verdict of a carrier service. */
  carrier: { carrier_range: { passed: 90, caution: 60 } },
  reserved_domain: { lists: { failed: 100 } },
  domain_not_found: { domain: { failed: 95 } },
  no_mail_service: { domain: { failed: 95 }, mailbox: { failed: 95 } },
  mailbox_not_found: { mailbox: { failed: 95 } },
  /** Said by the words of the server's reply alone, without an enhanced code that confirms them. */
  mailbox_not_found_by_words: { mailbox: { failed: 60 } },
  no_mail_service_by_words: { mailbox: { failed: 60 } },
  mailbox_full_by_words: { mailbox: { caution: 60 } },
  disposable_domain: { lists: { caution: 90 } },
  mailbox_full: { mailbox: { caution: 80 } },
  role_address: { lists: { caution: 70 }, mailbox: { passed: 30 } },
  possible_typo: { lists: { caution: 60 } },
  catch_all: { catch_all: { caution: 70 } },
  no_mx_record: { domain: { caution: 60 } },
  deliverable: {
    domain: { passed: 10, caution: 10 }, mailbox: { passed: 67 }, catch_all: { passed: 83 },
  },
  /** Accepted by a large host that is known to refuse names that do not exist. */
  accepted_by_host: { domain: { passed: 10, caution: 10 }, mailbox: { passed: 89 } },
} as const satisfies Readonly<Record<string, Support>>

/** What a verdict claims: its reason, or a finer distinction. */
export type Claim = Reason | keyof typeof SUPPORT

/**
 * The confidence of a claim, an integer from 0 to 100. Each check that supports the claim removes
 * its share of the doubt that is left, so more evidence never lowers it. `stated`: the confidence
 * that the verdict has without this evidence.
 */
export function rateConfidence (claim: Claim, evidence: Evidence, stated = 0): number {
  const support: Support = (SUPPORT as Readonly<Record<string, Support>>)[claim] ?? {}
  const checks = unpackChecks(evidence)
  let doubt = 100 - stated
  for (const name of Object.keys(checks) as StoredCheck[]) {
    const outcome = checks[name]
    doubt *= 1 - (outcome === undefined ? 0 : support[name]?.[outcome] ?? 0) / 100
  }
  return Math.round(100 - doubt)
}
