import { callingCodeAt, callingCodeOf, planOfCountry } from './calling-codes.ts'
import { split, withoutNationalPrefix, type SplitNumber } from './national.ts'
import type { Plan } from './plan.ts'

const PLAIN = /^\+?\d+$/
/** The library skips text before the first digit or plus; other characters may be significant. */
const LEADING_TEXT = /^[A-Za-z][A-Za-z ().-]*(?=[+0-9])/
/** Only separators that cannot be part of an extension or another notation. */
const FORMATTED = /^[ ().-]*\+?[0-9 ().-]+$/
const SEPARATORS = /[ ().-]+/g
const MAX_CHARACTERS = 40
const MIN_DIGITS = 3
const MAX_DIGITS = 25
/** Parsing a parsed number again is stable after one or two passes. */
const MAX_PASSES = 4

/**
 * Splits a phone number in a common format: digits, spaces, `( ) - .`, a leading plus, words before
 * it; `country` (ISO 3166, upper case) as in the library. The result parses to itself, but its
 * length may be impossible. Undefined if the library has to parse it or give the reason why it is
 * invalid.
 */
export function parsePhone (input: string, country: string | undefined): SplitNumber | undefined {
  const digits = digitsOf(input)
  const plan = country ? planOfCountry(country) : undefined
  // The library rejects an unknown country even if the number does not need it.
  if (digits === undefined || (country && plan === undefined)) return undefined
  const number = digits.startsWith('+')
    ? readInternational(digits, 1)
    : plan && readDialled(digits, plan)
  return number && stableForm(number)
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

function digitsOf (input: string): string | undefined {
  if (input.length > MAX_CHARACTERS) return undefined
  if (PLAIN.test(input)) return countedDigits(input)
  const written = input.replace(LEADING_TEXT, '')
  return FORMATTED.test(written) ? countedDigits(written.replaceAll(SEPARATORS, '')) : undefined
}

function countedDigits (digits: string): string | undefined {
  const count = digits.startsWith('+') ? digits.length - 1 : digits.length
  return count < MIN_DIGITS || count > MAX_DIGITS ? undefined : digits
}

/** A number as dialed in a country: with international prefix, with calling code, or national. */
function readDialled (digits: string, plan: Plan): SplitNumber | undefined {
  const afterPrefix = afterInternationalPrefix(plan, digits)
  if (afterPrefix !== undefined) return readInternational(digits, afterPrefix)
  if (beginsWithCallingCode(plan, digits)) return readInternational(digits, 0)
  const callingCode = callingCodeOf(plan)
  return split(callingCode, withoutNationalPrefix(callingCode, plan, digits))
}

/** The index after the international prefix of a country; no calling code starts with 0. */
function afterInternationalPrefix (plan: Plan, digits: string): number | undefined {
  const length = plan.internationalPrefix?.exec(digits)?.[0].length ?? 0
  return length === 0 || length === digits.length || digits[length] === '0' ? undefined : length
}

/**
 * Whether digits are an international number without its plus: they start with the calling code of
 * the country, and only without it they match the plan or are not too long for it.
 */
function beginsWithCallingCode (plan: Plan, digits: string): boolean {
  if (!digits.startsWith(plan.callingCode)) return false
  const callingCode = callingCodeOf(plan)
  const withCode = withoutNationalPrefix(callingCode, plan, digits)
  if (withCode.length > plan.maxLength) return true
  if (plan.pattern.test(withCode)) return false
  const rest = digits.slice(plan.callingCode.length)
  return plan.pattern.test(withoutNationalPrefix(callingCode, plan, rest))
}

/** Parses the number until it is stable: equal contacts must have one form. */
function stableForm (first: SplitNumber): SplitNumber | undefined {
  const { callingCode } = first
  let number: SplitNumber | undefined = first
  for (let pass = 0; pass < MAX_PASSES && number !== undefined; pass++) {
    const again = withoutNationalPrefix(callingCode, callingCode.main, number.national)
    if (again === number.national) return number
    number = split(callingCode, again)
  }
  return undefined
}
