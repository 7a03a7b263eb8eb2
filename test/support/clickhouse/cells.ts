import type { CompletedRows } from '../../../schemas/types.ts'

/** The cells of a stored column, one a row; undefined when the block has no such column. */
export function cellsIn (
  { columns }: Pick<CompletedRows, 'columns'>, name: string
): readonly string[] | undefined {
  const column = columns.find((it) => it.name === name)
  if (column === undefined || column.at.length === 0) return column?.values
  return column.at.map(index => column.values[index] ?? '')
}
