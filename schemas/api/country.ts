import { getCountries } from 'libphonenumber-js/min'

/** Those of ISO 3166 that have no numbering plan of their own. */
const WITHOUT_PLAN = ['AQ', 'BV', 'GS', 'HM', 'PN', 'TF', 'UM']

/**
 * All two-letter codes of ISO 3166-1, and three more that have numbering plans: XK (Kosovo), AC
 * (Ascension) and TA (Tristan da Cunha).
 */
export const COUNTRY_CODES: readonly string[] = [...getCountries(), ...WITHOUT_PLAN].toSorted()

/** Exactly those codes in any case, as a regular expression grouped by first letter. */
export const COUNTRY_PATTERN = buildPattern(COUNTRY_CODES)

function buildPattern (codes: readonly string[]): string {
  const anyCase = (upper: string) => `[${upper}${upper.toLowerCase()}]`
  const firsts = [...new Set(codes.map(code => code.charAt(0)))].toSorted()
  const secondLetters = (first: string) => codes.filter(code => code.startsWith(first)).toSorted()
    .map(code => code.charAt(1)).join('')
  const groups = firsts.map(first => anyCase(first) + anyCase(secondLetters(first)))
  return `^(?:${groups.join('|')})$`
}
