const NEEDS_QUOTES = /[",\r\n]/
/** Characters that start a formula, including their full-width forms. */
const FORMULA = '=+\\-@\uff1d\uff0b\uff0d\uff20'
const STARTS_FORMULA = new RegExp(`^[${FORMULA}\t\r\n]`)
/** Spreadsheets may treat a semicolon, tab or line break in a cell as a separator. */
const LATER_FORMULA = new RegExp(`(?<=[;\t\r\n])(?=[${FORMULA}])`, 'g')
const HARMLESS = /^[0-9 ()+./-]*$/

/**
 * Encodes a CSV cell by RFC 4180: doubles its quotes, and quotes it only if it contains a quote, a
 * comma, CR or LF.
 */
export function csvCell (text: string): string {
  return NEEDS_QUOTES.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

/** A line of a CSV file, ended by CRLF. */
export function csvLine (cells: readonly string[]): string {
  return `${cells.map(csvCell).join(',')}\r\n`
}

/**
 * Neutralizes a cell that a spreadsheet would run as a formula, by a leading single quote. Cells of
 * digits and punctuation, such as phone numbers, are harmless and stay as they are.
 */
export function guardCell (text: string): string {
  if (HARMLESS.test(text)) return text
  const guarded = text.replace(LATER_FORMULA, "'")
  return STARTS_FORMULA.test(text) ? `'${guarded}` : guarded
}
