import { readFileSync } from 'node:fs'
import { brotliDecompressSync } from 'node:zlib'

/** Where a number range is: its town and its state or province, blank if unknown. */
type RangeLocation = { readonly region: string, readonly locality: string }

/** All numbers are digits with their calling code: an E.164 number without its plus. */
export type RangeData = {
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
  const readSection = (kind: string) => {
    const head = `\n= ${kind}\n`
    const at = file.indexOf(head)
    if (at < 0) throw new Error(`the range data has no ${kind}; renew it with npm run phones`)
    const from = at + head.length
    const next = file.indexOf('\n= ', from)
    return file.subarray(from, next < 0 ? file.length : next + 1)
  }
  const places = readTable(readSection('places'), description => description)
  const carriers = readTable(readSection('carriers'), name => name)
  // A range over several zones, such as a whole country, says nothing about one contact.
  const zones = readTable(readSection('timezones'), names => names.includes('&') ? '' : names)
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
  const readCached = (name: string) => {
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
    all.push(readCached(lines.toString('utf8', tab + 1, end)))
    from = end + 1
  }
  return { ...ranges.end(), values: all }
}

/**
 * The number of a prefix: a 1, so that leading zeros count, then the digits, then zeros up to
 * PADDED_DIGITS.
 */
function toStart (digits: string): number {
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
    const start = toStart(prefix)
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
  const wanted = toStart(number)
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
