import {
  getCountries, Metadata, type CountryCode, type NumberingPlan, type NumberType,
} from 'libphonenumber-js/max'

/** The type of a number of an assigned range. */
export type AssignedType = NonNullable<NumberType>

type LibraryType = {
  pattern (): string
  possibleLengths (): readonly number[]
}

export type LibraryFormat = {
  pattern (): string
  format (): string
  internationalFormat (): string
  leadingDigitsPatterns (): readonly string[]
  nationalPrefixFormattingRule (): string | 0 | undefined
}

/** Methods that the library has but does not declare. Unset values are 0. */
export type LibraryPlan = Omit<NumberingPlan, 'IDDPrefix' | 'leadingDigits'> & {
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
  getCountryCodesForCallingCode (callingCode: string): readonly string[] | undefined
}

const countries: ReadonlySet<string> = new Set(getCountries())

/** Whether the library has a plan for an ISO 3166 country. */
export function isKnownCountry (country: string): boolean {
  return countries.has(country)
}

/**
 * The plan of a country (ISO 3166, upper case), or of the main country of a calling code.
 * @throws Error if the library knows neither.
 */
export function libraryPlan (countryOrCallingCode: string): LibraryPlan {
  const metadata = new Metadata()
  // A calling code selects the plan of its main country; the declaration allows only countries.
  metadata.selectNumberingPlan(countryOrCallingCode as CountryCode)
  return metadata.numberingPlan as NumberingPlan as LibraryPlan
}

/**
 * The countries of a calling code, its main country first, in the order in which the library checks
 * them. Empty for a global service such as 800; undefined if there is no such calling code.
 */
export function countriesOf (callingCode: string): readonly string[] | undefined {
  const metadata = new Metadata() as unknown as LibraryMetadata
  if (metadata.hasCallingCode(callingCode) !== true) return undefined
  return metadata.getCountryCodesForCallingCode(callingCode) ?? []
}
