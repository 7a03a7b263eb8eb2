import { COMMON_COLUMNS, STANDARD_COLUMNS } from '../../schemas/api/columns.ts'
import { foldedName, positionsOf } from '../../schemas/files/csv-format.ts'
import { UsageError } from './terminal.ts'

export type ContactKind = 'phone' | 'email'

/** The header of a table and its first rows. */
export type TableHead = {
  readonly header: readonly string[]
  readonly rows: readonly (readonly string[])[]
}

type ContactColumn = {
  readonly index: number
  readonly name: string
  /** True when the user named no column. */
  readonly guessed: boolean
}

type ColumnOptions = { readonly kind: ContactKind, readonly named?: string | undefined }

const USUAL_NAMES: Readonly<Record<ContactKind, RegExp>> = {
  phone: /^(contact|input|cell|msisdn|number|whatsapp|telegram|tel)$|phone|mobile?|telefon|handy/,
  email: /^(contact|input)$|e-?mail|^mail$/,
}
const EMAIL_PATTERN = /^[^\s@]+@[^\s@]+\.[^\s@]+$/
const PHONE_PATTERN = /^\+?[\d\s().\-/]+$/
const DATE_PATTERN = /^\d{1,4}[-./]\d{1,2}[-./]\d{1,4}\b/
/** Real lists contain typing errors. */
const MIN_MATCHING_SHARE = 0.6

/**
 * Finds the column of the contacts: the named one in any case, `#3` for the third one, or, without
 * a name, the only plausible one. Throws UsageError with the existing columns when there is none or
 * more than one, and when the first line is a row instead of a header.
 */
export function contactColumn (head: TableHead, { kind, named }: ColumnOptions): ContactColumn {
  const index = named === undefined ? guessIndex(head, kind) : indexOfName(head.header, named)
  const name = head.header[index] ?? ''
  if (looksLike(kind, name)) {
    throw new UsageError('The first line of the file must contain column names, but it contains ' +
      `the contact ${name}. Insert a line with column names above it.`)
  }
  return { index, name: name === '' ? `#${index + 1}` : name, guessed: named === undefined }
}

function indexOfName (header: readonly string[], name: string): number {
  const indexes = positionsOf(header, name)
  const [only] = indexes
  if (indexes.length === 1 && only !== undefined) return only
  const position = /^#([1-9]\d*)$/.exec(name)?.[1]
  if (indexes.length === 0 && position !== undefined && Number(position) <= header.length) {
    return Number(position) - 1
  }
  const positions = indexes.map(index => `#${index + 1}`)
  throw new UsageError(indexes.length > 1
    ? `${indexes.length} columns have the name ${name}. Select one by its position: --column ` +
      `'${positions.join("' or '")}'.`
    : `The file has no column ${name}. ${columnList(header)}`)
}

function guessIndex ({ header, rows }: TableHead, kind: ContactKind): number {
  const all = header.map((_, index) => index)
  const byContent = all.filter(index => isMostly(kind, rows.map(cells => cells[index])))
  const byName = all.filter(index => USUAL_NAMES[kind].test(foldedName(header[index] ?? '')))
  const both = byContent.filter(index => byName.includes(index))
  const index = [both, byContent, byName, all].find(({ length }) => length === 1)?.[0]
  if (index !== undefined && both.length < 2) return index
  throw new UsageError('The column of the contacts is ambiguous. Name it with --column. ' +
    columnList(header))
}

function isMostly (kind: ContactKind, column: readonly (string | undefined)[]): boolean {
  const cells = column.map(cell => cell?.trim() ?? '').filter(cell => cell !== '')
  const matching = cells.filter(cell => looksLike(kind, cell)).length
  return cells.length > 0 && matching >= MIN_MATCHING_SHARE * cells.length
}

/**
 * Returns the kinds of contacts that the named column (or, without a name, any column) plausibly
 * contains. Throws UsageError when the named column does not exist.
 */
export function contactKinds (
  { header, rows }: TableHead, named: string | undefined
): readonly ContactKind[] {
  const indexes = named === undefined
    ? header.map((_, index) => index)
    : [indexOfName(header, named)]
  const kinds: readonly ContactKind[] = ['phone', 'email']
  const byContent = kinds.filter(kind => indexes.some(index =>
    isMostly(kind, rows.map(cells => cells[index]))))
  if (byContent.length > 0 || named === undefined) return byContent
  return kinds.filter(kind => USUAL_NAMES[kind].test(foldedName(named)))
}

/** Whether a cell could be a contact. Distinguishes columns only; it does not verify anything. */
function looksLike (kind: ContactKind, cell: string): boolean {
  if (kind === 'email') return EMAIL_PATTERN.test(cell)
  const digits = cell.replace(/\D/g, '').length
  return PHONE_PATTERN.test(cell) && !DATE_PATTERN.test(cell) && digits >= 7 && digits <= 15
}

const columnList = (header: readonly string[]) => 'The columns are: ' +
  `${header.map((name, index) => name === '' ? `#${index + 1}` : name).join(', ')}.`

/** The joined file contains these already: its own contact column and the order of its lines. */
const OMITTED: readonly string[] = ['row', 'input']

/** Columns whose cells contain a row number of the job. */
export const ROW_NUMBER_COLUMNS: readonly string[] = ['duplicate_of']

/**
 * Parses `--only status,line_type` into result columns, in this order; undefined without the
 * option. Throws UsageError for a column that the service does not return.
 */
export function parseOnly (
  list: string | undefined, ofService: readonly string[]
): readonly string[] | undefined {
  if (list === undefined) return undefined
  const available = [...STANDARD_COLUMNS, ...COMMON_COLUMNS, ...ofService]
    .filter(name => !OMITTED.includes(name))
  const names = [...new Set(list.split(',').map(name => name.trim()).filter(name => name !== ''))]
  const unknown = names.filter(name => !available.includes(name))
  if (names.length > 0 && unknown.length === 0) return names
  const problem = unknown.length > 0 ? `there is no ${unknown.join(', ')}` : 'the list is empty'
  throw new UsageError(
    `--only: ${problem}. The columns of this service are: ${available.join(', ')}.`)
}

/** The columns to append: the selected ones, or all columns of the result file. */
export function columnsToAppend (
  ofResults: readonly string[], selected: readonly string[] | undefined
): readonly string[] {
  return selected ?? ofResults.filter(name => !OMITTED.includes(name))
}
