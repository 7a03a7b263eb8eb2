import { readFileSync } from 'node:fs'
import { parse } from 'csv-parse/sync'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parsePhone } from '../../services/phone/cell.ts'
import { mixedPhones } from '../bench/jobs.ts'
import { seededRandom } from '../support/random.ts'
import fc from 'fast-check'
import examples from 'libphonenumber-js/examples.mobile.json'
import parsePhoneNumber, {
  type CountryCode, getCountries, Metadata, type PhoneNumber,
} from 'libphonenumber-js/max'
import { type Canonical, canonicalPhone } from '../../services/normalize/canonical.ts'
import {
  type AssignedType, callingCodeAt, describePhone, formatPhone,
} from '../../services/phone/plans.ts'

type WrittenInput = { readonly text: string, readonly country: string | undefined }

const TYPES = [
  'FIXED_LINE', 'MOBILE', 'PREMIUM_RATE', 'TOLL_FREE', 'SHARED_COST', 'VOIP', 'PERSONAL_NUMBER',
  'PAGER', 'UAN', 'VOICEMAIL',
] as const satisfies readonly AssignedType[]

/** What is drawn from to write numbers of one numbering plan. */
type Source = {
  readonly country: string | undefined
  readonly callingCode: string
  readonly lengths: readonly number[]
  /** National numbers that match a pattern of a type, of a format or of the whole plan. */
  readonly nationals: readonly string[]
  readonly nationalPrefixes: readonly string[]
  readonly internationalPrefixes: readonly string[]
}

/** What the library has of a plan and does not declare. */
type LibraryPlan = {
  callingCode (): string
  possibleLengths (): readonly number[]
  nationalNumberPattern (): string
  nationalPrefixForParsing (): string | 0 | undefined
  IDDPrefix (): string | 0 | undefined
  leadingDigits (): string | 0 | undefined
  formats (): readonly { leadingDigitsPatterns (): readonly string[] }[]
  type (type: AssignedType):
    { pattern (): string, possibleLengths (): readonly number[] } | undefined
}

function libraryPlan (countryOrCallingCode: string): LibraryPlan {
  const metadata = new Metadata()
  metadata.selectNumberingPlan(countryOrCallingCode as CountryCode)
  return metadata.numberingPlan as unknown as LibraryPlan
}

const samples = new Map<string, readonly string[]>()

/** Strings that match a pattern entirely, the same at every call. */
function samplesOf (pattern: string | 0 | undefined, count: number): readonly string[] {
  if (!pattern) return []
  const known = samples.get(pattern)
  if (known !== undefined) return known
  // A capturing group that ends the number must not end the expression that is sampled.
  const expression = new RegExp(`^(?:${pattern.replaceAll('$', '')})$`)
  const drawn = fc.sample(fc.stringMatching(expression), { numRuns: count, seed: 1 })
  samples.set(pattern, drawn)
  return drawn
}

function sourceOf (countryOrCallingCode: string): Source {
  const plan = libraryPlan(countryOrCallingCode)
  const country = /^\d/.test(countryOrCallingCode) ? undefined : countryOrCallingCode
  const example = (examples as Readonly<Record<string, string>>)[countryOrCallingCode]
  return {
    country,
    callingCode: plan.callingCode(),
    lengths: plan.possibleLengths(),
    nationals: [...nationalsOf(plan), ...example === undefined ? [] : [example]],
    nationalPrefixes: samplesOf(plan.nationalPrefixForParsing(), 10),
    internationalPrefixes: samplesOf(plan.IDDPrefix(), 6),
  }
}

function nationalsOf (plan: LibraryPlan): readonly string[] {
  const types = TYPES.flatMap(type => samplesOf(plan.type(type)?.pattern(), 16))
  const begins = [
    ...samplesOf(plan.leadingDigits(), 4),
    ...plan.formats().flatMap(format => samplesOf(format.leadingDigitsPatterns().at(-1), 4)),
  ]
  const longest = Math.max(...plan.possibleLengths())
  const formatted = begins.map((begin, index) => begin.padEnd(longest - index % 4, '2345678901'))
  return [...types, ...samplesOf(plan.nationalNumberPattern(), 12), ...formatted]
}

function globalServices (): readonly string[] {
  const codes = Array.from({ length: 999 }, (_, index) => String(index + 1))
  return codes.filter(code => {
    const callingCode = callingCodeAt(code, 0)
    return callingCode?.digits === code && callingCode.countries.length === 0
  })
}

type Random = ReturnType<typeof seededRandom>
const upTo = (random: Random, limit: number) => Math.floor(random() * limit)

function pick<T> (random: Random, from: readonly T[]): T {
  return from[upTo(random, from.length)] as T
}

const digitsOf = (random: Random, length: number) =>
  Array.from({ length }, () => upTo(random, 10)).join('')

function changed (random: Random, national: string): string {
  const at = upTo(random, national.length)
  const put = pick(random, ['', digitsOf(random, 1), digitsOf(random, 2)])
  return national.slice(0, at) + put + national.slice(at + upTo(random, 2))
}

