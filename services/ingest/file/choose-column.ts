import { positionsOf } from '../../../schemas/files/csv-format.ts'
import { ApiException } from '../errors.ts'
import { SHOWN_CHARACTERS } from '../validation.ts'

export type ColumnOptions = {
  /** A name, or a position from 1. */
  readonly column?: string | undefined
  /** Whether the first line names the columns. */
  readonly header?: boolean | undefined
}

export type ChosenColumn = {
  readonly isHeader: boolean
  readonly columns: readonly string[]
  /** Position, from 0, of the column with the contacts. */
  readonly at: number
}

const POSITION = /^[1-9]\d{0,3}$/
const MAX_LISTED = 50

/**
 * Finds the column of the contacts by the first line of a file. Without an option, the line is a
 * header if the column was named, or if its cell in that column is neither blank nor a contact.
 * @throws ApiException for a column that is missing, unknown or ambiguous; it lists the names.
 */
export function chooseColumn (
  first: readonly string[], { column, header }: ColumnOptions
): ChosenColumn {
  const isPosition = column === undefined || POSITION.test(column)
  const at = isPosition ? atPosition(first, column, header) : atName(first, column, header)
  const cell = first[at] ?? ''
  const isHeader = header ?? (!isPosition || (cell.trim() !== '' && !mayBeContact(cell)))
  const columns = isHeader ? first : first.map((_, index) => `column_${index + 1}`)
  return { isHeader, columns, at }
}

function atPosition (
  first: readonly string[], column: string | undefined, header: boolean | undefined
): number {
  if (column === undefined && first.length === 1) return 0
  if (column === undefined) {
    throw columnError(`column is missing. The file has ${first.length} columns. Send the name or ` +
      `the number of the one with the contacts. ${listOf(first, header)}`)
  }
  if (Number(column) <= first.length) return Number(column) - 1
  throw columnError(`The file has no column ${column}: it has ${first.length}. ` +
    listOf(first, header))
}

function atName (
  first: readonly string[], column: string, header: boolean | undefined
): number {
  const shown = column.slice(0, SHOWN_CHARACTERS)
  if (header === false) {
    throw columnError(`column is "${shown}", but header is false. Send the number of the column, ` +
      'from 1.')
  }
  const found = positionsOf(first, column)
  const [only] = found
  if (only === undefined) {
    throw columnError(`The file has no column "${shown}". ${listOf(first, header)}`)
  }
  if (found.length > 1) {
    const numbers = found.slice(0, MAX_LISTED).map(index => index + 1)
    throw columnError(`${found.length} columns have the name "${shown}". Send the number of one: ` +
      `${numbers.join(', ')}.`)
  }
  return only
}

/** The names of the columns. A first line with contacts is no header, so it is not repeated. */
function listOf (first: readonly string[], header: boolean | undefined): string {
  if (header === false || (header === undefined && first.some(mayBeContact))) {
    return 'The first line of the file is a row, so columns have numbers only.'
  }
  const names = first.slice(0, MAX_LISTED).map((name, index) =>
    name.trim() === '' ? String(index + 1) : name.slice(0, SHOWN_CHARACTERS))
  const more = first.length > MAX_LISTED ? `, and ${first.length - MAX_LISTED} more` : ''
  return `The columns are: ${names.join(', ')}${more}.`
}

const MIN_DIGITS = 5

/** Rather takes a name for a contact than a contact for a name: no row may be lost. */
function mayBeContact (cell: string): boolean {
  return cell.includes('@') || cell.replace(/\D/g, '').length >= MIN_DIGITS
}

function columnError (message: string): ApiException {
  return new ApiException({ code: 'invalid_request', param: 'column', message })
}
