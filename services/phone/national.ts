import { callingCodeAt, matchCountry, type CallingCode } from './calling-codes.ts'
import { hasLength, type NationalPrefix, type Plan } from './plan.ts'

/** A number split by the numbering plan; both together are its E.164 form. */
export type SplitNumber = { readonly callingCode: CallingCode, readonly national: string }

/** The limits of the library for national numbers. */
const MIN_DIGITS = 2
const MAX_DIGITS = 17

/** The split number, or undefined if it has too few or too many digits for the library. */
export function split (callingCode: CallingCode, national: string): SplitNumber | undefined {
  const { length } = national
  return length < MIN_DIGITS || length > MAX_DIGITS ? undefined : { callingCode, national }
}

/**
 * Parses an international number whose calling code starts at `start`, as the library does: a
 * national prefix after the calling code is ignored. Undefined if there is none.
 */
export function readInternational (digits: string, start: number): SplitNumber | undefined {
  const callingCode = callingCodeAt(digits, start)
  if (callingCode === undefined) return undefined
  const rest = digits.slice(start + callingCode.digits.length)
  return split(callingCode, withoutNationalPrefix(callingCode, callingCode.main, rest))
}

/**
 * Digits without national prefix and carrier code, by the plan of one of the countries of the
 * calling code. As `extractNationalNumber` of the library: the prefix stays if the number matches
 * the plan only with it, or would be too short without it.
 */
export function withoutNationalPrefix (
  callingCode: CallingCode, plan: Plan, digits: string
): string {
  const { nationalPrefix, pattern } = plan
  if (nationalPrefix === undefined || digits === '') return digits
  const stripped = strip(nationalPrefix, digits)
  if (stripped === digits) return digits
  if (pattern.test(digits) && !pattern.test(stripped)) return digits
  const { country, plan: home } = matchCountry(callingCode, stripped)
  const { lengths, maxLength } = country === undefined ? plan : home
  const enough = stripped.length > maxLength || hasLength(lengths, stripped.length)
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