function nationalOf (random: Random, source: Source): string {
  const kind = random()
  if (kind < 0.55) return pick(random, source.nationals)
  if (kind < 0.75) return changed(random, pick(random, source.nationals))
  if (kind < 0.90) return digitsOf(random, pick(random, source.lengths))
  return digitsOf(random, upTo(random, 20))
}

function prefixed (random: Random, source: Source): string {
  const national = nationalOf(random, source)
  if (random() < 0.75 || source.nationalPrefixes.length === 0) return national
  return pick(random, source.nationalPrefixes) + national
}

/** Digits, with a plus at most at their begin, in each of the ways to dial. */
function dialled (random: Random, source: Source, from: Source): string {
  const how = random()
  const national = prefixed(random, source)
  if (how < 0.35) return `+${source.callingCode}${national}`
  if (how < 0.50 && from.internationalPrefixes.length > 0) {
    return pick(random, from.internationalPrefixes) + source.callingCode + national
  }
  if (how < 0.60) return source.callingCode + national
  if (how < 0.63) return `+${digitsOf(random, 12)}`
  return national
}

/** What else may stand in a cell is measured by what it means (test/accuracy/phones.ts). */
const SEPARATORS = [' ', '-', '  ', ' - ', '\u00a0', '\u2013'] as const

function separated (random: Random, digits: string): string {
  const share = pick(random, [0, 0, 0.2, 0.5])
  const most = random() < 0.9 ? 4 : SEPARATORS.length
  let text = ''
  for (const digit of digits) {
    text += random() < share ? pick(random, SEPARATORS.slice(0, most)) + digit : digit
  }
  return text
}

/** As the library itself writes the number, nationally or internationally, if it can read it. */
function asLibraryWrites (random: Random, text: string): string {
  const number = parsePhoneNumber(text)
  if (number === undefined) return text
  return random() < 0.5 ? number.formatNational() : number.formatInternational()
}

/** Who dials: mostly someone in the country, else in one of the same calling code or anywhere. */
function callerOf (random: Random, source: Source, sources: readonly Source[]): Source {
  const where = random()
  if (where < 0.65) return source
  if (where > 0.8) return pick(random, sources)
  return pick(random, sources.filter(it => it.callingCode === source.callingCode))
}

/**
 * Phone numbers of all numbering plans, valid or not, in all ways to write them, the same ones for
 * the same seed; each with the country it is dialled from.
 */
function * fuzzedInputs (count: number, seed: number): Generator<WrittenInput> {
  const random = seededRandom(seed)
  const sources = [...getCountries(), ...globalServices()].map(sourceOf)
  for (let index = 0; index < count; index++) {
    // Plan after plan: the library compiles its patterns at every call, and V8 keeps the last few.
    const source = sources[Math.floor(index * sources.length / count)]!
    const from = callerOf(random, source, sources)
    const digits = dialled(random, source, from)
    const text = random() < 0.08 ? asLibraryWrites(random, digits) : separated(random, digits)
    const country = random() < 0.95 ? from.country : pick(random, [undefined, 'XX', 'us', ''])
    yield { text, country }
  }
}

/** The number that the library reads, as it parses itself; undefined without one. */
function readByLibrary ({ text, country }: WrittenInput): PhoneNumber | undefined {
  const plain = text.normalize('NFKC')
  // The library rejects a country that it does not know even if the number needs none.
  const caller = getCountries().find(it => it === country)
  let number = parsePhoneNumber(plain, caller)
  for (let pass = 0; pass < 4 && number !== undefined; pass++) {
    const again: PhoneNumber | undefined = parsePhoneNumber(number.number)
    if (again?.number === number.number) return again
    number = again
  }
  return undefined
}

const REFUSED: ReadonlySet<string> = new Set([
  'ambiguous_number', 'several_numbers', 'not_a_phone_number',
])

/**
 * Whether the library takes digits that have lost their plus for a landline with more digits than
 * mobile numbers have there: nobody writes those.
 */
function hasLostPlus (text: string, theirs: PhoneNumber): boolean {
  const { countryCallingCode, nationalNumber } = theirs
  const lengths = libraryPlan(countryCallingCode).type('MOBILE')?.possibleLengths() ?? [Infinity]
  return nationalNumber.startsWith(countryCallingCode) &&
    nationalNumber.length > Math.max(...lengths) &&
    text.replaceAll(/\D/g, '') === nationalNumber
}

/**
 * Northern Ireland as it is dialed in Ireland, Martinique and Mayotte as in France: for the library
 * they are landlines of these.
 */
const OF_NEIGHBORS = /^\+(?:35348\d{8}|33(?:596|269)\d{6})$/

/**
 * How our reading differs from the library's where it must not: an assigned number is the same for
 * both. We may refuse a cell with two readings, and read one that is no assigned number for the
 * library.
 */
