import { planOfCountry } from './calling-codes.ts'
import { hasLostPrefix, isAssigned, readDigits } from './dial.ts'
import type { SplitNumber } from './national.ts'
import type { Plan } from './plan.ts'

const PLAIN = /^\+?\d+$/
/** Only separators that cannot be part of an extension or another notation. */
const FORMATTED = /^[ ().-]*\+?[0-9 ().-]+$/
/** A fraction, `(0)`, a list number, a footnote or a date: these may not be dialed. */
const UNUSUAL = new RegExp([
  String.raw`\.\d{0,2}$|\.0+$|^\+?\d+\.\d*$`, String.raw`\(0\)`, String.raw`^\(?\d{1,2}(?:\. |\) ?)[^-]`,
  String.raw`\(\d{1,2}\)$`, String.raw`^\d{1,4}([.-])\d\d?\1\d{2,4}$`,
].join('|'))
const SEPARATORS = /[ ().-]+/g
const MAX_CHARACTERS = 40
const MIN_DIGITS = 3
const MAX_DIGITS = 25

/**
 * Splits a phone number in a usual format: digits with spaces, `( ) - .` and a leading plus;
 * `country` (ISO 3166, upper case) is where it is dialed, without one or with an unknown one it
 * must be international. The result parses to itself, but its length may be impossible. Undefined
 * if `readCell` has to read the cell, or to say what is wrong with it.
 */
export function parsePhone (cell: string, country: string | undefined): SplitNumber | undefined {
  const input = cell.trim()
  if (input.length > MAX_CHARACTERS) return undefined
  const isPlain = PLAIN.test(input)
  if (!isPlain && (!FORMATTED.test(input) || UNUSUAL.test(input))) return undefined
  const digits = isPlain ? input : input.replaceAll(SEPARATORS, '')
  const count = digits.startsWith('+') ? digits.length - 1 : digits.length
  if (count < MIN_DIGITS || count > MAX_DIGITS) return undefined
  const plan = country ? planOfCountry(country) : undefined
  const number = readDigits(digits, plan)
  if (number === undefined || number === 'ambiguous') return undefined
  return isPlain || !hasOtherGroups(input, { digits, number, plan }) ? number : undefined
}

type Read = {
  readonly digits: string
  readonly number: SplitNumber
  readonly plan: Plan | undefined
}

/** Whether the first group may be another calling code than that of the number. */
function hasOtherGroups (input: string, { digits, number, plan }: Read): boolean {
  const start = input.search(/[+\d]/)
  const length = input.slice(start).search(/[ ().-]/)
  if (length < 0 || plan === undefined) return false
  if (digits.startsWith('+')) return length <= number.callingCode.digits.length
  const code = plan.callingCode
  if (digits.startsWith('0')) return length === code.length + 1 && digits.startsWith(code, 1)
  return length <= MIN_DIGITS && (hasLostPrefix(digits, plan) || !isAssigned(number))
}
