/** Signs that begin a formula, their full-width forms included. */
const FORMULA = '=+\\-@\uff1d\uff0b\uff0d\uff20'
const STARTS_FORMULA = new RegExp(`^[${FORMULA}\t\r\n]`)
/** A spreadsheet may take a semicolon, a tab or a line break within a cell for a separator. */
const LATER_FORMULA = new RegExp(`(?<=[;\t\r\n])(?=[${FORMULA}])`, 'g')
const HARMLESS = /^[0-9 ()+./-]*$/
const NEEDS_QUOTES = new Map<string, RegExp>()

/**
 * A cell of a CSV file by RFC 4180: quoted only when it holds a quote, the delimiter, CR or LF. It
 * keeps its characters; quotes are doubled.
 */
export function csvCell (text: string, delimiter = ','): string {
  let needsQuotes = NEEDS_QUOTES.get(delimiter)
  if (needsQuotes === undefined) {
    needsQuotes = new RegExp(`["\r\n${delimiter.replace(/[\\\]^-]/, '\\$&')}]`)
    NEEDS_QUOTES.set(delimiter, needsQuotes)
  }
  return needsQuotes.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

/**
 * A cell that a spreadsheet would run as a formula, made harmless by a leading quote mark: the rule
 * of the service's own `safe=spreadsheet`. What people write as a phone number is left as it is.
 */
export function guardCell (text: string): string {
  if (HARMLESS.test(text)) return text
  const guarded = text.replace(LATER_FORMULA, "'")
  return STARTS_FORMULA.test(text) ? `'${guarded}` : guarded
}
