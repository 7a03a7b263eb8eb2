import { FILTER_COLUMNS } from '../../../schemas/api/results.ts'
import type { ServiceSlug } from '../../topology.ts'
import { rowFieldsOf } from './columns.ts'

/** Whether a row is wanted, by its cells. */
export type RowFilter = (cells: readonly string[]) => boolean

/** The wanted values of columns, each of a closed list; a column that is missing takes any. */
export type WantedRows = Readonly<Partial<Record<typeof FILTER_COLUMNS[number],
  readonly string[] | undefined>>> & { readonly duplicates?: 'drop' | undefined }

/**
 * The filter of rows as they are returned, where a duplicate repeats the verdict of its original;
 * undefined if it keeps all.
 */
export function createRowFilter (
  service: ServiceSlug, wanted: WantedRows
): RowFilter | undefined {
  const fields = rowFieldsOf(service)
  const tests = FILTER_COLUMNS.flatMap(name => {
    const values = wanted[name]
    return values === undefined ? [] : [{ at: fields.indexOf(name), values: new Set(values) }]
  })
  const sourceAt = fields.indexOf('source')
  const drops = wanted.duplicates === 'drop'
  if (tests.length === 0 && !drops) return undefined
  return cells => !(drops && cells[sourceAt] === 'duplicate') &&
    tests.every(({ at, values }) => values.has(cells[at] ?? ''))
}
