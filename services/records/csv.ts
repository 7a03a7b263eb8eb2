const NEEDS_QUOTES = /[",\r\n]/
const STARTS_FORMULA = /^[=+\-@\t\r]/
const HARMLESS = /^[0-9 ()+./-]*$/

/**
 * Lines of a CSV file by RFC 4180, each ended by CRLF. Cells keep their characters: only quotes are
 * doubled, and a cell is quoted only when it holds a quote, a comma, CR or LF. One string for many
 * rows, because writing a row at a time costs more than making it.
 */
export function csvLines (rows: readonly (readonly string[])[]): string {
  let text = ''
  for (const cells of rows) {
    for (let index = 0; index < cells.length; index++) {
      if (index > 0) text += ','
      text += cell(cells[index] as string)
    }
    text += '\r\n'
  }
  return text
}

/**
 * A cell that a spreadsheet would run as a formula, made harmless by a leading quote mark. A number
 * written the way people write phone numbers can't be a harmful formula and is left as it is.
 */
export function guardCell (text: string): string {
  return STARTS_FORMULA.test(text) && !HARMLESS.test(text) ? `'${text}` : text
}

function cell (text: string): string {
  return NEEDS_QUOTES.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
