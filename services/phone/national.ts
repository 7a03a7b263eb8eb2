import { homeOf, type CallingCode } from './calling-codes.ts'
import { hasLength, type NationalPrefix, type Plan } from './plan.ts'

/** A number split by the numbering plan; the two together are its E.164 form. */
export type SplitNumber = { readonly callingCode: CallingCode, readonly national: string }

/** The library takes no shorter or longer national number. */
const MIN_DIGITS = 2
const MAX_DIGITS = 17

/** The number, or undefined if it has too few or too many digits for the library. */
export function split (callingCode: CallingCode, national: string): SplitNumber | undefined {
  const { length } = national
  return length < MIN_DIGITS || length > MAX_DIGITS ? undefined : { callingCode, national }
}

/**
 * Digits without their national prefix and carrier code under `plan`, which is the plan of one of
 * the calling code's countries. As `extractNationalNumber` in the library: a prefix stays if only
 * with it the number fits the plan, or if without it the number would be too short.
 */
export function withoutNationalPrefix (
  callingCode: CallingCode, plan: Plan, digits: string
): string {
  const { nationalPrefix, pattern } = plan
  if (nationalPrefix === undefined || digits === '') return digits
  const stripped = strip(nationalPrefix, digits)
  if (stripped === digits) return digits
  if (pattern.test(digits) && !pattern.test(stripped)) return digits
  const { country, plan: home } = homeOf(callingCode, stripped)
  const { lengths, longest } = country === undefined ? plan : home
  const enough = stripped.length > longest || hasLength(lengths, stripped.length)
  return enough ? stripped : digits
}

/** The last group decides whether the prefix captured anything, as in the library. */
function strip ({ pattern, transform }: NationalPrefix, digits: string): string {
  const match = pattern.exec(digits)
  if (match === null) return digits
  const hasCaptured = match.length > 1 && Boolean(match.at(-1))
  return transform !== undefined && hasCaptured
    ? digits.replace(pattern, transform)
    : digits.slice(match[0].length)
}
