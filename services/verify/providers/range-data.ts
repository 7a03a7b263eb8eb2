import { readFileSync } from 'node:fs'
import { brotliDecompressSync } from 'node:zlib'

/**
 * Where a number range is: its town and its state or province, blank if unknown. Ranges at equal
 * places share one object.
 */
export type RangeLocation = { readonly region: string, readonly locality: string }

/** All numbers are digits with their calling code: an E.164 number without its plus. */
export type RangeData = {
  /** The release that the data are from. */
  readonly release: RangeRelease
  /** The carrier that the range is assigned to, blank if not published. */
  carrierOf (digits: string): string
  placeOf (digits: string): RangeLocation
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
type PrefixTable<T> = {
  readonly starts: Float64Array
  readonly prefixes: Int32Array
  /** By prefix: its number of digits, the prefix that contains it (-1 for none) and its value. */
  readonly digits: Uint8Array
  readonly parents: Int32Array
  readonly values: readonly T[]
  /** Number of digits of the longest prefix. */
  readonly maxDigits: number
}

/** A 1 and this many digits fit exactly into a float. */
const MAX_PREFIX_DIGITS = 14
const ZERO = '0'.charCodeAt(0)
/** Written by `npm run phones`. */
const FILE = new URL('range-data.br', import.meta.url)
export const UNKNOWN_PLACE: RangeLocation = { region: '', locality: '' }
const NORTH_AMERICA = '1'

let loaded: RangeData | undefined

/**
 * Google's published range data (English names, 320,000 prefixes). Loads it once per process: half
 * a second, 12 MB.
 */
export function loadRangeData (): RangeData {
  loaded ??= readRangeData(brotliDecompressSync(readFileSync(FILE)).toString())
  return loaded
}

/** Reads the text of the file; throws Error if a kind of data is missing. */
function readRangeData (text: string): RangeData {
  const [release = '', ...sections] = text.split('\n= ')
  const sectionOf = (kind: string) => {
    const lines = sections.find(section => section.startsWith(`${kind}\n`))
    if (lines === undefined) {
      throw new Error(`the range data has no ${kind}; renew it with npm run phones`)
    }
    return lines.slice(kind.length + 1)
  }
  const places = readTable(sectionOf('places'), createPlaces())
  const carriers = readTable(sectionOf('carriers'), name => name)
  // A range over several zones, such as a whole country, says nothing about one contact.
  const zones = readTable(sectionOf('timezones'), names => names.includes('&') ? '' : names)
  return {
    release: JSON.parse(release) as RangeRelease,
    carrierOf: digits => longestMatch(carriers, digits) ?? '',
    placeOf: digits => longestMatch(places, digits) ?? UNKNOWN_PLACE,
    timezoneOf: digits => longestMatch(zones, digits) ?? '',
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
      ? { region: stateCode(description), locality: '' }
      : { region: '', locality: description }
  }
  const towns = description.slice(0, comma)
  const locality = callingCode === NORTH_AMERICA ? towns.split(', ').at(-1) ?? towns : towns
  return { region: description.slice(comma + 2), locality }
}

/** The place of a description of ranges that begin with a prefix. */
function createPlaces (): (description: string, prefix: string) => RangeLocation {
  const nameOf = ({ region, locality }: RangeLocation) => `${region}\n${locality}`
  const known = new Map([[nameOf(UNKNOWN_PLACE), UNKNOWN_PLACE]])
  return (description, prefix) => {
    const place = splitPlace(description, prefix.startsWith(NORTH_AMERICA) ? NORTH_AMERICA : '')
    const found = known.get(nameOf(place)) ?? place
    known.set(nameOf(found), found)
    return found
  }
}

/** Lines of a prefix, a tab and a name. */
function readTable<T> (
  lines: string, read: (name: string, prefix: string) => T
): PrefixTable<T> {
  const entries = lines.split('\n').filter(line => line !== '').map(line => {
    const tab = line.indexOf('\t')
    return [line.slice(0, tab), line.slice(tab + 1)] as const
  })
  const maxDigits = entries.reduce((max, [{ length }]) => Math.max(max, length), 0)
  if (maxDigits > MAX_PREFIX_DIGITS) {
    throw new RangeError(`the range data has a prefix of ${maxDigits} digits, more than the ` +
      `supported ${MAX_PREFIX_DIGITS}; renew it from the earlier release`)
  }
  // Equal names share one value: there are ten times fewer names than prefixes. In North America
  // they are split in another way.
  const known = new Map<string, T>()
  const valueOf = (name: string, prefix: string) => {
    const key = `${prefix.startsWith(NORTH_AMERICA) ? NORTH_AMERICA : ''}\n${name}`
    const value = known.get(key) ?? read(name, prefix)
    known.set(key, value)
    return value
  }
  // A prefix precedes those that it contains: it starts no later and is shorter.
  const ranges = entries
    .map(([prefix, name]) => ({ prefix, name, start: startOf(prefix, maxDigits) }))
    .sort((a, b) => a.start - b.start || a.prefix.length - b.prefix.length)
  const values = ranges.map(({ name, prefix }) => valueOf(name, prefix))
  return { ...flattened(ranges, maxDigits), values, maxDigits }
}

/**
 * The number of a prefix: a 1, so that leading zeros count, then the digits, then zeros up to the
 * maximum number of digits.
 */
function startOf (digits: string, maxDigits: number): number {
  let start = 1
  for (let at = 0; at < maxDigits; at++) {
    start = start * 10 + (at < digits.length ? digits.charCodeAt(at) - ZERO : 0)
  }
  return start
}

type Range = { readonly prefix: string, readonly start: number }

function flattened (ranges: readonly Range[], maxDigits: number) {
  const starts: number[] = []
  const prefixes: number[] = []
  const parents = new Int32Array(ranges.length)
  const digits = Uint8Array.from(ranges, ({ prefix }) => prefix.length)
  const begin = (start: number, prefix: number) => {
    // The range that starts last at the same number replaces the earlier one, which is empty.
    if (starts.at(-1) === start) prefixes[prefixes.length - 1] = prefix
    else prefixes[starts.push(start) - 1] = prefix
  }
  const open: { readonly number: number, readonly end: number }[] = []
  const close = (before: number) => {
    for (let last = open.at(-1); last !== undefined && last.end <= before; last = open.at(-1)) {
      open.pop()
      begin(last.end, open.at(-1)?.number ?? -1)
    }
  }
  for (const [number, { prefix, start }] of ranges.entries()) {
    close(start)
    parents[number] = open.at(-1)?.number ?? -1
    open.push({ number, end: start + 10 ** (maxDigits - prefix.length) })
    begin(start, number)
  }
  close(Infinity)
  return { starts: Float64Array.from(starts), prefixes: Int32Array.from(prefixes), digits, parents }
}

function longestMatch<T> (table: PrefixTable<T> | undefined, number: string): T | undefined {
  if (table === undefined) return undefined
  const { starts, prefixes, digits, parents, values, maxDigits } = table
  const wanted = startOf(number, maxDigits)
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
  return values[prefix]
}

/**
 * States and provinces of North America by the names that ranges without a town have; ranges with a
 * town have the code (ISO 3166-2 without its country). '' is for ranges of several.
 */
const STATES: Readonly<Record<string, string>> = {
  Alabama: 'AL',
  Alaska: 'AK',
  Arizona: 'AZ',
  Arkansas: 'AR',
  California: 'CA',
  Colorado: 'CO',
  Connecticut: 'CT',
  Delaware: 'DE',
  Florida: 'FL',
  Georgia: 'GA',
  Hawaii: 'HI',
  Idaho: 'ID',
  Illinois: 'IL',
  Indiana: 'IN',
  Iowa: 'IA',
  Kansas: 'KS',
  Kentucky: 'KY',
  Louisiana: 'LA',
  Maine: 'ME',
  Maryland: 'MD',
  Massachusetts: 'MA',
  Michigan: 'MI',
  Minnesota: 'MN',
  Mississippi: 'MS',
  Missouri: 'MO',
  Montana: 'MT',
  Nebraska: 'NE',
  Nevada: 'NV',
  'New Hampshire': 'NH',
  'New Jersey': 'NJ',
  'New Mexico': 'NM',
  'New York': 'NY',
  'North Carolina': 'NC',
  'North Dakota': 'ND',
  Ohio: 'OH',
  Oklahoma: 'OK',
  Oregon: 'OR',
  Pennsylvania: 'PA',
  'Rhode Island': 'RI',
  'South Carolina': 'SC',
  'South Dakota': 'SD',
  Tennessee: 'TN',
  Texas: 'TX',
  Utah: 'UT',
  Vermont: 'VT',
  Virginia: 'VA',
  'Washington D.C.': 'DC',
  'Washington State': 'WA',
  'West Virginia': 'WV',
  Wisconsin: 'WI',
  Wyoming: 'WY',
  Alberta: 'AB',
  'British Colombia': 'BC',
  'British Columbia': 'BC',
  Manitoba: 'MB',
  'New Brunswick': 'NB',
  'Newfoundland and Labrador': 'NL',
  Ontario: 'ON',
  Quebec: 'QC',
  Saskatchewan: 'SK',
  'Nova Scotia/Prince Edward Island': '',
  'Northwest Territories/Nunavut/Yukon': '',
}

/** The code of a state or province; any other name, such as that of an island, is unchanged. */
function stateCode (name: string): string {
  return STATES[name] ?? name
}
