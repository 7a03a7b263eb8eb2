// What Google's library does with numbers, by its numbering plans with compiled patterns.
import {
  getCountries, Metadata, type CountryCode, type NumberingPlan, type NumberType,
} from 'libphonenumber-js/max'

/** A number split by the numbering plan; both together are its E.164 form. */
export type SplitNumber = { readonly callingCode: CallingCode, readonly national: string }

/** The type of a number of an assigned range. */
export type AssignedType = NonNullable<NumberType>

type WrittenPhone = {
  /** ISO 3166; undefined if the range of the number has no single country. */
  readonly country: string | undefined
  /** With the calling code: `+1 212 736 5000`. */
  readonly international: string
  /** As written in the country, with its national prefix: `(212) 736-5000`. */
  readonly national: string
}

/**
 * Formats an E.164 number, equal to the `country`, `formatInternational()` and `formatNational()`
 * of the library. Undefined without a calling code of the library.
 */
export function formatPhone (e164: string): WrittenPhone | undefined {
  const number = readInternational(e164, 1)
  if (number === undefined) return undefined
  const { callingCode, national } = number
  const { country, plan } = matchCountry(callingCode, national)
  const layouts = ruleFor(plan.formats, national)?.layouts[national.length]
  return {
    country,
    international: layouts
      ? fillLayout(layouts.international, national)
      : `+${callingCode.digits} ${national}`,
    national: layouts ? fillLayout(layouts.national, national) : national,
  }
}

type PhoneDescription = {
  readonly callingCode: string
  readonly national: string
  /** ISO 3166; undefined if the range of the number has no single country. */
  readonly country: string | undefined
  /** Undefined if the number is not valid: its range is not assigned. */
  readonly type: AssignedType | undefined
}

/**
 * The description of an E.164 number by the numbering plans, equal to the `country` and `getType()`
 * of the library. Undefined without a calling code of the library.
 */
export function describePhone (e164: string): PhoneDescription | undefined {
  const number = readInternational(e164, 1)
  if (number === undefined) return undefined
  const { callingCode, national } = number
  const match = matchCountry(callingCode, national)
  const type = typeOfMatch(match, national)
  return { callingCode: callingCode.digits, national, country: match.country, type }
}

/**
 * Parses an international number whose calling code starts at `start`, as the library does: a
 * national prefix after the calling code is ignored. Undefined if there is none.
 */
export function readInternational (digits: string, start: number): SplitNumber | undefined {
  const callingCode = callingCodeAt(digits, start)
  if (callingCode === undefined) return undefined
  const rest = digits.slice(start + callingCode.digits.length)
  return splitNumber(callingCode, withoutNationalPrefix(callingCode, callingCode.main, rest))
}

/** The limits of the library for national numbers. */
const MIN_NATIONAL_DIGITS = 2
const MAX_NATIONAL_DIGITS = 17

