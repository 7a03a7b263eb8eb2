// What can be told of a file of contacts without asking anybody.

const DELIMITERS = [',', ';', '\t']
const SAMPLE_ROWS = 200
const PHONE = /^[+(]?\d[\d ()./-]{4,}$/
const EMAIL = /^[^\s@]+@[^\s@]+\.[^\s@]+$/
const FITS = {
  phone: cell => PHONE.test(cell.trim()),
  email: cell => EMAIL.test(cell.trim()),
}

/** The sign that separates cells: the one most lines of the beginning have most of. */
export function delimiterOf (text) {
  const lines = text.slice(0, 20_000).split(/\r?\n/).filter(line => line !== '').slice(0, 20)
  const counts = DELIMITERS.map(sign =>
    lines.reduce((sum, line) => sum + line.split(sign).length - 1, 0))
  const most = Math.max(...counts)
  return most === 0 ? ',' : DELIMITERS[counts.indexOf(most)]
}

/** Whether the first row names columns: none of its cells looks like a contact. */
export function hasHeader (rows) {
  const [first = []] = rows
  return rows.length > 1 && first.every(cell => cell.trim() !== '' &&
    !FITS.phone(cell) && !FITS.email(cell))
}

/** Names of the columns, made up where the file has none. */
export function namesOf (rows, isHeader) {
  const width = Math.max(0, ...rows.slice(0, SAMPLE_ROWS).map(row => row.length))
  return Array.from({ length: width }, (_, index) =>
    (isHeader && rows[0]?.[index]?.trim()) || `Column ${index + 1}`)
}

/** The column that holds most contacts, and of which kind they are. */
export function guess (rows, isHeader) {
  const sample = rows.slice(isHeader ? 1 : 0, SAMPLE_ROWS)
  const names = namesOf(rows, isHeader)
  const scores = names.flatMap((_, column) => Object.entries(FITS).map(([kind, fits]) =>
    ({ column, kind, hits: sample.filter(row => fits(row[column] ?? '')).length })))
  return scores.reduce((best, one) => one.hits > best.hits ? one : best,
    { column: 0, kind: 'phone', hits: 0 })
}

/** The cells of a column in the order of the file; a row that is too short has a blank one. */
export function cellsOf (rows, isHeader, column) {
  return rows.slice(isHeader ? 1 : 0).map(row => row[column] ?? '')
}
