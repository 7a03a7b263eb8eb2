import { all } from 'mcc-mnc-list'
import { readFileSync } from 'node:fs'
import { brotliDecompressSync } from 'node:zlib'
import type { LineType } from '../../../schemas/api/verdicts.ts'
import { confidenceOf, packChecks } from '../../cache/evidence.ts'
import { type AssignedType, describePhone } from '../../phone/plans.ts'
import type { ServiceSlug } from '../../topology.ts'
import type { Provider, ProviderVerdict } from '../provider.ts'

const LINE_TYPE_OF = {
  MOBILE: 'mobile',
  FIXED_LINE: 'landline',
  FIXED_LINE_OR_MOBILE: 'fixed_line_or_mobile',
  VOIP: 'voip',
  TOLL_FREE: 'toll_free',
  PREMIUM_RATE: 'premium_rate',
  SHARED_COST: 'shared_cost',
  PERSONAL_NUMBER: 'personal_number',
  PAGER: 'pager',
  UAN: 'uan',
  VOICEMAIL: 'voicemail',
} as const satisfies Record<AssignedType, LineType>

/** Countries with portability of mobile numbers (Google's PhoneNumberMetadata, July 2026). */
const PORTABLE: ReadonlySet<string | undefined> = new Set((
  'AG AI AL AM AR AT AU AZ BA BB BE BG BH BJ BL BM BR BS BY CA CH CL CM CO CY CZ DE DK DM DO EC ' +
  'EE EG ES FI FR GB GD GE GF GH GI GP GR HK HR HU IE IL IN IR IS IT JM JO JP KE KN KR KW KY KZ ' +
  'LC LT LU LV MA MD MF MK MQ MS MT MX MY NG NL NO NZ OM PA PE PK PL PR PT PY QA RO RS RU SA SE ' +
  'SG SI SK SX TC TH TR TT TW US VA VC VG ZA').split(' '))

/** Types with carrier data (Google's PhoneNumberToCarrierMapper). */
const CARRIER_TYPES: ReadonlySet<AssignedType> = new Set([
  'MOBILE', 'FIXED_LINE_OR_MOBILE', 'PAGER',
])
/** Calling codes whose mobile numbers have area codes (Google's GEO_MOBILE_COUNTRIES). */
const GEOGRAPHIC_MOBILE: ReadonlySet<string> = new Set(['52', '54', '55', '62', '86'])
const ARGENTINA = '54'
const ARGENTINE_MOBILE_TOKEN = '9'

/**
 * Checks numbers offline, by the world's numbering plans: whether the range is assigned, and its
 * type, carrier, place and time zone; `mcc` and `mnc` where the carrier's name determines them. The
 * plans have no portings, so `ported` stays blank, and the confidence of a carrier depends on the
 * country.
 */
export function createNumberingPlanProvider (): Provider {
  const ranges = loadRangeData()
  const verdictFor = createSharedVerdicts()
  return {
    id: 1,
    isOffline: true,
    services: ['phone-validation', 'carrier-lookup', 'carrier-single'],
    check: async (rows, { service }) => rows.map(({ row, canonical }) =>
      ({ row, verdict: verdictFor(rangeOf(canonical, ranges), service) })),
  }
}

/** The range of an assigned number. */
type Range = {
  readonly type: AssignedType
  readonly callingCode: string
  /** As the range data describe it, blank if unknown. */
  readonly place: string
  readonly carrier: string
  readonly timezone: string
  /** ISO 3166-1 alpha-2; undefined for numbers of no country. */
  readonly country: string | undefined
}

/** The shared verdicts are cleared at this number; places and carriers limit their number. */
const MAX_SHARED = 10_000

/** Returns equal verdicts as one object, so that the cache serializes each only once. */
function createSharedVerdicts () {
  const verdicts = new Map<string, ProviderVerdict>()
  return (range: Range | undefined, service: ServiceSlug): ProviderVerdict => {
    if (range === undefined) return UNASSIGNED
    const { country, type, place, carrier, timezone } = range
    const key = `${service}|${country}|${type}|${timezone}|${carrier}|${place}`
    const shared = verdicts.get(key)
    if (shared !== undefined) return shared
    const verdict = assignedVerdict(range, service)
    if (verdicts.size === MAX_SHARED) verdicts.clear()
    verdicts.set(key, verdict)
    return verdict
  }
}

const FAILED = packChecks({ numbering_plan: 'failed' })

const UNASSIGNED: ProviderVerdict = {
  status: 'invalid',
  reason: 'unassigned_range',
  confidence: confidenceOf('unassigned_range', FAILED),
  evidence: FAILED,
  fields: { line_type: 'unknown' },
}

