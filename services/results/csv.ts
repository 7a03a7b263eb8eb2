const NEEDS_QUOTES = /[",\r\n]/
/** Signs that begin a formula, their full-width forms included. */
const FORMULA = '=+\\-@\uff1d\uff0b\uff0d\uff20'
const STARTS_FORMULA = new RegExp(`^[${FORMULA}\t\r\n]`)
/** A spreadsheet may take a semicolon, a tab or a line break within a cell for a separator. */
const LATER_FORMULA = new RegExp(`(?<=[;\t\r\n])(?=[${FORMULA}])`, 'g')
const HARMLESS = /^[0-9 ()+./-]*$/

/**
 * A cell of a CSV file by RFC 4180. It keeps its characters: only quotes are doubled, and it is
 * quoted only when it holds a quote, a comma, CR or LF.
 */
export function csvCell (text: string): string {
  return NEEDS_QUOTES.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

/** A line of a CSV file, ended by CRLF. */
export function csvLine (cells: readonly string[]): string {
  return `${cells.map(csvCell).join(',')}\r\n`
}

/**
 * A cell that a spreadsheet would run as a formula, made harmless by a leading quote mark. A number
 * written the way people write phone numbers can't be a harmful formula and is left as it is.
 */
export function guardCell (text: string): string {
  if (HARMLESS.test(text)) return text
  const guarded = text.replace(LATER_FORMULA, "'")
  return STARTS_FORMULA.test(text) ? `'${guarded}` : guarded
}
