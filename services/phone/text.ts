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
const PLAIN = new Map(SIGNS.flatMap(([plain, signs]) =>
  [...signs].map((sign): [string, string] => [sign, plain])))

let digits: ReadonlyMap<string, string> | undefined

/** Every decimal digit of Unicode; those of a script are ten successive characters. */
function readDigits (): ReadonlyMap<string, string> {
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
export function plainText (text: string): string {
  if (ASCII_ONLY.test(text)) return text
  let plain = ''
  for (const character of withoutKeycaps(text)) plain += plainCharacter(character)
  return plain.trim()
}

/** A keycap is a digit in a number of keycaps only; beside other digits it counts something. */
function withoutKeycaps (text: string): string {
  if (!text.includes('\u20e3')) return text
  const isNumber = !/\p{Nd}/u.test(text.replaceAll(KEYCAP, ''))
  return text.replaceAll(KEYCAP, keycap => isNumber ? keycap.charAt(0) : MARK)
}

function plainCharacter (character: string): string {
  if (character <= '~') return character
  const plain = PLAIN.get(character)
  if (plain !== undefined) return plain
  if (/\p{N}/u.test(character)) {
    digits ??= readDigits()
    return digits.get(character) ?? MARK
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
export function unwrap (plain: string): string | undefined {
  let text = plain.replaceAll(/%(?:2B|20|28|29|2D)/gi, escape => decodeURIComponent(escape))
    .replaceAll(/&[#\w]{3,5};/g, entity => ENTITIES[entity.toLowerCase()] ?? entity)
  for (let pass = 0; pass < MAX_WRAPPINGS; pass++) {
    text = text.trim().replace(/^(?:=(?=["+\d])|'+(?!.*')|"(?!.*"))/, '')
    if (text.length > 1 && PAIRS[text.charAt(0)] === text.at(-1)) text = text.slice(1, -1)
  }
  text = text.replace(/^https?:\/\/wa\.me\/\+?(?=\d)/i, '+')
  if (/tel:|;(?:phone-context|ext|isub)=/i.test(text)) return readUri(text)
  const exact = readScientific(text)
  if (exact !== text) return exact
  if (NOT_A_NUMBER.test(text) || MARK_BETWEEN_DIGITS.test(text)) return undefined
  return text.replaceAll(MARK, ' ').replaceAll(/ {2,}/g, ' ').trim()
}

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
