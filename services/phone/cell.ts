import { isIP } from 'node:net'
import { isPublicAddress } from '../runtime/platform/networks.ts'
import {
  callingCodeAt, readCallingCode, type Plan, planOfCountry, readInternational, ruleFor, splitNumber,
  type SplitNumber, typeOfNumber, withoutNationalPrefix,
} from './plans.ts'

/** Why a text is no phone number; the terms of the result column `reason`. */
export type NumberFault = 'not_a_phone_number' | 'no_calling_code' | 'unknown_calling_code' |
  'too_short' | 'too_long' | 'ambiguous_number' | 'several_numbers'

/** Undefined if the digits are no number at all; its length may be impossible. */
type Dialed = SplitNumber | 'ambiguous' | undefined

/** Words before a number; a single letter may stand for a digit. */
const USUAL_LABEL = /^[A-Za-z][A-Za-z ().-]*[A-Za-z]{2}[.]? (?=[+0-9])/
const NO_LABEL = new RegExp('(?:ext|extn|extension|plus|poste|intern|interno|anexo|ramal|linka|' +
  'dw|kl|app)[.]? $|(?<![A-Za-z])[OQDILSBZ]+ $', 'i')
const MIN_DIGITS = 3
const MAX_DIGITS = 25
/** Of a usual cell. */
const MAX_CHARACTERS = 40
const DATE_DIGITS = 8
const [SPACE, OPEN, CLOSE, PLUS, HYPHEN, DOT] = [0x20, 0x28, 0x29, 0x2b, 0x2d, 0x2e] as const
const [ZERO, NINE] = [0x30, 0x39] as const
const ONLY_DIGITS = /^\+?\d+$/
const SHORT_GROUP = 2
const SHORT = /^(?:\d{1,2}|0+)$/

/**
 * Splits a phone number in a usual format: digits with spaces, `( ) - .` and a leading plus;
 * `country` (ISO 3166, upper case) is where it is dialed, without one or with an unknown one it
 * must be international. The result parses to itself, but its length may be impossible. Undefined
 * if `readCell` has to read the cell, or to say what is wrong with it.
 */
export function parsePhone (input: string, country: string | undefined): SplitNumber | undefined {
  const unlabeled = scan(input)
  const written = unlabeled ?? scan(withoutUsualLabel(input))
  if (written === undefined) return undefined
  const { digits, firstGroup } = written
  const plan = country ? planOfCountry(country) : undefined
  const number = asMeant(readDigits(digits, plan), digits, plan)
  if (number === undefined || number === 'ambiguous') return undefined
  if (withoutInnerPrefix(number) !== undefined) return undefined
  if (unlabeled === undefined && !isAssigned(number)) return undefined
  const isGrouped = firstGroup < digits.length && plan !== undefined
  return isGrouped && hasOtherGroups(written, number, plan) ? undefined : number
}

