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

/**
 * Where contacts are: columns with the kind of their contacts and how many cells fit, those with
 * the most first.
 */
export function findContacts (rows, isHeader) {
  const sample = rows.slice(isHeader ? 1 : 0, SAMPLE_ROWS)
  return namesOf(rows, isHeader)
    .flatMap((_, column) => Object.entries(FITS).map(([kind, fits]) =>
      ({ column, kind, hits: sample.filter(row => fits(row[column] ?? '')).length })))
    .filter(({ hits }) => hits > 0)
    .sort((one, other) => other.hits - one.hits)
}

/** Whether a column has phone numbers that only their country completes. */
export function hasNationalNumbers (rows, isHeader, column) {
  return rows.slice(isHeader ? 1 : 0, SAMPLE_ROWS).some(row => {
    const cell = (row[column] ?? '').trim()
    return FITS.phone(cell) && !/^(\+|\(\+|00)/.test(cell)
  })
}