function canonicalDifference (input: WrittenInput, ours: Canonical): string | undefined {
  const theirs = readByLibrary(input)
  // After 00 the library sees a carrier where a list means its own country: 0055 in Brazil.
  const isPrefixed = input.text.replaceAll(/\D/g, '').startsWith('00')
  const isAssigned = theirs?.isValid() === true && !isPrefixed &&
    !hasLostPlus(input.text, theirs) && !OF_NEIGHBORS.test(theirs.number)
  const ok = isAssigned
    ? ours.ok ? ours.canonical === theirs.number : REFUSED.has(ours.reason)
    : !ours.ok || ours.canonical === theirs?.number ||
      describePhone(ours.canonical)?.type !== undefined
  return ok
    ? undefined
    : `${JSON.stringify(input.text)} in ${input.country}: ` +
      `${ours.ok ? ours.canonical : ours.reason}, the library says ${theirs?.number}`
}

/** Area codes that are in service, and not yet in the data of the library. */
const NEW_AREA_CODE = /^\+1(?:436|621|624|679|861)/

/** The same for how an E.164 number is described and written. */
function descriptionDifference (text: string): string | undefined {
  if (NEW_AREA_CODE.test(text)) return undefined
  const number = parsePhoneNumber(text)
  const theirs = number && [
    number.countryCallingCode, number.nationalNumber, number.country, number.getType(),
    number.country, number.formatInternational(), number.formatNational(),
  ].join('|')
  const description = describePhone(text)
  const written = formatPhone(text)
  const ours = description && written && [
    description.callingCode, description.national, description.country, description.type,
    written.country, written.international, written.national,
  ].join('|')
  const same = ours === theirs && (description === undefined) === (written === undefined)
  return same ? undefined : `${JSON.stringify(text)}: ${ours}, the library says ${theirs}`
}

type Comparison = {
  readonly inputs: number
  /** How many of them have a canonical form. */
  readonly canonical: number
  readonly differences: readonly string[]
}

/** All differences over the inputs, each read and, where it has a canonical form, described. */
function compareWithLibrary (inputs: Iterable<WrittenInput>): Comparison {
  let count = 0
  let canonical = 0
  const differences: (string | undefined)[] = []
  for (const input of inputs) {
    const result = canonicalPhone(input.text, input.country)
    differences.push(canonicalDifference(input, result))
    if (result.ok) {
      canonical++
      differences.push(descriptionDifference(result.canonical))
    }
    count++
  }
  return {
    inputs: count,
    canonical,
    differences: differences.filter(difference => difference !== undefined),
  }
}

/** The library throws at every other input, and traces are most of what that takes. */
const { stackTraceLimit } = Error
beforeAll(() => { Error.stackTraceLimit = 0 })
afterAll(() => { Error.stackTraceLimit = stackTraceLimit })

const sample = new URL('../../deploy/sample/phones.csv', import.meta.url)
const google = new URL('../accuracy/phones/google.json', import.meta.url)

/** The sample as it is, in two countries and in the country it was written for. */
function sampleInputs (): readonly WrittenInput[] {
  const texts = parse(readFileSync(sample), { from_line: 2 }).map(([text]) => text ?? '')
  return [undefined, 'US', 'DE'].flatMap(country => texts.map(text => ({ text, country })))
}

/** Numbers of all regions and types as Google writes them, abroad or at home, and with dots. */
function googleInputs (): readonly WrittenInput[] {
  const { rows } = JSON.parse(readFileSync(google, 'utf8')) as
    { readonly rows: readonly (readonly string[])[] }
  return rows.map(([, , country, , , national = '', international = ''], index) => {
    if (index % 3 === 1 && country) return { text: national, country }
    const dotted = ` ${international.replaceAll(/[ -]/g, '.')}  `
    return { text: index % 3 === 2 ? dotted : international, country: undefined }
  })
}

describe('the compiled numbering plans', () => {
  it('read, describe and write 100,000 numbers of all plans as the library does', () => {
    const { inputs, canonical, differences } = compareWithLibrary(fuzzedInputs(100_000, 7))
    expect(differences.slice(0, 20)).toEqual([])
    expect(inputs).toBe(100_000)
    // Most inputs must have a form to compare, or the generator is wrong.
    expect(canonical).toBeGreaterThan(60_000)
  })

  it('read 30,000 numbers after words, or of any length, as the library does', () => {
    const words = ['call ', 'Tel. ', 'call me (', 'Fax - ', 'a) ']
    const inputs = [...fuzzedInputs(30_000, 11)].map(({ text, country }, index) => {
      const cut = index % 2 === 0 ? text : text.slice(0, index % 13)
      return { text: `${words[index % words.length]}${cut}`, country }
    })
    const { differences, canonical } = compareWithLibrary(inputs)
    expect(differences.slice(0, 20)).toEqual([])
    expect(canonical).toBeGreaterThan(5_000)
  })

  it('read, describe and write the sample and Google\'s numbers as the library does', () => {
    const { inputs, differences } = compareWithLibrary([...sampleInputs(), ...googleInputs()])
    expect(differences).toEqual([])
    expect(inputs).toBe(13_005)
  })

  it('leave none of the usual written forms to the reader of cells', () => {
    const rows = mixedPhones(20_000).filter(row => !/^call me /.test(row))
    expect(rows.length).toBeGreaterThan(18_900)
    expect(rows.filter(row => parsePhone(row, 'US') === undefined)).toEqual([])
  })
})
