import type { CompletedRows } from '../../../schemas/types.ts'
import { cellsOf } from '../../../services/jobs/results/dictionary-columns.ts'

/** The cells of a stored column, one a row; undefined when the block has no such column. */
export function cellsIn (
  { columns }: Pick<CompletedRows, 'columns'>, name: string
): readonly string[] | undefined {
  const column = columns.find((it) => it.name === name)
  return column === undefined ? undefined : cellsOf(column)
}
