import { Metadata, type CountryCode, type NumberingPlan } from 'libphonenumber-js/max'
import type { InvalidReason } from './input.ts'

type Plan = { readonly lengths: ReadonlySet<number>, readonly nationalPrefix: RegExp | undefined }

/** The library has this method but does not declare it. */
type PrefixedPlan = NumberingPlan & { nationalPrefixForParsing: () => string | undefined }

const plans = new Map<string, Plan>()

/**
 * Why a national number with this number of digits is impossible for a calling code, or undefined.
 * Uses the plan of the main country of the calling code, as Google's libphonenumber does, so the
 * result depends on the canonical form alone, not on the country of the job.
 */
export function lengthFault (callingCode: string, digits: number): InvalidReason | undefined {
  const { lengths } = planOf(callingCode)
  if (lengths.has(digits)) return undefined
  if (digits < Math.min(...lengths)) return 'too_short'
  return digits > Math.max(...lengths) ? 'too_long' : 'impossible_length'
}

/** Whether an international number starts with a possible national prefix of its plan. */
export function mayParseDifferently (callingCode: string, nationalNumber: string): boolean {
  return planOf(callingCode).nationalPrefix?.test(nationalNumber) ?? false
}

function planOf (callingCode: string): Plan {
  const known = plans.get(callingCode)
  if (known !== undefined) return known
  const plan = readPlan(callingCode)
  plans.set(callingCode, plan)
  return plan
}

function readPlan (callingCode: string): Plan {
  const metadata = new Metadata()
  // A calling code selects the plan of its main country; the declaration allows only countries.
  metadata.selectNumberingPlan(callingCode as CountryCode)
  const plan = metadata.numberingPlan as PrefixedPlan
  const prefix = plan.nationalPrefixForParsing()
  return {
    lengths: new Set(plan.possibleLengths()),
    nationalPrefix: prefix ? new RegExp(`^(?:${prefix})`) : undefined,
  }
}