function assignedVerdict (
  range: Range, service: ServiceSlug
): ProviderVerdict {
  const { country, callingCode, type, carrier, timezone } = range
  const { region, locality } = splitPlace(range.place, callingCode)
  const isOfCarrier = service !== 'phone-validation'
  const holder = PORTABLE.has(country) ? 'caution' : 'passed'
  const evidence = packChecks({
    numbering_plan: 'passed',
    ...(CARRIER_TYPES.has(type) && {
      carrier_range: carrier === '' ? 'inconclusive' : holder,
    }),
  })
  const confidence = confidenceOf(isOfCarrier ? 'carrier' : 'assigned_range', evidence)
  const fields: Record<string, string> = { line_type: LINE_TYPE_OF[type] }
  put(fields, 'carrier', carrier)
  put(fields, 'region', region)
  put(fields, 'locality', locality)
  put(fields, 'timezone', timezone)
  if (isOfCarrier) {
    codes ??= readCodes()
    // Undefined unless the name, as brand or operator, has exactly one code in operation there.
    Object.assign(fields, codes.get(nameIn(country ?? '', carrier)))
  }
  return { status: 'valid', reason: 'assigned_range', confidence, evidence, fields }
}

/** The range of a number; undefined if it is not assigned. */
function rangeOf (e164: string, ranges: RangeData): Range | undefined {
  const number = describePhone(e164)
  // With the full metadata a number is valid if and only if it has a type: one call does both.
  if (number?.type === undefined) return undefined
  const { callingCode, national, country } = number
  // For a plan without mobile ranges the library returns FIXED_LINE_OR_MOBILE, and Google returns
  // FIXED_LINE. Tristan da Cunha is the only such country.
  const isTristan = number.type === 'FIXED_LINE_OR_MOBILE' && country === 'TA'
  const type = isTristan ? 'FIXED_LINE' : number.type
  const carrier = CARRIER_TYPES.has(type) ? ranges.carrierOf(callingCode + national) : ''
  const isMobile = type === 'MOBILE'
  // Most mobile prefixes have no place.
  const isGeographic = type === 'FIXED_LINE' || type === 'FIXED_LINE_OR_MOBILE' ||
    (isMobile && GEOGRAPHIC_MOBILE.has(callingCode))
  if (!isGeographic) {
    const timezone = ranges.timezoneOf(callingCode)
    return { type, place: '', carrier, timezone, country, callingCode }
  }
  // Argentine mobile numbers have a 9 before the area code, which the place data omits.
  const hasToken = isMobile && callingCode === ARGENTINA &&
    national.startsWith(ARGENTINE_MOBILE_TOKEN)
  const place = ranges.placeOf(callingCode + (hasToken ? national.slice(1) : national))
  const timezone = ranges.timezoneOf(callingCode + national)
  return { type, place, carrier, timezone, country, callingCode }
}

function put (fields: Record<string, string>, column: string, value: string): void {
  if (value !== '') fields[column] = value
}

/** Mobile country code and mobile network code (ITU-T E.212), 3 digits and 2 or 3 digits. */
type NetworkCode = { readonly mcc: string, readonly mnc: string }

let codes: ReadonlyMap<string, NetworkCode | undefined> | undefined

/**
 * The public E.212 codes by country (ISO 3166-1 alpha-2) and name; undefined for a name with
 * several.
 */
function readCodes () {
  const byName = new Map<string, NetworkCode | undefined>()
  for (const { countryCode, mcc, mnc, brand, operator, status } of all()) {
    if (status !== 'Operational' || !/^\d{2,3}$/.test(mnc)) continue
    // International networks have no country, and some of overseas territories have several.
    for (const country of countryCode?.split('/') ?? []) {
      const names = [brand, operator].filter(Boolean).map((name) => nameIn(country, name))
      for (const name of new Set(names)) {
        byName.set(name, byName.has(name) ? undefined : { mcc, mnc })
      }
    }
  }
  return byName
}

/** Spelling, case and accents of names differ between the published lists. */
function nameIn (country: string, name: string): string {
  return `${country} ${name.toLowerCase().normalize('NFD').replace(/[^\p{L}\p{N}]+/gu, '')}`
}

/** Where a number range is: its town and its state or province, blank if unknown. */
type RangeLocation = { readonly region: string, readonly locality: string }

