import { callingCodeAt, callingCodeOf, matchCountry } from './calling-codes.ts'
import { assignedTypeOf, type Plan } from './plan.ts'
import { ruleFor } from './layout.ts'
import {
  readInternational, split, withoutNationalPrefix, type SplitNumber,
} from './national.ts'
import type { AssignedType } from './library.ts'

/** Why a text is no phone number; the terms of the result column `reason`. */
export type NumberFault = 'not_a_phone_number' | 'no_calling_code' | 'unknown_calling_code' |
  'too_short' | 'too_long' | 'ambiguous_number' | 'several_numbers'

/** Undefined if the digits are no number at all; its length may be impossible. */
export type Dialed = SplitNumber | 'ambiguous' | undefined

/** Parsing a parsed number again is stable after one or two passes. */
const MAX_PASSES = 4
const PLUS = '+'
/** International prefixes that people write wherever they are. */
const COMMON_PREFIXES = ['00', '011', '0011'] as const

/**
 * Reads digits with at most a leading plus as somebody in a country dials them; without a plan only
 * international numbers can be read. Where they can be read in two ways, the one that is an
 * assigned number is meant. Two assigned numbers are `ambiguous`: any choice might be the number of
 * a stranger. The result parses to itself.
 */
export function readDigits (digits: string, plan: Plan | undefined): Dialed {
  if (digits[0] !== PLUS) return plan && stable(readDialed(digits, plan))
  if (digits[1] === '0') return readAfterPlus(digits)
  const number = readInternational(digits, 1)
  return stable(number && readRepeated(digits, number))
}

/** `+49 0049 30`: the calling code twice. */
function readRepeated (digits: string, number: SplitNumber): SplitNumber | undefined {
  const { digits: code } = number.callingCode
  const start = code.length + 1
  if (digits[start] !== '0' || digits[start + 1] !== '0') return number
  return digits.startsWith(code, start + 2) ? readInternational(digits, start + 2) : number
}

/** Whether a reading is a number of an assigned range. */
export function isAssigned (reading: Dialed | NumberFault): reading is SplitNumber {
  return typeof reading === 'object' && typeOfNumber(reading) !== undefined
}

/** The type of the range of a number; undefined if it is not assigned. */
export function typeOfNumber ({ callingCode, national }: SplitNumber): AssignedType | undefined {
  const { type, plan } = matchCountry(callingCode, national)
  return type === 'not_looked_up' ? assignedTypeOf(plan, national) : type
}

/** The only assigned number of several readings, `ambiguous`, or undefined if none is assigned. */
export function onlyAssigned (readings: readonly Dialed[]): Dialed {
  let only: SplitNumber | undefined
  for (const reading of readings) {
    if (reading === 'ambiguous') return reading
    if (reading === undefined || typeOfNumber(reading) === undefined) continue
    if (only !== undefined && !isSame(only, reading)) return 'ambiguous'
    only = reading
  }
  return only
}

function isSame (left: SplitNumber, right: SplitNumber): boolean {
  return left.callingCode === right.callingCode && left.national === right.national
}

/** No calling code starts with 0: a plus before an international prefix is one too many. */
function readAfterPlus (digits: string): Dialed {
  return onlyAssigned(COMMON_PREFIXES.map(prefix => afterPrefix(digits.slice(1), prefix.length,
    prefix)))
}

function readDialed (digits: string, plan: Plan): Dialed {
  const matched = plan.internationalPrefix?.exec(digits)?.[0] ?? ''
  const isInternational = matched !== '' && matched.length < digits.length &&
    digits[matched.length] !== '0'
  const common = COMMON_PREFIXES.filter(prefix => digits.startsWith(prefix))
  if (isInternational && matched === common.at(-1)) {
    return readInternational(digits, matched.length)
  }
  if (!isInternational && common.length === 0) return readNational(digits, plan)
  const dialed = isInternational
    ? stable(readInternational(digits, matched.length))
    : stable(readNational(digits, plan))
  const plain = common.map(prefix => afterPrefix(digits, prefix.length, prefix))
  // In Brazil 0055 is also the prefix of a carrier, but a list means the country's own code.
  const meant = onlyAssigned(plain)
  if (typeof meant === 'object' && meant.callingCode.digits === plan.callingCode) return meant
  return onlyAssigned([dialed, ...plain]) ?? dialed
}

function afterPrefix (digits: string, start: number, prefix: string): SplitNumber | undefined {
  return digits.startsWith(prefix) ? stable(readInternational(digits, start)) : undefined
}

/** Digits without an international prefix: a national number, or one that has lost its plus. */
function readNational (digits: string, plan: Plan): Dialed {
  const callingCode = callingCodeOf(plan)
  const rest = withoutNationalPrefix(callingCode, plan, digits)
  const national = split(callingCode, rest)
  if (digits.startsWith(plan.callingCode)) {
    if (rest.length > plan.maxLength) return readInternational(digits, 0)
    const afterCode = digits.slice(plan.callingCode.length)
    const isOther = plan.pattern.test(withoutNationalPrefix(callingCode, plan, afterCode))
    const other = isOther ? readInternational(digits, 0) : undefined
    if (!plan.pattern.test(rest)) return isOther ? other : national
    return isOther ? onlyAssigned([national, other]) ?? national : national
  }
  if (plan.hasZeroNumbers && national !== undefined) {
    // Spreadsheets drop the zero of a number whose first digit it is.
    const longer = split(callingCode, `0${rest}`)
    const isSameType = longer !== undefined && digits[0] !== '0' &&
      typeOfNumber(longer) === typeOfNumber(national)
    if (isSameType) return onlyAssigned([national, longer]) ?? national
  }
  return mayBeForeign(digits, national) && hasLostPrefix(digits, plan)
    ? 'ambiguous'
    : national
}

/**
 * Whether a number is written with a national prefix in its country, and is not here. Then either
 * the prefix was lost, as in the number columns of spreadsheets, or the plus.
 */
export function hasLostPrefix (digits: string, plan: Plan): boolean {
  return withoutNationalPrefix(callingCodeOf(plan), plan, digits) === digits &&
    plan.formats !== undefined && (ruleFor(plan.formats, digits)?.writesPrefix ?? false)
}

/** Whether digits that may be a landline are a mobile number of another country as well. */
function mayBeForeign (digits: string, national: SplitNumber | undefined): boolean {
  if (national === undefined || callingCodeAt(digits, 0) === undefined) return false
  const other = readInternational(digits, 0)
  return other !== undefined && typeOfNumber(other) === 'MOBILE' &&
    typeOfNumber(national) === 'FIXED_LINE'
}

/** Parses a number until it is stable: equal contacts must have one form. */
function stable (first: SplitNumber | undefined): SplitNumber | undefined
function stable (first: Dialed): Dialed
function stable (first: Dialed): Dialed {
  if (first === undefined || first === 'ambiguous') return first
  const { callingCode } = first
  let number: SplitNumber | undefined = first
  for (let pass = 0; pass < MAX_PASSES && number !== undefined; pass++) {
    const again = withoutNationalPrefix(callingCode, callingCode.main, number.national)
    if (again === number.national) return number
    number = split(callingCode, again)
  }
  return undefined
}
