import { COMMON_COLUMNS, STANDARD_COLUMNS } from '../../schemas/api/columns.ts'
import { positionsOf } from '../../schemas/files/csv-format.ts'
import { UsageError } from './terminal.ts'

/** The header of a table and its first rows. */
export type TableHead = {
  readonly header: readonly string[]
  readonly rows: readonly (readonly string[])[]
}

/**
 * The index of a named column: in any case, `#3` for the third one. Throws UsageError with the
 * existing columns when there is none or more than one. `option` is where it was named.
 */
export function indexOfName (
  header: readonly string[], name: string, option = '--column'
): number {
  const indexes = positionsOf(header, name)
  const [only] = indexes
  if (indexes.length === 1 && only !== undefined) return only
  const position = /^#([1-9]\d*)$/.exec(name)?.[1]
  if (indexes.length === 0 && position !== undefined && Number(position) <= header.length) {
    return Number(position) - 1
  }
  const positions = indexes.map(index => `#${index + 1}`)
  throw new UsageError(indexes.length > 1
    ? `${indexes.length} columns have the name ${name}. Select one by its position: ${option} ` +
      `'${positions.join("' or '")}'.`
    : `The file has no column ${name}. ${columnList(header)}`)
}

const columnList = (header: readonly string[]) => 'The columns are: ' +
  `${header.map((name, index) => name === '' ? `#${index + 1}` : name).join(', ')}.`

/** The joined file has these already: its own columns, and the order of its lines. */
const OMITTED: readonly string[] = ['row', 'input', 'id']

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
