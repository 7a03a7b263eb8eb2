import {
  isAssigned, readDigits, readInternational, type SplitNumber, withoutInnerPrefix,
} from './dial.ts'
import { callingCodeAt, type Plan, planOfCountry } from './plans.ts'

/** Words before a number; a single letter may stand for a digit. */
const LABEL = /^[A-Za-z][A-Za-z ().-]*[A-Za-z]{2}[.]? (?=[+0-9])/
const NO_LABEL = new RegExp('(?:ext|extn|extension|plus|poste|intern|interno|anexo|ramal|linka|' +
  'dw|kl|app)[.]? $|(?<![A-Za-z])[OQDILSBZ]+ $', 'i')
const MAX_CHARACTERS = 40
const MIN_DIGITS = 3
const MAX_DIGITS = 25
const DATE_DIGITS = 8
const [SPACE, OPEN, CLOSE, PLUS, HYPHEN, DOT] = [0x20, 0x28, 0x29, 0x2b, 0x2d, 0x2e] as const
const [ZERO, NINE] = [0x30, 0x39] as const

/**
 * Splits a phone number in a usual format: digits with spaces, `( ) - .` and a leading plus;
 * `country` (ISO 3166, upper case) is where it is dialed, without one or with an unknown one it
 * must be international. The result parses to itself, but its length may be impossible. Undefined
 * if `readCell` has to read the cell, or to say what is wrong with it.
 */
export function parsePhone (input: string, country: string | undefined): SplitNumber | undefined {
  const written = scan(input) ?? scan(withoutLabel(input))
  if (written === undefined) return undefined
  const { digits, firstGroup } = written
  const plan = country ? planOfCountry(country) : undefined
  const number = readDigits(digits, plan)
  if (number === undefined || number === 'ambiguous') return undefined
  if (withoutInnerPrefix(number) !== undefined) return undefined
  const isGrouped = firstGroup < digits.length && plan !== undefined
  return isGrouped && hasOtherGroups(written, number, plan) ? undefined : number
}

function withoutLabel (input: string): string {
  if (input.length > MAX_CHARACTERS) return ''
  const label = LABEL.exec(input)?.[0]
  return label === undefined || NO_LABEL.test(label) ? '' : input.slice(label.length)
}

type Written = {
  /** With the leading plus. */
  readonly digits: string
  /** Characters of the first group of digits, with the plus. */
  readonly firstGroup: number
}

/**
 * The digits of a cell. Undefined for other characters, and for what may be no separator: a short
 * or zero group after a dot, a short one in brackets, a list number, a date.
 */
function scan (input: string): Written | undefined {
  if (input.length > MAX_CHARACTERS) return undefined
  if (PLAIN.test(input)) return counted({ digits: input, firstGroup: input.length })
  let [digits, start, groups, firstGroup] = ['', -1, 0, 0]
  let [separator, dots, last] = [SPACE as number, 0, '']
  for (let index = 0; index <= input.length; index++) {
    const code = index === input.length ? SPACE : input.charCodeAt(index)
    if (code >= ZERO && code <= NINE) {
      if (start < 0) start = index
      continue
    }
    if (start >= 0) {
      last = input.slice(start, index)
      if (code === CLOSE && last.length <= SHORT_GROUP) return undefined
      if (separator === DOT) dots++
      digits += last
      if (groups++ === 0) firstGroup = digits.length
      start = -1
      separator = code
    } else if (code === PLUS) {
      if (digits !== '') return undefined
      digits = '+'
    } else if (code === DOT || separator !== DOT) separator = code
    else return undefined
    if (code !== SPACE && code !== HYPHEN && code !== OPEN && code !== CLOSE && code !== DOT &&
      code !== PLUS) return undefined
    if (code === PLUS && groups > 0) return undefined
  }
  const mayBeFraction = dots === 1 || (dots > 0 && SHORT.test(last))
  const mayBeDate = groups === 3 && digits.length <= DATE_DIGITS && digits[0] !== '+'
  return mayBeFraction || mayBeDate ? undefined : counted({ digits, firstGroup })
}

const PLAIN = /^\+?\d+$/
const SHORT_GROUP = 2
const SHORT = /^(?:\d{1,2}|0+)$/

function counted (written: Written): Written | undefined {
  const { digits } = written
  const count = digits.startsWith('+') ? digits.length - 1 : digits.length
  return count < MIN_DIGITS || count > MAX_DIGITS ? undefined : written
}

/** Whether the first group may be another calling code than that of the number. */
function hasOtherGroups (
  { digits, firstGroup }: Written, number: SplitNumber, { callingCode }: Plan
): boolean {
  const first = digits.charCodeAt(0)
  if (first === PLUS) return firstGroup <= number.callingCode.digits.length
  if (first === ZERO) {
    return firstGroup === callingCode.length + 1 && digits.startsWith(callingCode, 1)
  }
  const code = callingCodeAt(digits, 0)?.digits
  if (code?.length !== firstGroup || code === callingCode) return false
  const foreign = readInternational(digits, 0)
  return foreign !== undefined && isAssigned(foreign)
}
