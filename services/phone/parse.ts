import { callingCodeAt, callingCodeOf, planOfCountry } from './calling-codes.ts'
import { split, withoutNationalPrefix, type SplitNumber } from './national.ts'
import type { Plan } from './plan.ts'

const PLAIN = /^\+?\d+$/
/** The library skips what stands before the first digit or plus; other signs may mean something. */
const LEADING_TEXT = /^[A-Za-z][A-Za-z ().-]*(?=[+0-9])/
/** Separators are those that can't be part of an extension or of another notation. */
const WRITTEN = /^[ ().-]*\+?[0-9 ().-]+$/
const SEPARATORS = /[ ().-]+/g
const MAX_CHARACTERS = 40
const MIN_DIGITS = 3
const MAX_DIGITS = 25
/** Parsing a parsed number again settles at once or twice. */
const MAX_TURNS = 4

/**
 * Splits a phone number in one of the common written forms: digits, spaces, `( ) - .` and a leading
 * plus, words before it; `country` (ISO 3166, upper case) as in the library. What comes back parses
 * to itself, but its length need not be possible. Undefined where the library has to say what it is
 * or why it is none.
 */
export function parsePhone (input: string, country: string | undefined): SplitNumber | undefined {
  const digits = digitsOf(input)
  const plan = country ? planOfCountry(country) : undefined
  // An unknown country is refused by the library even if the number does not need it.
  if (digits === undefined || (country && plan === undefined)) return undefined
  const number = digits.startsWith('+')
    ? readInternational(digits, 1)
    : plan && readDialled(digits, plan)
  return number && settled(number)
}

/**
 * Reads an international number whose calling code begins at `start` of a string of digits, as the
 * library does: a national prefix after the calling code is forgiven. Undefined if there is none.
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
  return WRITTEN.test(written) ? countedDigits(written.replaceAll(SEPARATORS, '')) : undefined
}

function countedDigits (digits: string): string | undefined {
  const count = digits.startsWith('+') ? digits.length - 1 : digits.length
  return count < MIN_DIGITS || count > MAX_DIGITS ? undefined : digits
}

/** A number as it is dialled in a country: international prefix, calling code or neither. */
function readDialled (digits: string, plan: Plan): SplitNumber | undefined {
  const afterPrefix = afterInternationalPrefix(plan, digits)
  if (afterPrefix !== undefined) return readInternational(digits, afterPrefix)
  if (beginsWithCallingCode(plan, digits)) return readInternational(digits, 0)
  const callingCode = callingCodeOf(plan)
  return split(callingCode, withoutNationalPrefix(callingCode, plan, digits))
}

/** Where the digits after a country's international prefix begin; no calling code begins with 0. */
function afterInternationalPrefix (plan: Plan, digits: string): number | undefined {
  const length = plan.internationalPrefix?.exec(digits)?.[0].length ?? 0
  return length === 0 || length === digits.length || digits[length] === '0' ? undefined : length
}

/**
 * Whether digits are meant as an international number without its plus: they begin with the
 * country's calling code, and only without it they fit the plan or are not too long for it.
 */
function beginsWithCallingCode (plan: Plan, digits: string): boolean {
  if (!digits.startsWith(plan.callingCode)) return false
  const callingCode = callingCodeOf(plan)
  const whole = withoutNationalPrefix(callingCode, plan, digits)
  if (whole.length > plan.longest) return true
  if (plan.pattern.test(whole)) return false
  const rest = digits.slice(plan.callingCode.length)
  return plan.pattern.test(withoutNationalPrefix(callingCode, plan, rest))
}

/** Equal contacts must have one form, hence the number is parsed until it stays as it is. */
function settled (first: SplitNumber): SplitNumber | undefined {
  const { callingCode } = first
  let number: SplitNumber | undefined = first
  for (let turn = 0; turn < MAX_TURNS && number !== undefined; turn++) {
    const again = withoutNationalPrefix(callingCode, callingCode.main, number.national)
    if (again === number.national) return number
    number = split(callingCode, again)
  }
  return undefined
}
