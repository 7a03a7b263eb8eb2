// Guesses the columns of a file of contacts.

const SAMPLE_ROWS = 200
const PHONE = /^[+(]?\d[\d ()./-]{4,}$/
const EMAIL = /^[^\s@]+@[^\s@]+\.[^\s@]+$/
const FITS = {
  phone: cell => PHONE.test(cell.trim()),
  email: cell => EMAIL.test(cell.trim()),
}

/** Whether the first row is a header: none of its cells is blank or looks like a contact. */
export function hasHeader (rows) {
  const [first = []] = rows
  return rows.length > 1 && first.every(cell => cell.trim() !== '' &&
    !FITS.phone(cell) && !FITS.email(cell))
}

/** The names of the columns; `Column 1` etc. where the file has none. */
export function namesOf (rows, isHeader) {
  const width = Math.max(0, ...rows.slice(0, SAMPLE_ROWS).map(row => row.length))
  return Array.from({ length: width }, (_, index) =>
    (isHeader && rows[0]?.[index]?.trim()) || `Column ${index + 1}`)
}

/** The column with the most contacts, and the kind of these contacts. */
export function guess (rows, isHeader) {
  const sample = rows.slice(isHeader ? 1 : 0, SAMPLE_ROWS)
  const names = namesOf(rows, isHeader)
  const scores = names.flatMap((_, column) => Object.entries(FITS).map(([kind, fits]) =>
    ({ column, kind, hits: sample.filter(row => fits(row[column] ?? '')).length })))
  return scores.reduce((best, one) => one.hits > best.hits ? one : best,
    { column: 0, kind: 'phone', hits: 0 })
}
