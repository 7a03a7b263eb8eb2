import type { AssignedType } from './library.ts'
import {
  type CallingCode, callingCodeAt, callingCodeOf, hasLength, matchCountry, type Plan, ruleFor,
  typeOfMatch,
} from './plans.ts'

/** A number split by the numbering plan; both together are its E.164 form. */
export type SplitNumber = { readonly callingCode: CallingCode, readonly national: string }

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
  if (digits[1] === '0') {
    // No calling code starts with 0: a plus before an international prefix is one too many.
    return onlyAssigned(COMMON_PREFIXES.map(prefix => afterPrefix(digits.slice(1), prefix)))
  }
  const number = readInternational(digits, 1)
  if (number === undefined) return undefined
  const { digits: code } = number.callingCode
  // `+49 0049 30`: the calling code twice.
  const isRepeated = digits.startsWith(`00${code}`, code.length + 1)
  const repeated = isRepeated ? readFromAbroad(digits, code.length + 3) : undefined
  return isAssigned(repeated) ? repeated : readFromAbroad(digits, 1)
}

/** Whether a reading is a number of an assigned range. */
export function isAssigned (reading: Dialed | NumberFault): reading is SplitNumber {
  return typeof reading === 'object' && typeOfNumber(reading) !== undefined
}

/** The type of the range of a number; undefined if it is not assigned. */
export function typeOfNumber ({ callingCode, national }: SplitNumber): AssignedType | undefined {
  return typeOfMatch(matchCountry(callingCode, national), national)
}

/** The only assigned number of several readings, `ambiguous`, or undefined if none is assigned. */
export function onlyAssigned (readings: readonly Dialed[]): Dialed {
  let only: SplitNumber | undefined
  for (const reading of readings) {
    if (reading === 'ambiguous') return reading
    if (reading === undefined || typeOfNumber(reading) === undefined) continue
    const isOther = only !== undefined &&
      (only.callingCode !== reading.callingCode || only.national !== reading.national)
    if (isOther) return 'ambiguous'
    only = reading
  }
  return only
}

/** Of Mexico until 2019, and the numbers behind it. */
const [MEXICAN_PREFIX, MEXICAN_NUMBER] = ['0(?:1|4[45])', String.raw`(?=[2-9]\d{9}$)`]
/**
 * Prefixes of calls within a country that it has given up, where digits with them are no number of
 * their own: Mexico, Ukraine until 2009.
 */
const FORMER_PREFIXES: ReadonlyMap<string | undefined, RegExp> = new Map([
  ['MX', new RegExp(`^${MEXICAN_PREFIX}${MEXICAN_NUMBER}`)], ['UA', /^8(?=0[3-9]\d{8}$)/],
])
/** Behind the calling code a bare 1 counts too: without it, it may be that of North America. */
const MEXICO = { code: '52', prefix: new RegExp(`^(?:1|${MEXICAN_PREFIX})${MEXICAN_NUMBER}`) }

function readDialed (typed: string, plan: Plan): Dialed {
  const former = FORMER_PREFIXES.get(plan.country)
  const digits = former === undefined ? typed : typed.replace(former, '')
  const matched = plan.internationalPrefix?.exec(digits)?.[0] ?? ''
  const isInternational = matched !== '' && matched.length < digits.length &&
    digits[matched.length] !== '0'
  const common = COMMON_PREFIXES.filter(prefix => digits.startsWith(prefix))
  if (isInternational && matched === common.at(-1)) return readFromAbroad(digits, matched.length)
  if (!isInternational && common.length === 0) return readNational(digits, plan)
  const dialed = isInternational
    ? readFromAbroad(digits, matched.length)
    : stable(readNational(digits, plan))
  const plain = common.map(prefix => afterPrefix(digits, prefix))
  // In Brazil 0055 is also the prefix of a carrier, but a list means the country's own code.
  const meant = onlyAssigned(plain)
  if (typeof meant === 'object' && meant.callingCode.digits === plan.callingCode) return meant
  return onlyAssigned([dialed, ...plain]) ?? dialed
}

function afterPrefix (digits: string, prefix: string): SplitNumber | undefined {
  return digits.startsWith(prefix) ? readFromAbroad(digits, prefix.length) : undefined
}

