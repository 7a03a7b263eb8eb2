import { UsageError } from './command-error.ts'

/** The columns that result files of every service have; services add some of their own. */
export const COMMON_RESULT_COLUMNS: readonly string[] = [
  'row', 'input', 'phone', 'e164', 'country', 'region', 'locality', 'line_type', 'carrier',
  'status', 'source', 'confidence', 'generation_basis', 'reason', 'checked_at', 'expires_at',
  'duplicate_of',
]

/** What a joined file has anyway: the contact stands in it, and lines keep their places. */
const LEFT_OUT: readonly string[] = ['row', 'input']

/** Columns whose cells are the number of a row of the job. */
export const ROW_NUMBERS: readonly string[] = ['duplicate_of']

const PREFIX = 'verified_'

/**
 * Reads `--only status,line_type`: names of verification columns in the order they are wanted.
 * Throws UsageError for a name that a result of the service does not have.
 */
export function wantedColumns (
  list: string | undefined, ofService: readonly string[]
): readonly string[] | undefined {
  if (list === undefined) return undefined
  const known = [...COMMON_RESULT_COLUMNS, ...ofService].filter(name => !LEFT_OUT.includes(name))
  const wanted = [...new Set(list.split(',').map(name => name.trim()).filter(name => name !== ''))]
  const strange = wanted.filter(name => !known.includes(name))
  if (wanted.length > 0 && strange.length === 0) return wanted
  const why = strange.length > 0 ? `there is no ${strange.join(', ')}` : 'name at least one column'
  throw new UsageError(`--only: ${why}. The columns of this service are: ${known.join(', ')}.`)
}

/** The columns that go behind the original ones, given those of a result file. */
export function columnsToAdd (
  inResults: readonly string[], wanted: readonly string[] | undefined
): readonly string[] {
  return wanted ?? inResults.filter(name => !LEFT_OUT.includes(name))
}

/** The names to write them under: a name that the file has already gets a prefix. */
export function addedNames (
  columns: readonly string[], header: readonly string[]
): readonly string[] {
  const taken = new Set(header.map(name => name.trim().toLowerCase()))
  return columns.map(column => {
    let name = column
    while (taken.has(name)) name = `${PREFIX}${name}`
    taken.add(name)
    return name
  })
}