/** The split number, or undefined if it has too few or too many digits for the library. */
export function splitNumber (callingCode: CallingCode, national: string): SplitNumber | undefined {
  const { length } = national
  const isParsed = length >= MIN_NATIONAL_DIGITS && length <= MAX_NATIONAL_DIGITS
  return isParsed ? { callingCode, national } : undefined
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

/** The type of the range of a number; undefined if it is not assigned. */
export function typeOfNumber ({ callingCode, national }: SplitNumber): AssignedType | undefined {
  return typeOfMatch(matchCountry(callingCode, national), national)
}

/** The countries that share a calling code; most codes have one, global services have none. */
export type CallingCode = {
  readonly digits: string
  /** The plan of the main country, which has the formats of all of them. */
  readonly main: Plan
  readonly countries: readonly Plan[]
}

/** The country and plan of a number. `type` is known if it was needed to find the country. */
type CountryMatch = {
  readonly country: string | undefined
  readonly plan: Plan
  readonly type: AssignedType | undefined | 'not_looked_up'
}

/**
 * The country of a national number, by the rules of the library: the only country of the calling
 * code, or the first whose leading digits match or, without leading digits, that has a type for the
 * number. Otherwise the main plan applies.
 */
export function matchCountry (callingCode: CallingCode, national: string): CountryMatch {
  const { main, countries } = callingCode
  if (countries.length < 2) {
    return { country: main.country, plan: main, type: 'not_looked_up' }
  }
  for (const plan of countries) {
    const { country, leadingDigits } = plan
    if (leadingDigits !== undefined) {
      if (leadingDigits.test(national)) return { country, plan, type: 'not_looked_up' }
      continue
    }
    const type = findAssignedType(plan, national)
    if (type !== undefined) return { country, plan, type }
  }
  return { country: undefined, plan: main, type: 'not_looked_up' }
}

/** The type of the number that the match is of; undefined if its range is not assigned. */
function typeOfMatch ({ type, plan }: CountryMatch, national: string) {
  return type === 'not_looked_up' ? findAssignedType(plan, national) : type
}

/** By the rules of `getNumberType` of the library. */
function findAssignedType (plan: Plan, national: string): AssignedType | undefined {
  if (!plan.pattern.test(national)) return undefined
  const { fixedLine, mobile } = plan
  if (fixedLine !== undefined && matches(fixedLine, national)) {
    const either = mobile === undefined || matches(mobile, national)
    return either ? 'FIXED_LINE_OR_MOBILE' : 'FIXED_LINE'
  }
  for (const rule of plan.otherTypes) {
    if (matches(rule, national)) return rule.type
  }
  return undefined
}

function matches ({ lengths, pattern }: TypeRule, national: string): boolean {
  return hasLength(lengths, national.length) && pattern.test(national)
}

const MAX_CODE_DIGITS = 3
const ZERO = '0'.charCodeAt(0)

const countries: ReadonlySet<string> = new Set(getCountries())
/** By the value of the digits; null if the library has no such code. */
const callingCodes = new Array<CallingCode | null | undefined>(10 ** MAX_CODE_DIGITS)
const countryPlans = new Map<string, Plan>()

/**
 * The calling code at `start` of the digits of an international number; undefined if there is none.
 * No calling code is a prefix of another one, and none starts with 0.
 */
export function callingCodeAt (digits: string, start: number): CallingCode | undefined {
  const end = Math.min(start + MAX_CODE_DIGITS, digits.length)
  let value = 0
  for (let index = start; index < end; index++) {
    value = value * 10 + digits.charCodeAt(index) - ZERO
    if (value === 0) return undefined
    let callingCode = callingCodes[value]
    if (callingCode === undefined) {
      callingCode = compileCallingCode(String(value))
      callingCodes[value] = callingCode
    }
    if (callingCode !== null) return callingCode
  }
  return undefined
}

function compileCallingCode (digits: string): CallingCode | null {
  const metadata = new Metadata() as unknown as LibraryMetadata
  if (metadata.hasCallingCode(digits) !== true) return null
  const plans = (metadata.getCountryCodesForCallingCode(digits) ?? [])
    .map(country => planOfCountry(country)).filter(plan => plan !== undefined)
  return { digits, main: plans[0] ?? compilePlan(digits), countries: plans }
}

/** The plan of a country (ISO 3166, upper case), undefined if the library has none. */
export function planOfCountry (country: string): Plan | undefined {
  const compiled = countryPlans.get(country)
  if (compiled !== undefined || !isKnownCountry(country)) return compiled
  const plan = compilePlan(country)
  countryPlans.set(country, plan)
  return plan
}

/** Whether the library has a plan for an ISO 3166 country. */
export function isKnownCountry (country: string): boolean {
  return countries.has(country)
}

/** The countries of the calling code of a plan. */
export function readCallingCode (plan: Plan): CallingCode {
  const callingCode = callingCodeAt(plan.callingCode, 0)
  if (callingCode !== undefined) return callingCode
  throw new Error(`the library has no calling code ${plan.callingCode}`)
}

/** Bit n is set if n digits are possible. */
type Lengths = number

type TypeRule = {
  readonly type: AssignedType
  readonly lengths: Lengths
  readonly pattern: RegExp
}

/** A numbering plan of the library with compiled patterns. */
export type Plan = {
  /** Undefined for global services such as +800. */
  readonly country: string | undefined
  readonly callingCode: string
  readonly pattern: RegExp
  readonly lengths: Lengths
  readonly maxLength: number
  readonly leadingDigits: RegExp | undefined
  /** The prefix of national numbers, and the replacement of its captured groups. */
  readonly nationalPrefix:
    { readonly pattern: RegExp, readonly transform: string | undefined } | undefined
  readonly internationalPrefix: RegExp | undefined
  /** Whether national numbers may begin with a 0 that is no prefix. */
  readonly hasZeroNumbers: boolean
  readonly fixedLine: TypeRule | undefined
  /** Also undefined if mobile and fixed-line numbers look the same. */
  readonly mobile: TypeRule | undefined
  /** The most digits of a mobile number; Infinity if there is no pattern of them. */
  readonly maxMobileLength: number
  /** In the order of the library, mobile first. */
  readonly otherTypes: readonly TypeRule[]
  readonly formats: readonly FormatRule[]
}

const BITS = 32

/** Whether a number of digits is possible. */
export function hasLength (lengths: Lengths, digits: number): boolean {
  return digits < BITS && (lengths >>> digits & 1) === 1
}

/** The order of the library; the first match wins. */
const OTHER_TYPES = [
  'MOBILE', 'PREMIUM_RATE', 'TOLL_FREE', 'SHARED_COST', 'VOIP', 'PERSONAL_NUMBER', 'PAGER', 'UAN',
  'VOICEMAIL',
] as const satisfies readonly AssignedType[]

/**
 * Area codes that NANPA has put into service and the data of the library lacks: overlays of 440 in
 * Ohio, 713 in Texas, 716 in New York, 313 in Michigan and 309 in Illinois.
 */
const ADDED_RANGES: ReadonlyMap<string, string> = new Map([
  ['US', '(?:436|621|624|679|861)[2-9]\\d{6}'],
])

/** Compiles the plan of a country, or of a calling code without a country. */
function compilePlan (countryOrCallingCode: string): Plan {
  const metadata = new Metadata()
  // A calling code selects the plan of its main country; the declaration allows only countries.
  metadata.selectNumberingPlan(countryOrCallingCode as CountryCode)
  const plan = metadata.numberingPlan as NumberingPlan as LibraryPlan
  const lengths = plan.possibleLengths()
  const prefix = plan.nationalPrefixForParsing()
  const mobile = typeRule(plan, 'MOBILE')
  const added = ADDED_RANGES.get(countryOrCallingCode)
  return {
    country: isKnownCountry(countryOrCallingCode) ? countryOrCallingCode : undefined,
    callingCode: plan.callingCode(),
    pattern: fullPattern(plan.nationalNumberPattern(), added),
    lengths: packLengths(lengths),
    maxLength: Math.max(...lengths),
    leadingDigits: startPattern(plan.leadingDigits()),
    nationalPrefix: prefix
      ? {
          pattern: new RegExp(`^(?:${prefix})`),
          transform: plan.nationalPrefixTransformRule() || undefined,
        }
      : undefined,
    internationalPrefix: startPattern(plan.IDDPrefix()),
    hasZeroNumbers: /(?:^|[|(:])(?:0|\[[^\]]*0)/.test(plan.nationalNumberPattern()),
    fixedLine: typeRule(plan, 'FIXED_LINE', added),
    mobile,
    maxMobileLength: mobile === undefined ? Infinity : BITS - 1 - Math.clz32(mobile.lengths),
    otherTypes: OTHER_TYPES.map(type => typeRule(plan, type)).filter(rule => rule !== undefined),
    formats: plan.formats().map(format => compileFormat(format, `+${plan.callingCode()} `)),
  }
}

function typeRule (plan: LibraryPlan, type: AssignedType, added?: string): TypeRule | undefined {
  const definition = plan.type(type)
  if (definition === undefined || !definition.pattern()) return undefined
  const lengths = packLengths(definition.possibleLengths())
  return { type, lengths, pattern: fullPattern(definition.pattern(), added) }
}

function packLengths (digits: readonly number[]): Lengths {
  return digits.reduce((lengths, length) => lengths | 1 << length, 0)
}

function fullPattern (pattern: string, added?: string): RegExp {
  return new RegExp(`^(?:${added === undefined ? pattern : `${pattern}|${added}`})$`)
}

function startPattern (pattern: string | 0 | undefined): RegExp | undefined {
  return pattern ? new RegExp(`^(?:${pattern})`) : undefined
}

/**
 * The characters of a formatted number; `positions[i]` is for digit `digits[i]` of the national
 * one.
 */
type Layout = {
  readonly codes: number[]
  readonly positions: readonly number[]
  readonly digits: readonly number[]
}

type Layouts = { readonly international: Layout, readonly national: Layout }

/** The format of numbers with certain leading digits. */
type FormatRule = {
  readonly leadingDigits: RegExp | undefined
  /** By number of digits; undefined if the rule does not apply. */
  readonly layouts: readonly (Layouts | undefined)[]
  /** Whether national numbers are written with a prefix: `030 901820`. */
  readonly writesPrefix: boolean
}

/** The first rule whose leading digits and length match, as in the library. */
export function ruleFor (rules: readonly FormatRule[], national: string): FormatRule | undefined {
  return rules.find(({ layouts, leadingDigits }) =>
    layouts[national.length] !== undefined && (leadingDigits?.test(national) ?? true))
}

/**
 * Fills a layout with a national number. Builds the string in one step: a concatenated string would
 * keep its pieces in memory.
 */
function fillLayout ({ codes, positions, digits }: Layout, national: string): string {
  for (let index = 0; index < positions.length; index++) {
    codes[positions[index] ?? 0] = national.charCodeAt(digits[index] ?? 0)
  }
  return String.fromCharCode(...codes)
}

type Group = { readonly min: number, readonly max: number }
type Templates = { readonly international: string, readonly national: string }

const GROUP = /\(\\d(?:\{(\d+)(?:,(\d+))?\})?\)/g
const PLACEHOLDER = /\$(\d)/
const MAX_GROUPS = 9
/** Characters that the library replaces by a space in international format. */
const SEPARATORS = /[-/. ()]+/g
const PLAIN_TEMPLATE = /^(?:\$[1-9]|[-/. ()\d])*$/

/**
 * Compiles a format to layouts, so that formatting a number needs no regular expression except for
 * its leading digits. Patterns are sequences of digit groups, `(\d{3})(\d{3,4})`, which take as
 * many digits as possible from the left. International numbers start with `begin`.
 * @throws Error for a format of another shape.
 */
function compileFormat (format: LibraryFormat, begin: string): FormatRule {
  const pattern = format.pattern()
  const groups = [...pattern.matchAll(GROUP)].map(([, min = '1', max = min]) =>
    ({ min: Number(min), max: Number(max) }))
  const templates = buildTemplates(format)
  const texts = [templates.international, templates.national]
  const isUnderstood = pattern.replaceAll(GROUP, '') === '' && groups.length <= MAX_GROUPS &&
    texts.every(text => PLAIN_TEMPLATE.test(text) &&
      [...text.matchAll(/\$(\d)/g)].every(([, place]) => Number(place) <= groups.length))
  if (!isUnderstood) throw new Error(`the format ${pattern} of ${begin}has another shape`)
  // The last pattern is the most detailed one; the library uses only that one.
  const leading = format.leadingDigitsPatterns().at(-1)
  return {
    leadingDigits: leading === undefined ? undefined : new RegExp(`^(?:${leading})`),
    layouts: buildLayouts(groups, templates, begin),
    writesPrefix: /\d/.test((format.nationalPrefixFormattingRule() || '').replaceAll(/\$\d/g, '')),
  }
}

/** As in the library, the national prefix rule replaces the first group of the format. */
function buildTemplates (format: LibraryFormat): Templates {
  const rule = format.nationalPrefixFormattingRule()
  const international = format.internationalFormat()
  return {
    international: international.replaceAll(SEPARATORS, ' ').trim(),
    national: rule ? format.format().replace(/(\$\d)/, rule) : format.format(),
  }
}

function buildLayouts (
  groups: readonly Group[], templates: Templates, begin: string
): readonly (Layouts | undefined)[] {
  const min = groups.reduce((sum, group) => sum + group.min, 0)
  const max = groups.reduce((sum, group) => sum + group.max, 0)
  return Array.from({ length: max + 1 }, (_, digits) => {
    if (digits < min) return undefined
    const ends = groupEnds(groups, digits - min)
    return {
      international: buildLayout(begin, templates.international, ends),
      national: buildLayout('', templates.national, ends),
    }
  })
}

/** The end of each group if there are `spare` digits more than its minimum. */
function groupEnds (groups: readonly Group[], spare: number): readonly number[] {
  let end = 0
  let left = spare
  return groups.map(({ min, max }) => {
    const more = Math.min(left, max - min)
    left -= more
    end += min + more
    return end
  })
}

function buildLayout (begin: string, template: string, ends: readonly number[]): Layout {
  const codes = toCharCodes(begin)
  const positions: number[] = []
  const digits: number[] = []
  for (const [index, part] of template.split(PLACEHOLDER).entries()) {
    // Each text is followed by the number of a group.
    if (index % 2 === 0) codes.push(...toCharCodes(part))
    else {
      const group = Number(part)
      for (let digit = ends[group - 2] ?? 0; digit < (ends[group - 1] ?? 0); digit++) {
        digits.push(digit)
        positions.push(codes.push(0) - 1)
      }
    }
  }
  return { codes, positions, digits }
}

function toCharCodes (text: string): number[] {
  return [...text].map(character => character.charCodeAt(0))
}

type LibraryType = {
  pattern (): string
  possibleLengths (): readonly number[]
}

type LibraryFormat = {
  pattern (): string
  format (): string
  internationalFormat (): string
  leadingDigitsPatterns (): readonly string[]
  nationalPrefixFormattingRule (): string | 0 | undefined
}

/** Methods that the library has but does not declare. Unset values are 0. */
type LibraryPlan = Omit<NumberingPlan, 'IDDPrefix' | 'leadingDigits'> & {
  callingCode (): string
  nationalNumberPattern (): string
  IDDPrefix (): string | 0 | undefined
  leadingDigits (): string | 0 | undefined
  nationalPrefixForParsing (): string | 0 | undefined
  nationalPrefixTransformRule (): string | 0 | undefined
  formats (): readonly LibraryFormat[]
  type (type: AssignedType): LibraryType | undefined
}

type LibraryMetadata = {
  hasCallingCode (callingCode: string): boolean | undefined
  /**
   * The main country first, in the order in which the library checks them; empty for a global
   * service such as 800.
   */
  getCountryCodesForCallingCode (callingCode: string): readonly string[] | undefined
}
