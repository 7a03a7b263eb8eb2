import { Metadata, type CountryCode, type NumberingPlan } from 'libphonenumber-js/max'
import type { InvalidReason } from './input.ts'

type Plan = { readonly lengths: ReadonlySet<number>, readonly nationalPrefix: RegExp | undefined }

/** The library has this method, its type declaration does not. */
type PrefixedPlan = NumberingPlan & { nationalPrefixForParsing: () => string | undefined }

const plans = new Map<string, Plan>()

/**
 * Why a national number of `digits` digits can't exist under a calling code, or undefined if it
 * can. The plan is that of the calling code's main country, as in Google's libphonenumber, so the
 * answer depends on the canonical form alone and not on the country a job names.
 */
export function lengthFault (callingCode: string, digits: number): InvalidReason | undefined {
  const { lengths } = planOf(callingCode)
  if (lengths.has(digits)) return undefined
  if (digits < Math.min(...lengths)) return 'too_short'
  return digits > Math.max(...lengths) ? 'too_long' : 'impossible_length'
}

/** Whether an international number begins with what its plan may take for a national prefix. */
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
  // A calling code selects the plan of its main country; the declaration names only countries.
  metadata.selectNumberingPlan(callingCode as CountryCode)
  const plan = metadata.numberingPlan as PrefixedPlan
  const prefix = plan.nationalPrefixForParsing()
  return {
    lengths: new Set(plan.possibleLengths()),
    nationalPrefix: prefix ? new RegExp(`^(?:${prefix})`) : undefined,
  }
}
