import type { Job } from '../job.ts'
import { rowFieldsOf } from './columns.ts'
import { csvHeader, splitLine, uniqueKeys } from './result-csv.ts'

/** The columns whose cells are whole numbers in every form, or blank. */
export const NUMBER_COLUMNS: ReadonlySet<string> = new Set(['row', 'confidence', 'duplicate_of'])

/** The columns whose cells are times in ISO 8601. */
const TIME_COLUMNS: ReadonlySet<string> = new Set(['checked_at', 'expires_at'])

export type ResultColumn = {
  readonly name: string
  readonly kind: 'text' | 'number' | 'time'
  /** Whether it is a column of the customer's file, whose blank cells are texts. */
  readonly isOriginal: boolean
}

/** The results as a table: its columns, and the cells of a row in their order. */
export type ResultTable = {
  readonly columns: readonly ResultColumn[]
  /** The fields of a row, with its reference last if the table has ids or `original` columns. */
  readonly toCells: (fields: readonly string[]) => readonly string[]
}

type TableOptions = {
  /** Of the results. */
  readonly columns: readonly string[]
  /** Of the customer's file, which come first. */
  readonly original?: readonly string[] | undefined
}

/** The table of a job, with the columns and names that its CSV has; names are unique. */
export function createTable (job: Job, { columns, original = [] }: TableOptions): ResultTable {
  const hasOriginal = original.length > 0
  const names = uniqueKeys(csvHeader(job, { columns, ...hasOriginal && { original } }))
  const fields = rowFieldsOf(job.service, { ids: true })
  const positions = columns.map(name => fields.indexOf(name))
  const kinds = [...original.map(() => 'text' as const), ...columns.map(kindOf)]
  return {
    columns: names.map((name, at) => ({
      name, kind: kinds[at] ?? 'text', isOriginal: at < original.length,
    })),
    toCells: fields => {
      const cells = hasOriginal ? splitLine(fields.at(-1) ?? '').slice(0, original.length) : []
      while (cells.length < original.length) cells.push('')
      for (const position of positions) cells.push(fields[position] ?? '')
      return cells
    },
  }
}

const kindOf = (name: string): ResultColumn['kind'] =>
  NUMBER_COLUMNS.has(name) ? 'number' : TIME_COLUMNS.has(name) ? 'time' : 'text'
