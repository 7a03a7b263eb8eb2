import type { ResultRow } from '../../schemas/api/results.ts'
import { rowChecksOf, rowFieldsOf } from '../results/columns.ts'
import { createOriginalRow } from '../results/original.ts'
import type { ServiceSlug } from '../topology.ts'
import type { ResultSelection } from './result-selection.ts'

export type ShapeOptions = Partial<Pick<ResultSelection, 'columns' | 'original'>>

/**
 * Converts the cells of a row to an object with these columns: blank cells are null, except for the
 * submitted input. With the customer's columns, the last cell is their line.
 */
export function createRowShape (
  service: ServiceSlug, { columns = rowFieldsOf(service), original }: ShapeOptions = {}
): (cells: readonly string[]) => ResultRow {
  const fields = rowFieldsOf(service)
  const originalOf = original && createOriginalRow(original)
  const [sourceAt, checksAt] = [fields.indexOf('source'), fields.indexOf('checks')]
  const positions = columns.map(name => [name, fields.indexOf(name)] as const)
  return cells => Object.fromEntries([
    ...positions.map(([name, at]) => [name, at === checksAt
      ? rowChecksOf(cells[sourceAt], cells[checksAt])
      : valueOf(name, cells[at])]),
    ...originalOf === undefined ? [] : [['original', originalOf(cells[fields.length] ?? '')]],
  ])
}

const NUMBERS: ReadonlySet<string> = new Set(['row', 'confidence', 'duplicate_of'])

function valueOf (name: string, text = ''): string | number | null {
  if (text === '' && name !== 'input') return null
  return NUMBERS.has(name) ? Number(text) : text
}
