import { getCountries } from 'libphonenumber-js/min'

/** ISO 3166 two-letter codes of countries with telephone numbers. */
export const COUNTRY_CODES: readonly string[] = getCountries()

/** Exactly those codes in any case, as a regular expression grouped by first letter. */
export const COUNTRY_PATTERN = patternOf(COUNTRY_CODES)

function patternOf (codes: readonly string[]): string {
  const anyCase = (upper: string) => `[${upper}${upper.toLowerCase()}]`
  const byFirst = Map.groupBy(codes.toSorted(), code => code.charAt(0))
  const groups = [...byFirst].map(([first, some]) =>
    anyCase(first) + anyCase(some.map(code => code.charAt(1)).join('')))
  return `^(?:${groups.join('|')})$`
}