/**
 * The assigned number behind a zero, or a former prefix, that its country does not have: people
 * write one out of habit, `+34 0612345678`. Undefined if there is none, or if the number is
 * assigned as it is.
 */
export function withoutInnerPrefix (number: SplitNumber): SplitNumber | undefined {
  const { callingCode, national } = number
  const prefix = callingCode.digits === MEXICO.code ? MEXICO.prefix.exec(national)?.[0] : undefined
  if (national[0] !== '0' && prefix === undefined) return undefined
  if (typeOfNumber(number) !== undefined) return undefined
  const rest = { callingCode, national: national.slice(prefix?.length ?? 1) }
  return typeOfNumber(rest) === undefined ? undefined : rest
}

/** A number whose calling code starts at `start`, without a prefix of calls within its country. */
function readFromAbroad (digits: string, start: number): SplitNumber | undefined {
  const number = stable(readInternational(digits, start))
  return number && (withoutInnerPrefix(number) ?? number)
}

/** Digits without an international prefix: a national number, or one that has lost its plus. */
function readNational (digits: string, plan: Plan): Dialed {
  const callingCode = callingCodeOf(plan)
  const rest = withoutNationalPrefix(callingCode, plan, digits)
  const national = split(callingCode, rest)
  if (digits.startsWith(plan.callingCode)) {
    if (rest.length > plan.maxLength) return readFromAbroad(digits, 0)
    const afterCode = digits.slice(plan.callingCode.length)
    const isOther = plan.pattern.test(withoutNationalPrefix(callingCode, plan, afterCode))
    const other = isOther ? readInternational(digits, 0) : undefined
    if (!plan.pattern.test(rest)) return isOther ? other : national
    if (!isOther) return national
    // Patterns of landlines leave room for extensions. Without one, landlines have no more digits
    // than mobile numbers: `4915112345678` has lost its plus, not the zero of a landline.
    const hasLostPlus = rest.length > plan.maxMobileLength && isAssigned(other)
    return hasLostPlus ? other : onlyAssigned([national, other]) ?? national
  }
  if (plan.hasZeroNumbers && national !== undefined) {
    // Spreadsheets drop the zero of a number whose first digit it is.
    const longer = split(callingCode, `0${rest}`)
    const isSameType = longer !== undefined && digits[0] !== '0' &&
      typeOfNumber(longer) === typeOfNumber(national)
    if (isSameType) return onlyAssigned([national, longer]) ?? national
  }
  const other = national && readInternational(digits, 0)
  // Digits that may be a landline here are a mobile number of another country as well.
  const mayBeForeign = national !== undefined && other !== undefined &&
    typeOfNumber(other) === 'MOBILE' && typeOfNumber(national) === 'FIXED_LINE'
  return mayBeForeign && hasLostPrefix(digits, plan) ? 'ambiguous' : national
}

/**
 * Whether a number is written with a national prefix in its country, and is not here. Then either
 * the prefix was lost, as in the number columns of spreadsheets, or the plus.
 */
export function hasLostPrefix (digits: string, plan: Plan): boolean {
  return withoutNationalPrefix(callingCodeOf(plan), plan, digits) === digits &&
    plan.formats !== undefined && (ruleFor(plan.formats, digits)?.writesPrefix ?? false)
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

/** The limits of the library for national numbers. */
const MIN_NATIONAL_DIGITS = 2
const MAX_NATIONAL_DIGITS = 17

/** The split number, or undefined if it has too few or too many digits for the library. */
function split (callingCode: CallingCode, national: string): SplitNumber | undefined {
  const { length } = national
  const isParsed = length >= MIN_NATIONAL_DIGITS && length <= MAX_NATIONAL_DIGITS
  return isParsed ? { callingCode, national } : undefined
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
function withoutNationalPrefix (
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
function strip (
  { pattern, transform }: NonNullable<Plan['nationalPrefix']>, digits: string
): string {
  const match = pattern.exec(digits)
  if (match === null) return digits
  const hasCaptured = match.length > 1 && Boolean(match.at(-1))
  return transform !== undefined && hasCaptured
    ? digits.replace(pattern, transform)
    : digits.slice(match[0].length)
}
