import { Option, type Command } from 'commander'
import { COUNTRY_CODES } from '../../schemas/api/country.ts'
import { ROW_FIELDS } from '../../schemas/api/columns.ts'
import { LINE_TYPES, REASONS, ROW_SOURCES, ROW_STATUSES } from '../../schemas/api/verdicts.ts'
import type { RowSelection } from './client.ts'
import { UsageError } from './command-error.ts'

/** The flags that select rows; the lists are parsed. */
export type SelectionFlags = {
  readonly status?: RowSelection['status']
  readonly reason?: RowSelection['reason']
  readonly source?: RowSelection['source']
  readonly lineType?: RowSelection['line_type']
  readonly country?: RowSelection['country']
  readonly columns?: RowSelection['columns']
  readonly dropDuplicates?: true
}

/** The options for rows that every list of contacts can be cleaned by. */
export function addCleaningOptions (command: Command): Command {
  return command
    .addOption(listOption('--status <list>', 'only rows with these verdicts, separated by commas',
      ROW_STATUSES))
    .option('--drop-duplicates', 'leave out rows that repeat another row of their job')
}

/** The options for every parameter of the results that selects rows or columns. */
export function addSelectionOptions (command: Command): Command {
  return addCleaningOptions(command)
    .addOption(listOption('--reason <list>', 'only rows with these reasons', REASONS))
    .addOption(listOption('--source <list>', 'only rows from these sources', ROW_SOURCES))
    .addOption(listOption('--line-type <list>', 'only rows of these line types', LINE_TYPES))
    .addOption(listOption('--country <list>', 'only rows of these ISO 3166 countries',
      COUNTRY_CODES))
    .addOption(listOption('--columns <list>', 'only these columns, in this order', ROW_FIELDS))
}

/** The selection of a request, without what was not given. */
export function selectionOf (flags: SelectionFlags): RowSelection {
  const { status, reason, source, lineType, country, columns, dropDuplicates } = flags
  return {
    ...status !== undefined && { status },
    ...reason !== undefined && { reason },
    ...source !== undefined && { source },
    ...lineType !== undefined && { line_type: lineType },
    ...country !== undefined && { country },
    ...columns !== undefined && { columns },
    ...dropDuplicates === true && { duplicates: 'drop' },
  }
}

/** An option of values of a list, in any case, separated by commas. */
function listOption (flags: string, description: string, allowed: readonly string[]): Option {
  const [name = ''] = flags.split(' ')
  const known = new Map(allowed.map(value => [value.toLowerCase(), value]))
  return new Option(flags, description).argParser((text: string) =>
    text.split(',').map((part) => {
      const value = known.get(part.trim().toLowerCase())
      if (value !== undefined) return value
      throw new UsageError(`${name}: there is no ${JSON.stringify(part)}. The values are: ` +
        `${allowed.join(', ')}.`)
    }))
}
