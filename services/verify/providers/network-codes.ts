import { all } from 'mcc-mnc-list'

/** Mobile country code and mobile network code (ITU-T E.212), 3 digits and 2 or 3 digits. */
export type NetworkCode = { readonly mcc: string, readonly mnc: string }

let codes: ReadonlyMap<string, NetworkCode | undefined> | undefined

/**
 * The network code of a carrier in a country (ISO 3166-1 alpha-2), from the public list of E.212
 * codes; undefined unless its name, as brand or operator, has exactly one code in operation there.
 */
export function networkCodeOf (
  country: string | undefined, carrier: string
): NetworkCode | undefined {
  codes ??= readCodes()
  return codes.get(nameIn(country ?? '', carrier))
}

/** The codes by country and name; undefined for a name with several. */
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