function withoutUsualLabel (input: string): string {
  if (input.length > MAX_CHARACTERS) return ''
  const label = USUAL_LABEL.exec(input)?.[0]
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
 * or zero group after a dot, a short one in brackets, a list number, a date, an IP address.
 */
function scan (input: string): Written | undefined {
  if (input.length > MAX_CHARACTERS) return undefined
  if (ONLY_DIGITS.test(input)) return counted({ digits: input, firstGroup: input.length })
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
  const mayBeAddress = groups === 4 && dots === 3 && addressIn(input) !== undefined
  return mayBeFraction || mayBeDate || mayBeAddress ? undefined : counted({ digits, firstGroup })
}

function counted (written: Written): Written | undefined {
  const { digits } = written
  const count = digits.startsWith('+') ? digits.length - 1 : digits.length
  return count < MIN_DIGITS || count > MAX_DIGITS ? undefined : written
}

/** Whether the first group may be another calling code than the number has, or no part of it. */
function hasOtherGroups (
  { digits, firstGroup }: Written, number: SplitNumber, { callingCode }: Plan
): boolean {
  const first = digits.charCodeAt(0)
  if (first === PLUS) return firstGroup <= number.callingCode.digits.length
  if (first === ZERO) {
    return firstGroup === callingCode.length + 1 && digits.startsWith(callingCode, 1)
  }
  // `2 030 901820`: the second number of a list, perhaps.
  if (firstGroup === 1 && digits.charCodeAt(1) === ZERO) return true
  const code = callingCodeAt(digits, 0)?.digits
  if (code?.length !== firstGroup || code === callingCode) return false
  const foreign = readInternational(digits, 0)
  return foreign !== undefined && isAssigned(foreign)
}

/** A number as it stands in a cell, or why there is none. `extension` is blank without one. */
export type CellReading =
  | { readonly number: SplitNumber, readonly extension: string }
  | { readonly fault: NumberFault }

type Reading = SplitNumber | NumberFault

/**
 * Reads the phone number in a cell as spreadsheets and people write it: labels and words around
 * it, extensions, letters that are dialed, fractions of zeros. `text` has no control characters.
 *
 * A cell that can be read as two assigned numbers has none: any choice might be the number of a
 * stranger. What is left out of the cell (words, marks, a list number) is left out only if the rest
 * is an assigned number, or has a plus.
 */
export function readCell (text: string, country: string | undefined): CellReading {
  const plan = country ? planOfCountry(country) : undefined
  const cell = unwrap(plainText(text))
  if (cell === undefined) return { fault: 'not_a_phone_number' }
  const { main, extension } = separateExtension(withoutLabel(cell))
  const reading = readMain(main, plan)
  const needsAssigned = LABELED.test(cell) && !PLUS_FIRST.test(main)
  if (needsAssigned && typeof reading !== 'string' && !isAssigned(reading)) {
    return readPaused(main, plan) ?? { fault: NO_NUMBER }
  }
  if (extension !== '') return asCell(reading, extension)
  if (typeof reading !== 'string' && isAssigned(reading)) return { number: reading, extension: '' }
  return readPaused(main, plan) ?? asCell(reading, '')
}

function asCell (reading: Reading, extension: string): CellReading {
  if (typeof reading === 'string') return { fault: reading }
  // `0601234567` in Poland: the zero is one too many, or the number is of another country.
  const isClear = withoutInnerPrefix(reading) === undefined
  return isClear ? { number: reading, extension } : { fault: 'ambiguous_number' }
}

const NO_NUMBER = 'not_a_phone_number'
const FIRST_DIGIT = /[+\d]/
/** Words before a number; with a plus it is one, whether it is assigned or not. */
const LABELED = /^[^+\d]*\p{L}/u
const PLUS_FIRST = /^[([]?\+/

/** Labels that stand before an extension, in the languages of Google's library and more. */
const LABELS = 'e?xt(?:ensi(?:o?|o\u0301|\u00f3))?n?|anexo|ramal|poste|interno?|int|durchwahl|' +
  'nebenstelle|apparat|app|klappe|dw|kl|wewn?|linka|\u0434\u043e\u0431|\u0434\u043e\u043f|' +
  '\u0432\u043d|\u8f6c|\u5185\u7ebf|\u5167\u7dda|\u5206\u673a|\u5206\u6a5f|x'
const EXTENSION = new RegExp(
  `(?<!\\p{L})(?:${LABELS})\\p{L}{0,9}[.:]{0,2}[ ,-]{0,4}(\\d{1,20})#?[)\\]]?$`, 'iu')
const LABEL_BEFORE = new RegExp(`(?<!\\p{L})(?:${LABELS})[.:]? ?$`, 'iu')
const PLUS_BEFORE = /(?<!\p{L})plus ?$/iu
/** Letters in place of digits. */
const LETTERS_BEFORE = /(?<!\p{L})[OoQDlI|SBZ]+ ?$/u
const LETTERS_AFTER = /^[OoQDlI|SsBZz]+(?!\p{L})/u
const LOOKALIKES = /^[OoQDlISsBZz]+$/
const SERVICE_CODE = /#$|\*\d{2,3}[*#]/

/** The cell from its first digit on; blank if there is none, or if its begin is not clear. */
function withoutLabel (cell: string): string {
  const start = cell.search(FIRST_DIGIT)
  if (start < 0) return ''
  const label = cell.slice(0, start)
  const number = cell.slice(start)
  if (LETTERS_BEFORE.test(label) || LABEL_BEFORE.test(label)) return ''
  if (SERVICE_CODE.test(label) || SERVICE_CODE.test(`${label.slice(-1)}${number.slice(0, 4)}`)) {
    return ''
  }
  const bracket = /[([] ?$/.exec(label)?.[0].trim() ?? ''
  return PLUS_BEFORE.test(label) ? `+${number}` : `${bracket}${number}`
}

/** Splits off an extension with a label; blank without one. */
function separateExtension (cell: string): { readonly main: string, readonly extension: string } {
  const end = endOfDigits(cell)
  // Words after the extension.
  const closing = /^#?[)\]]?/.exec(cell.slice(end))?.[0] ?? ''
  const text = cell.slice(0, end + closing.length)
  const match = EXTENSION.exec(text)
  const digits = text.slice(0, match?.index).replaceAll(/\D/g, '').length
  if (match === null || digits < MIN_DIGITS) {
    return { main: cell, extension: '' }
  }
  return { main: trimEnd(text.slice(0, match.index)), extension: match[1] ?? '' }
}

/**
 * Reads a number that is followed by pauses and an extension: `212 736 5000,,12` and, in
 * North America, `212-736-5000 12#`. Undefined unless the rest is an assigned number.
 */
function readPaused (main: string, plan: Plan | undefined): CellReading | undefined {
  const match = PAUSED.exec(main)
  const extension = match?.[1] ?? match?.[2]
  if (match === null || extension === undefined) return undefined
  const text = trimEnd(main.slice(0, match.index))
  // Several commas separate groups, or numbers.
  if (/[,;#]/.test(text) || !NUMERIC.test(text)) return undefined
  const number = readNumeric(text, plan)
  return typeof number === 'string' || !isAssigned(number) ? undefined : { number, extension }
}

/** An extension of more digits, or one that begins like a number, may be a second number. */
const PAUSED = /(?:,{1,3}|;|#|~)[ .:-]{0,3}(?!0\d{4}|0+$)(\d{1,6})#?$|[ -](\d{1,6})#$/
const NUMERIC = /^[+\d ()[\].'_-]*$/
const SEPARATED = /^[+\d ()[\].'_\-/\\,;|&:~]*$/
/** Open at all times. */
const ALWAYS = / \(?24 ?\/ ?7\)?$/
const OR = new RegExp(
  '(?<=[\\d)]) (?:or|oder|o|u|und|and|ou|bzw|y|e|\u0438\u043b\u0438)(?!\\p{L})' +
  '\\.? ?(?=[+(\\d])', 'giu')

const DAY = '(?:(?:19|20)\\d\\d([./-])[01]?\\d\\1[0-3]?\\d|' +
  '[0-3]?\\d([./-])[0-3]?\\d\\2(?:19|20)\\d\\d)'
const TIME = '[0-2]?\\d:[0-5]\\d(?::[0-5]\\d)?'
/** `12/05/1990`, `2024-01-15T10:30:00`, `10:30`: no number, whatever its digits are. */
const DATE = new RegExp(`^(?:${DAY}(?:[ T]${TIME})?|${TIME})$`)

function readMain (cell: string, plan: Plan | undefined): Reading {
  if (cell === '' || DATE.test(cell) || isAddress(cell, plan)) return NO_NUMBER
  const main = trimEnd(cell.replaceAll(OR, '|').replace(ALWAYS, ''))
  const end = endOfDigits(main)
  const number = main.slice(0, end)
  const rest = main.slice(end)
  const hasWords = /[^ .,;:!?'"*()[\]_/\\|-]/.test(rest)
  if (!hasWords && SEPARATED.test(number)) {
    const closing = /^[)\]]/.exec(rest)?.[0] ?? ''
    return readSeparated(number + closing, plan)
  }
  const dialed = SEPARATED.test(number) ? readBeforeWords(number, rest, plan) : undefined
  if (dialed !== undefined) return dialed
  return readWithHours(main, plan) ?? readLetters(main, plan) ?? NO_NUMBER
}

/** IPv4, with a port or the length of its prefix; a number may begin with a zero of its own. */
const ADDRESS = /^[[(]?([1-9]\d{0,2}(?:\.\d{1,3}){3})[\])]?(?::\d{1,5}|\/\d{1,2})?$/
/** How numbers of eight digits are written. */
const PAIRS_OF_DIGITS = /^\d\d(?:\.\d\d){3}$/
/** No number has such a group, except at its begin. */
const SINGLE_DIGIT = /\.\d(?:\.|$)/

/** Whether a cell is an IP address, and can be no phone number with dots: `91.123.45.67`. */
function isAddress (cell: string, plan: Plan | undefined): boolean {
  const address = addressIn(cell)
  return address !== undefined && (!isPublicAddress(address) ||
    (SINGLE_DIGIT.test(address) && !isAssigned(readNumeric(address, plan))))
}

function addressIn (cell: string): string | undefined {
  const address = ADDRESS.exec(cell)?.[1] ?? ''
  return isIP(address) === 4 && !PAIRS_OF_DIGITS.test(address) ? address : undefined
}

/** Words or a mark after a number: they are cut if the rest is an assigned number. */
function readBeforeWords (
  number: string, rest: string, plan: Plan | undefined
): Reading | undefined {
  if (LETTERS_AFTER.test(rest)) return undefined
  // `901820 24h`: the last digits belong to the word.
  const token = /^\p{L}/u.test(rest) ? /[ ([-]+\d{1,4}$/.exec(number) : null
  const hours = HOURS.exec(number)
  const cut = token ?? hours
  const whole = readSeparated(number, plan)
  if (cut !== null) {
    const before = readSeparated(trimEnd(number.slice(0, cut.index)), plan)
    if (hours !== null && WEEKDAYS.test(rest) && isAssigned(before)) return before
    return choose([before, whole])
  }
  if (isAssigned(whole) || whole === 'ambiguous_number' || whole === 'several_numbers') {
    return whole
  }
  return undefined
}

const HOURS = / \d{1,2}(?::\d\d)? ?- ?\d{1,2}(?::\d\d)?$/
const WEEKDAYS = new RegExp('^[ ,(]*(?:mo|mon|tu|tue|we|wed|th|thu|fr|fri|sa|sat|su|sun|' +
  'di|mi|do|so|daily|t\u00e4glich|uhr|h|am|pm)(?!\\p{L})', 'iu')

/** Words with digits after the number, as opening hours: the number must not go on with them. */
function readWithHours (main: string, plan: Plan | undefined): Reading | undefined {
  const letter = main.search(/\p{L}/u)
  if (letter < 1 || !/[ (,;-]$/.test(main.slice(0, letter))) return undefined
  const before = trimEnd(main.slice(0, letter))
  if (!SEPARATED.test(before)) return undefined
  const head = readSeparated(before, plan)
  if (!isAssigned(head)) return undefined
  const rest = withoutLabel(main.slice(letter))
  const second = readSeparated(rest.slice(0, endOfDigits(rest)), plan)
  // `Fax: 212-736-5001 Phone: 212-736-5000`
  if (isAssigned(second)) {
    const only = onlyAssigned([head, second])
    return typeof only === 'object' ? only : 'several_numbers'
  }
  if (/\d{5}/.test(rest)) return undefined
  const all = readDigits(digitsIn(main), plan)
  if (all === 'ambiguous') return 'ambiguous_number'
  return choose([head, all ?? NO_NUMBER])
}

/** The only assigned number; undefined if none is. */
function choose (readings: readonly Reading[]): Reading | undefined {
  const fault = readings.find(reading =>
    reading === 'ambiguous_number' || reading === 'several_numbers')
  if (fault !== undefined) return fault
  const only = onlyAssigned(readings.filter(reading => typeof reading !== 'string'))
  return only === 'ambiguous' ? 'ambiguous_number' : only
}

const KEYS = '22233344455566677778889999'
/** As in Google's library. */
const MIN_LETTERS = 3
const VANITY = /^[+(]?\d[\dA-Za-z ().-]*$/

/**
 * Letters that are dialed by the keys of a phone: `1-800-GO-FEDEX`. In North America, where every
 * number has ten digits, the length shows that they are no words; other countries need one word of
 * capitals.
 */
function readLetters (main: string, plan: Plan | undefined): Reading | undefined {
  const words = dialedWords(main)
  if (words.length === 0) return undefined
  const isCapital = words.every(word => word === word.toUpperCase())
  const number = readDigits(digitsIn(dialedBy(main)), plan)
  if (number === 'ambiguous') return 'ambiguous_number'
  if (number === undefined || !isAssigned(number)) return undefined
  const isFixed = number.callingCode.digits === '1'
  const isJoined = !/ [A-Za-z]/.test(main)
  return (isFixed ? isCapital || isJoined : isCapital && words.length === 1) ? number : undefined
}

/** The words of letters in a number that may be dialed; none if it has too few of them. */
function dialedWords (main: string): readonly string[] {
  const words = main.match(/[A-Za-z]+/g) ?? []
  const canBe = VANITY.test(main) && words.join('').length >= MIN_LETTERS &&
    !words.some(word => LOOKALIKES.test(word))
  return canBe ? words : []
}

/** The text with the digit of each letter. */
function dialedBy (main: string): string {
  return main.replaceAll(/[A-Za-z]/g, letter =>
    KEYS[letter.toUpperCase().charCodeAt(0) - 'A'.charCodeAt(0)] ?? '')
}

/** Of one number: an amount of millions has fewer. */
const MAX_PARTS = 6

/** A number, or several with separators between them; a slash may also be within one. */
function readSeparated (text: string, plan: Plan | undefined): Reading {
  const parts = text.split(/[/\\,;|&:~]+/).filter(part => /\d/.test(part))
  if (parts.length < 2) return readNumeric(withoutFraction(parts[0] ?? '', plan), plan)
  if (parts.length > MAX_PARTS) return 'several_numbers'
  const currency = withoutFraction(text, plan)
  if (currency === undefined) return NO_NUMBER
  if (currency !== text) return readSeparated(currency, plan)
  const isGrouped = /^\+?\d{1,3}(?:,\d{3})+$/.test(text)
  const numbers = parts.map(part => readNumeric(part, plan))
  const isListed = /^\D*[1-9]\d?\D*$/.test(parts[0] ?? '')
  if (isListed && parts.length === 2 && /[;|]/.test(text)) return numbers[1] ?? NO_NUMBER
  if (!isGrouped && (/[;|&\\]/.test(text) || isAssigned(numbers[0] ?? NO_NUMBER))) {
    // Equal numbers are one; several are none, as a row has one number.
    const only = choose(numbers)
    const isOne = typeof only === 'object' && numbers.every(number => isAssigned(number))
    return isOne ? only : 'several_numbers'
  }
  const whole = readNumeric(parts.join(' '), plan)
  if (isGrouped) return whole
  for (let end = 2; end < parts.length; end++) {
    if (isAssigned(readNumeric(parts.slice(0, end).join(' '), plan))) return 'several_numbers'
  }
  const later = numbers.slice(1).filter((number, index) =>
    (isListed || /^ *[+(]?[+0]/.test(parts[index + 1] ?? '')) && isAssigned(number))
  if (later.length > 1) return 'several_numbers'
  // `5, 030 901820`: a list number and a phone number, or one number.
  const [only] = later
  return only === undefined ? whole : choose([whole, only]) ?? whole
}

/**
 * The text without the fraction that a spreadsheet writes for a whole number, `.0` or `,00`;
 * undefined for another fraction, which is no phone number. A dot may also be a separator.
 */
function withoutFraction (text: string, plan: Plan | undefined): string | undefined {
  const match = /[.,](\d+)$/.exec(text)
  if (match === null) return text
  const [, fraction = ''] = match
  const head = text.slice(0, match.index)
  const isPlain = /^\+?\d+$/.test(head)
  const isAmount = /^\+?\d{1,3}(?:[.,']\d{3})+$/.test(head) && !head.includes(match[0][0] ?? '')
  const isDecimal = !/[.,]/.test(head)
  if (/^0+$/.test(fraction)) {
    if (isPlain || isAmount || fraction.length === 1) return head
    if (fraction.length > 2) return text
    if (match[0].startsWith(',')) return head
    const whole = isAssigned(readNumeric(text, plan))
    if (!isAssigned(readNumeric(head, plan))) return text
    return isDecimal || !whole ? head : undefined
  }
  const isShort = isPlain || fraction.length < 3
  if (match[0].startsWith(',') || !isDecimal || !isShort) return text
  return isAssigned(readNumeric(head, plan)) ? undefined : text
}

const ZERO_IN_BRACKETS = /[([]0[)\]]/
const LIST_NUMBER = /^[([]?\d{1,2}[.):\]] +(?=[+(\d])|^[([]?[1-9]\d?[)\]](?=[+0])/
/** Or the first digit of a number whose national prefix is left out. */
const UNMARKED_LIST_NUMBER = /^[1-9] +[(]?0/
/** Of Buenos Aires, Delhi, Johannesburg and Turin; elsewhere an international prefix. */
const AREA_CODE = '011'
const FOOTNOTE = /[ ]*([([])\d{1,2}[)\]]$/

/** Digits with separators; undefined is a fraction. */
function readNumeric (text: string | undefined, plan: Plan | undefined): Reading {
  if (text === undefined || DATE.test(text)) return NO_NUMBER
  const number = withOnePlus(text)
  if (number === undefined) return 'several_numbers'
  const inCity = plan && readAreaCode(number, plan)
  if (inCity !== undefined) return inCity
  const listed = LIST_NUMBER.exec(number)?.[0]
  const note = FOOTNOTE.exec(number)
  const readings = [readDigits(digitsIn(number), plan), ...foreignReadings(number, plan)]
  if (ZERO_IN_BRACKETS.test(number)) {
    readings.push(readDigits(digitsIn(number.replace(ZERO_IN_BRACKETS, '')), plan))
  }
  if (listed !== undefined) {
    const rest = readDigits(digitsIn(number.slice(listed.length)), plan)
    const isList = /^[([]?[1-9]/.test(listed) && /^[ (]*[+0]/.test(number.slice(listed.length))
    if (isList && isAssigned(rest)) return asReading(rest, number, plan)
    readings.push(rest)
  }
  if (UNMARKED_LIST_NUMBER.test(number)) {
    const rest = readDigits(digitsIn(number).slice(1), plan)
    if (isAssigned(rest)) readings.push(rest)
  }
  if (note !== null) {
    const before = readDigits(digitsIn(number.slice(0, note.index)), plan)
    if (note[1] === '[' && isAssigned(before)) return asReading(before, number, plan)
    readings.push(before)
  }
  const [first] = readings
  const read = readings.length === 1 ? first : onlyAssigned(readings) ?? first
  return asReading(asMeant(read, digitsIn(number), plan), number, plan)
}

function asReading (dialed: Dialed, text: string, plan: Plan | undefined): Reading {
  if (dialed === 'ambiguous') return 'ambiguous_number'
  return dialed ?? findFault(digitsIn(text), plan)
}

function findFault (digits: string, plan: Plan | undefined): NumberFault {
  const count = digits.replace('+', '').length
  if (count === 0) return NO_NUMBER
  if (count < MIN_DIGITS) return 'too_short'
  if (count > MAX_DIGITS) return 'too_long'
  if (!digits.startsWith('+')) return plan === undefined ? 'no_calling_code' : 'too_long'
  const code = callingCodeAt(digits, 1)
  if (code === undefined) return 'unknown_calling_code'
  return count - code.digits.length < MIN_DIGITS ? 'too_short' : 'too_long'
}

/**
 * The text from its plus on, of several the last: `++49`, `00+49`, `+49 +49 30`. Undefined if
 * something else stands before it.
 */
function withOnePlus (text: string): string | undefined {
  const at = text.lastIndexOf('+')
  if (at <= 0) return text
  const before = text.slice(0, at)
  const digits = before.replaceAll(/\D/g, '')
  const isRepeated = before.includes('+') && digits !== '' &&
    text.slice(at).replaceAll(/\D/g, '').startsWith(digits) && digits.length < MIN_DIGITS + 1
  const isSlip = /^0{0,2}$/.test(digits) || /^[([]?\d{1,2}[.):\]]? *$/.test(before)
  return isRepeated || isSlip ? text.slice(at) : undefined
}

/**
 * `011 4951-2345` in Argentina: a national number, as no group ends with a calling code. Undefined
 * if it is not assigned, or 011 may be an international prefix as well.
 */
function readAreaCode (text: string, plan: Plan): SplitNumber | undefined {
  const digits = digitsIn(text)
  const groups = text.match(/\d+/g) ?? []
  if (groups.length < 2 || !digits.startsWith(AREA_CODE)) return undefined
  const endOfCode = AREA_CODE.length + (callingCodeAt(digits, AREA_CODE.length)?.digits.length ?? 0)
  let end = 0
  const mayBeForeign = groups.some(group => (end += group.length) === endOfCode)
  if (mayBeForeign) return undefined
  const number = stable(readNational(digits, plan))
  // With the area code: China has prefixes of carriers that begin as it does.
  return isAssigned(number) && number.national.length >= digits.length - 1 ? number : undefined
}

/**
 * Other readings of digits whose groups are not those of the first reading: `+8 495 ...` in Russia,
 * `44 20 ...` without its plus, and `049 30 ...` for +49.
 */
function foreignReadings (text: string, plan: Plan | undefined): readonly Dialed[] {
  if (plan === undefined) return []
  const digits = digitsIn(text)
  const group = /^[ (]*(\+?\d{1,4})[ ().-]+\d/.exec(text)?.[1]
  if (group === undefined) return []
  if (group.startsWith('+')) {
    const number = readInternational(digits, 1)
    const isCut = number !== undefined && number.callingCode.digits.length > group.length - 1
    return isCut ? [readDigits(digits.slice(1), plan)] : []
  }
  const code = group.replace(/^0/, '')
  const number = readInternational(`+${digits.slice(group.length - code.length)}`, 1)
  if (number?.callingCode.digits !== code) return []
  if (group !== code) return code === plan.callingCode ? [number] : []
  if (!isAssigned(number)) return []
  const national = readDigits(digits, plan)
  // Neither reading is safe: the plus was lost, or the national number is wrong.
  if (!isAssigned(national)) return ['ambiguous']
  return hasLostPrefix(digits, plan) ? [number] : []
}

/** Digits with at most a leading plus. */
function digitsIn (text: string): string {
  const digits = text.replaceAll(/\D/g, '')
  return /^[^\d+]*\+/.test(text) ? `+${digits}` : digits
}

/** The index after the last digit. */
function endOfDigits (text: string): number {
  let end = text.length
  while (end > 0 && !/\d/.test(text[end - 1] ?? '')) end--
  return end
}

function trimEnd (text: string): string {
  let end = text.length
  while (end > 0 && ' .,;:-([/\\|_'.includes(text[end - 1] ?? '')) end--
  return text.slice(0, end)
}

/**
 * The extension in a cell whose number is `e164` (blank for a cell without one), with its label or
 * after pauses; blank without one. Depends on the cell alone, so that a row needs nothing but its
 * input.
 */
export function readExtension (input: string, e164: string): string {
  const { main, extension } = splitInput(input, e164)
  if (extension !== '') return extension
  const match = PAUSED.exec(main)
  const paused = match?.[1] ?? match?.[2] ?? ''
  const number = digitsIn(main.slice(0, match?.index ?? 0)).slice(-MIN_SAME_DIGITS)
  return number.length === MIN_SAME_DIGITS && e164.endsWith(number) ? paused : ''
}

/**
 * The number in a cell as it is spelled, if letters of it are dialed: `1-800-GO-FEDEX`; blank if
 * the number `e164` does not end with them. Depends on the cell alone, like the extension.
 */
export function readVanity (input: string, e164: string): string {
  const { main } = splitInput(input, e164)
  if (dialedWords(main).length === 0) return ''
  const spelled = dialedBy(main.slice(main.search(/[A-Za-z]/))).replaceAll(/\D/g, '')
  return e164.endsWith(spelled) ? main.trim().toUpperCase() : ''
}

/** The number and the labeled extension of a cell that may have more than digits. */
function splitInput (input: string, e164: string): ReturnType<typeof separateExtension> {
  const cell = e164 === '' || PLAIN.test(input) ? undefined : unwrap(plainText(input.trim()))
  return cell === undefined ? { main: '', extension: '' } : separateExtension(withoutLabel(cell))
}

/** Most inputs: they have no extension, and no letters. */
const PLAIN = /^[+\d ().-]*$/
/** The last digits of the number that an extension follows. */
const MIN_SAME_DIGITS = 4

/** Replaces every number that is not a decimal digit: ², ①, ½, Ⅷ. It is a mark, never dialed. */
const MARK = '\u00b9'
const ASCII_ONLY = /^[ -~]*$/
const FULL_WIDTH = 0xfee0
const KEYCAP = /\d\ufe0f?\u20e3/g

/** Signs that stand for one of ASCII. */
const SIGNS = [
  ['+', '\u207a\u2795\ufe62'],
  ['/', '\u2044\u2215'],
  ['.', '\u00b7\u2022\u2027\u2219\u30fb\u3002\u2024\u066b'],
  [',', '\u3001\u060c\u066c'],
  ["'", '\u2018\u2019\u201b\u00b4\u02bc\u2032'],
  ['"', '\u201c\u201d\u201e\u00ab\u00bb'],
  ['~', '\u2053\u223c\u301c'],
  ['-', '\u2212\u30fc\uff70\u2043\u02d7\u2500'],
] as const
const PLAIN_SIGNS = new Map(SIGNS.flatMap(([plain, signs]) =>
  [...signs].map((sign): [string, string] => [sign, plain])))

let decimalDigits: ReadonlyMap<string, string> | undefined

/** Every decimal digit of Unicode; those of a script are ten successive characters. */
function readDecimalDigits (): ReadonlyMap<string, string> {
  const values = new Map<string, string>()
  let run = 0
  for (let code = 0; code < 0x20000; code++) {
    const character = String.fromCodePoint(code)
    if (!/\p{Nd}/u.test(character)) run = 0
    else values.set(character, String(run++ % 10))
  }
  return values
}

/**
 * The text in ASCII as far as it can be part of a phone number: digits of all scripts, full-width
 * letters and signs, dashes, spaces; invisible characters are removed. Numbers that are not digits
 * become marks.
 */
function plainText (text: string): string {
  if (ASCII_ONLY.test(text)) return text
  // A keycap is a digit in a number of keycaps only; beside other digits it counts something.
  const areDigits = !/\p{Nd}/u.test(text.replaceAll(KEYCAP, ''))
  const withoutKeycaps =
    text.replaceAll(KEYCAP, keycap => areDigits ? keycap.charAt(0) : MARK)
  return [...withoutKeycaps].map(plainCharacter).join('').trim()
}

function plainCharacter (character: string): string {
  if (character <= '~') return character
  const plain = PLAIN_SIGNS.get(character)
  if (plain !== undefined) return plain
  if (/\p{N}/u.test(character)) {
    decimalDigits ??= readDecimalDigits()
    return decimalDigits.get(character) ?? MARK
  }
  if (/[\p{Cf}\p{Default_Ignorable_Code_Point}]/u.test(character)) return ''
  if (/\p{Zs}/u.test(character)) return ' '
  if (/\p{Pd}/u.test(character)) return '-'
  if (character >= '\uff01' && character <= '\uff5e') {
    return String.fromCharCode(character.charCodeAt(0) - FULL_WIDTH)
  }
  if (/\p{Ps}/u.test(character)) return '('
  return /\p{Pe}/u.test(character) ? ')' : character
}

const MAX_WRAPPINGS = 4
const SCIENTIFIC = /^\+?(\d)(?:[.,](\d+))?[eE]\+?0{0,3}(\d{1,2})$/
const ENTITIES: Readonly<Record<string, string>> = {
  '&#43;': '+', '&#x2b;': '+', '&plus;': '+', '&nbsp;': ' ', '&#160;': ' ',
}
const MARK_BETWEEN_DIGITS = /\d\u00b9+\d/
const NOT_A_NUMBER = /@|:\/\/|<\/|[$\u20ac\u00a3%=^{}]/

/**
 * The plain text of a cell without what programs put around a number: quotes, formulas, URIs,
 * escapes, scientific notation. Undefined if it is no phone number.
 */
function unwrap (plain: string): string | undefined {
  let text = plain.replaceAll(/%(?:2B|20|28|29|2D)/gi, escape => decodeURIComponent(escape))
    .replaceAll(/&[#\w]{3,5};/g, entity => ENTITIES[entity.toLowerCase()] ?? entity)
  for (let pass = 0; pass < MAX_WRAPPINGS; pass++) {
    text = text.trim().replace(/^(?:=(?=["+\d])|'+(?!.*')|"(?!.*"))/, '')
    if (text.length > 1 && PAIRS[text.charAt(0)] === text.at(-1)) text = text.slice(1, -1)
  }
  for (const [pattern, replacement] of WRAPPINGS) text = text.replace(pattern, replacement)
  if (/^\D*tel:|;(?:phone-context|ext|isub)=/i.test(text)) return readUri(text)
  const exact = readScientific(text)
  if (exact !== text) return exact
  if (NOT_A_NUMBER.test(text) || MARK_BETWEEN_DIGITS.test(text)) return undefined
  return text.replaceAll(MARK, ' ').replaceAll(/ {2,}/g, ' ').trim()
}

/** Links and ids of WhatsApp, properties of vCard, links of HTML, and the 0xx11 of Brazil. */
const WRAPPINGS: readonly Replacement[] = [
  [/^(?:https?:\/\/)?wa\.me\/\+?(\d+)(?:[?#].*)?$/i, '+$1'],
  [/^https?:\/\/wa\.me\/\+?(?=\d)/i, '+'],
  [new RegExp('^(?:https?://(?:api|web)\\.whatsapp\\.com|whatsapp:/)/send/?\\?phone=\\+?' +
    '(\\d+)(?:[&#].*)?$', 'i'), '+$1'],
  [/^\+?(\d+)@(?:c\.us|s\.whatsapp\.net)$/i, '+$1'],
  [/^(?:item\d+\.)?tel;[^:]*:/i, ''],
  [/^<?a\b[^>]*\bhref=["']tel:([^"'<>]*)["'].*$/i, 'tel:$1'],
  [/^((?:\+?55[ -]?)?[([]?0) ?xx ?(?=[1-9]{2})/i, '$1'],
]

const PAIRS: Readonly<Record<string, string>> = { '"': '"', "'": "'", '*': '*', _: '_', '<': '>' }

/** Scientific notation with all digits as a whole number; undefined if digits are lost. */
function readScientific (text: string): string | undefined {
  const match = SCIENTIFIC.exec(text.replaceAll(' ', ''))
  if (match === null) return text
  const [, first = '', fraction = '', exponent] = match
  const integer = fraction.slice(0, Number(exponent))
  const isExact = integer.length === Number(exponent) &&
    /^0*$/.test(fraction.slice(Number(exponent)))
  return isExact ? `${text.startsWith('+') ? '+' : ''}${first}${integer}` : undefined
}

const GLOBAL_CONTEXT = /^\+\d[\d().-]*$/
const DOMAIN_CONTEXT = /^[A-Za-z\d](?:[A-Za-z\d.-]*[A-Za-z\d])?\.?$/

/**
 * The number of a `tel:` URI (RFC 3966) with its extension in words, preceded by its context if
 * that is a prefix of numbers.
 */
function readUri (text: string): string | undefined {
  const [number = '', ...parameters] = text.replace(/^.*?tel:(?:\/\/)?/i, '').split(';')
  const values = new Map(parameters.map(parameter => {
    const [name = '', ...value] = parameter.split('=')
    return [name.trim().toLowerCase(), value.join('=').trim()]
  }))
  const context = values.get('phone-context')
  const extension = values.get('ext')
  if (context !== undefined && !GLOBAL_CONTEXT.test(context) && !DOMAIN_CONTEXT.test(context)) {
    return undefined
  }
  const isLocal = context?.startsWith('+') === true && !number.trim().startsWith('+')
  const whole = (isLocal ? `${context} ${number}` : number).replaceAll(MARK, ' ')
  return extension === undefined ? whole.trim() : `${whole} ext ${extension}`
}

/** Parsing a parsed number again is stable after one or two passes. */
const MAX_PASSES = 4
/** International prefixes that people write wherever they are. */
const COMMON_PREFIXES = ['00', '011', '0011'] as const

/**
 * Reads digits with at most a leading plus as somebody in a country dials them; without a plan only
 * international numbers can be read. Where they can be read in two ways, the one that is an
 * assigned number is meant. Two assigned numbers are `ambiguous`: any choice might be the number of
 * a stranger. The result parses to itself.
 */
function readDigits (digits: string, plan: Plan | undefined): Dialed {
  if (digits[0] !== '+') return plan && stable(readDialed(digits, plan))
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

/** The only assigned number of several readings, `ambiguous`, or undefined if none is assigned. */
function onlyAssigned (readings: readonly Dialed[]): Dialed {
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

type Replacement = readonly [pattern: RegExp, replacement: string]

const FRENCH_OVERSEAS: ReadonlySet<string> = new Set(['262', '590', '594', '596'])

/**
 * By calling code, what is dialed in place of numbers that are written as they once were, or as
 * they are within the country; with the calling code. The first pattern that matches counts.
 */
const REPLACEMENTS: ReadonlyMap<string, readonly Replacement[]> = new Map<
  string, readonly Replacement[]
>([
  // The plan of ARCEP gives these to departments overseas, which have calling codes of their own.
  ['33', [
    [/^(?:26[29]|69[23]|639)\d{6}$/, '262$&'], [/^(?:590|69[01])\d{6}$/, '590$&'],
    [/^[56]94\d{6}$/, '594$&'], [/^(?:596|69[67])\d{6}$/, '596$&'],
  ]],
  // Northern Ireland, as it is dialed in Ireland.
  ['353', [[/^48(\d{8})$/, '4428$1']]],
  // The zero of a landline is a part of it; mobile numbers begin with 3.
  ['39', [[/^(?:39)?([124-9]\d{6,9})$/, '390$1']]],
  // Argentina has a 9 for mobile numbers called from abroad, and 0 and 15 within the country.
  ['54', [[/^90?(?=\d{12}$)(\d{2,4})15(\d+)$/, '549$1$2'], [/^90(\d{10})$/, '549$1']]],
  // Every mobile number of Brazil has a ninth digit since 2016.
  ['55', [[/^([1-9]\d)([6-9]\d{7})$/, '55$19$2']]],
  // Landlines of Colombia since 2021.
  ['57', [[/^[124-8]\d{7}$/, '5760$&']]],
  // Mobile numbers of Viet Nam since 2018, Hanoi since 2017.
  ['84', [
    [/^120(?=\d{7}$)/, '8470'], [/^121(?=\d{7}$)/, '8479'], [/^122(?=\d{7}$)/, '8477'],
    [/^12([68])(?=\d{7}$)/, '847$1'],
    [/^12([345])(?=\d{7}$)/, '848$1'], [/^127(?=\d{7}$)/, '8481'], [/^129(?=\d{7}$)/, '8482'],
    [/^16([2-9])(?=\d{7}$)/, '843$1'], [/^18([68])(?=\d{7}$)/, '845$1'],
    [/^199(?=\d{7}$)/, '8459'], [/^4\d{8}$/, '842$&'],
  ]],
  // Cote d'Ivoire since 2021, by operator; Benin since 2024.
  ['225', [
    [/^(?:0[1-3]|[457][0-3])\d{6}$/, '22501$&'], [/^[04-9][4-6]\d{6}$/, '22505$&'],
    [/^[04-9][7-9]\d{6}$/, '22507$&'],
  ]],
  ['229', [[/^[2-9]\d{7}$/, '22901$&']]],
])
/** Where Google's library takes what is replaced for assigned. */
const ALWAYS_REPLACED: ReadonlySet<string> = new Set(['33', '353'])

/**
 * The number that is meant by these digits if what was read is not assigned, or `ambiguous` if it
 * may be one of another country that has lost its plus: `24762889` in Italy. Else what was read.
 */
function asMeant (read: Dialed, digits: string, plan: Plan | undefined): Dialed {
  if (typeof read !== 'object') return read
  const { callingCode: { digits: code }, national } = read
  const rules = REPLACEMENTS.get(code)
  // All of France has one national form; only from abroad its parts have codes of their own.
  const isInFrance = FRENCH_OVERSEAS.has(code) && code === plan?.callingCode && digits[0] !== '+'
  if (rules === undefined && !isInFrance) return read
  if (!ALWAYS_REPLACED.has(code) && typeOfNumber(read) !== undefined) return read
  const rule = rules?.find(([pattern]) => pattern.test(national))
  const text = rule === undefined ? `33${national}` : national.replace(...rule)
  const meant = rule === undefined && !isInFrance ? undefined : readInternational(text, 0)
  if (!isAssigned(meant)) return read
  if (isInFrance) return asMeant(meant, `+${text}`, plan)
  return digits[0] === '+' ? meant : onlyAssigned([meant, readInternational(digits, 0)])
}

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
  const meant = isInternational ? onlyAssigned(plain) : undefined
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
function withoutInnerPrefix (number: SplitNumber): SplitNumber | undefined {
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
  const callingCode = readCallingCode(plan)
  const rest = withoutNationalPrefix(callingCode, plan, digits)
  const national = splitNumber(callingCode, rest)
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
    const longer = splitNumber(callingCode, `0${rest}`)
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
function hasLostPrefix (digits: string, plan: Plan): boolean {
  return withoutNationalPrefix(readCallingCode(plan), plan, digits) === digits &&
    ruleFor(plan.formats, digits)?.writesPrefix === true
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
    number = splitNumber(callingCode, again)
  }
  return undefined
}