/** All numbers are digits with their calling code: an E.164 number without its plus. */
type RangeData = {
  /** The release that the data are from. */
  readonly release: RangeRelease
  /** The carrier that the range is assigned to, blank if not published. */
  carrierOf (digits: string): string
  /** The description of its place for `splitPlace`, blank if unknown. */
  placeOf (digits: string): string
  /** IANA zone of a number or calling code, blank if there are several. */
  timezoneOf (digits: string): string
}

type RangeRelease = {
  readonly version: string
  /** Day of its publication: 2026-11-06. */
  readonly publishedAt: string
}

/**
 * Prefixes in typed arrays, without an object per prefix. Ranges may contain others,
 * so they are flattened: from `starts[n]` up to the next start, `prefixes[n]` is the longest
 * prefix, or -1 if there is none. A lookup is one binary search.
 */
type PrefixTable = {
  readonly starts: Float64Array
  readonly prefixes: Int32Array
  /** By prefix: its number of digits, the prefix that contains it (-1 for none) and its value. */
  readonly digits: Uint8Array
  readonly parents: Int32Array
  readonly values: readonly string[]
}

/** All prefixes are filled up to so many digits; with a 1 before, they fit exactly into a float. */
const PADDED_DIGITS = 14
const ZERO = '0'.charCodeAt(0)
const TAB = '\t'.charCodeAt(0)
const LINE_END = '\n'.charCodeAt(0)
/** Written by `npm run phones`. */
const FILE = new URL('range-data.br', import.meta.url)
const NORTH_AMERICA = '1'

let loaded: RangeData | undefined

/**
 * Google's published range data (English names, 320,000 prefixes). Loads it once per process: half
 * a second, 12 MB.
 */
export function loadRangeData (): RangeData {
  loaded ??= readRangeData(brotliDecompressSync(readFileSync(FILE)))
  return loaded
}

/**
 * Reads the file; throws Error if a kind of data is missing. The file is never a string as a whole:
 * each name in it would keep all of it in memory.
 */
function readRangeData (file: Buffer): RangeData {
  const sectionOf = (kind: string) => {
    const head = `\n= ${kind}\n`
    const at = file.indexOf(head)
    if (at < 0) throw new Error(`the range data has no ${kind}; renew it with npm run phones`)
    const from = at + head.length
    const next = file.indexOf('\n= ', from)
    return file.subarray(from, next < 0 ? file.length : next + 1)
  }
  const places = readTable(sectionOf('places'), description => description)
  const carriers = readTable(sectionOf('carriers'), name => name)
  // A range over several zones, such as a whole country, says nothing about one contact.
  const zones = readTable(sectionOf('timezones'), names => names.includes('&') ? '' : names)
  return {
    release: JSON.parse(file.toString('utf8', 0, file.indexOf(LINE_END))) as RangeRelease,
    carrierOf: digits => longestMatch(carriers, digits),
    placeOf: digits => longestMatch(places, digits),
    timezoneOf: digits => longestMatch(zones, digits),
  }
}

/**
 * Splits a description: "San Francisco, CA" is a locality and a region, "Berlin" a locality. North
 * American ranges may start with a street or district ("Cherry Street, Philadelphia, PA"), which is
 * removed; a name without a comma there is a state or province, whose code is the region.
 */
export function splitPlace (description: string, callingCode: string): RangeLocation {
  const comma = description.lastIndexOf(', ')
  if (comma < 0) {
    return callingCode === NORTH_AMERICA
      // Any other name, such as that of an island, is unchanged.
      ? { region: STATES[description] ?? description, locality: '' }
      : { region: '', locality: description }
  }
  const towns = description.slice(0, comma)
  const locality = callingCode === NORTH_AMERICA ? towns.split(', ').at(-1) ?? towns : towns
  return { region: description.slice(comma + 2), locality }
}

/** Reads lines of a prefix, a tab and a name, in the order of the prefixes. */
function readTable (lines: Buffer, read: (name: string) => string): PrefixTable {
  // Equal names share one value: there are ten times fewer names than prefixes.
  const values = new Map<string, string>()
  const valueOf = (name: string) => {
    const value = values.get(name) ?? read(name)
    values.set(name, value)
    return value
  }
  const ranges = new FlatRanges()
  const all: string[] = []
  for (let from = 0; from < lines.length;) {
    const tab = lines.indexOf(TAB, from)
    const end = lines.indexOf(LINE_END, from)
    const prefix = lines.toString('latin1', from, tab)
    ranges.add(prefix)
    all.push(valueOf(lines.toString('utf8', tab + 1, end)))
    from = end + 1
  }
  return { ...ranges.end(), values: all }
}

/**
 * The number of a prefix: a 1, so that leading zeros count, then the digits, then zeros up to
 * PADDED_DIGITS.
 */
function startOf (digits: string): number {
  let start = 1
  for (let at = 0; at < PADDED_DIGITS; at++) {
    start = start * 10 + (at < digits.length ? digits.charCodeAt(at) - ZERO : 0)
  }
  return start
}

/** Flattens ranges. A prefix precedes those that it contains, as in the order of their texts. */
class FlatRanges {
  readonly #starts: number[] = []
  readonly #prefixes: number[] = []
  readonly #parents: number[] = []
  readonly #digits: number[] = []
  /** Ranges that have begun and not ended, each within the one before. */
  readonly #open: { readonly number: number, readonly end: number }[] = []
  #last = ''

  add (prefix: string): void {
    if (prefix.length > PADDED_DIGITS || prefix <= this.#last) {
      throw new RangeError(`the range data has the prefix ${prefix} after ${this.#last}: it has ` +
        `more than ${PADDED_DIGITS} digits or is not in order; renew it from the earlier release`)
    }
    this.#last = prefix
    const start = startOf(prefix)
    this.#close(start)
    const number = this.#digits.push(prefix.length) - 1
    this.#parents.push(this.#open.at(-1)?.number ?? -1)
    this.#open.push({ number, end: start + 10 ** (PADDED_DIGITS - prefix.length) })
    this.#begin(start, number)
  }

  end (): Omit<PrefixTable, 'values'> {
    this.#close(Infinity)
    return {
      starts: Float64Array.from(this.#starts),
      prefixes: Int32Array.from(this.#prefixes),
      digits: Uint8Array.from(this.#digits),
      parents: Int32Array.from(this.#parents),
    }
  }

  #begin (start: number, prefix: number): void {
    // The range that starts last at the same number replaces the earlier one, which is empty.
    if (this.#starts.at(-1) === start) this.#prefixes[this.#prefixes.length - 1] = prefix
    else this.#prefixes[this.#starts.push(start) - 1] = prefix
  }

  #close (before: number): void {
    for (let last = this.#open.at(-1); last !== undefined && last.end <= before;
      last = this.#open.at(-1)) {
      this.#open.pop()
      this.#begin(last.end, this.#open.at(-1)?.number ?? -1)
    }
  }
}

function longestMatch (table: PrefixTable, number: string): string {
  const { starts, prefixes, digits, parents, values } = table
  const wanted = startOf(number)
  let from = 0
  let to = starts.length
  while (from < to) {
    const middle = (from + to) >>> 1
    if ((starts[middle] ?? 0) <= wanted) from = middle + 1
    else to = middle
  }
  // A short number is padded with zeros, which must not count as digits of a longer prefix.
  let prefix = prefixes[from - 1] ?? -1
  while (prefix >= 0 && (digits[prefix] ?? 0) > number.length) prefix = parents[prefix] ?? -1
  return values[prefix] ?? ''
}

/**
 * States and provinces of North America by the names that ranges without a town have; ranges with a
 * town have the code (ISO 3166-2 without its country). Blank for ranges of several.
 */
const STATES: Readonly<Record<string, string>> = {
  'Nova Scotia/Prince Edward Island': '',
  'Northwest Territories/Nunavut/Yukon': '',
  ...Object.fromEntries(`
    Alabama AL, Alaska AK, Arizona AZ, Arkansas AR, California CA, Colorado CO, Connecticut CT,
    Delaware DE, Florida FL, Georgia GA, Hawaii HI, Idaho ID, Illinois IL, Indiana IN, Iowa IA,
    Kansas KS, Kentucky KY, Louisiana LA, Maine ME, Maryland MD, Massachusetts MA, Michigan MI,
    Minnesota MN, Mississippi MS, Missouri MO, Montana MT, Nebraska NE, Nevada NV, New Hampshire NH,
    New Jersey NJ, New Mexico NM, New York NY, North Carolina NC, North Dakota ND, Ohio OH,
    Oklahoma OK, Oregon OR, Pennsylvania PA, Rhode Island RI, South Carolina SC, South Dakota SD,
    Tennessee TN, Texas TX, Utah UT, Vermont VT, Virginia VA, Washington D.C. DC,
    Washington State WA, West Virginia WV, Wisconsin WI, Wyoming WY, Alberta AB,
    British Colombia BC, British Columbia BC, Manitoba MB, New Brunswick NB,
    Newfoundland and Labrador NL, Ontario ON, Quebec QC, Saskatchewan SK
  `.trim().split(/,\s+/).map(state => [state.slice(0, -3), state.slice(-2)] as const)),
}
