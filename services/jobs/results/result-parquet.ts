import { ByteWriter, ParquetWriter, type ColumnSource } from 'hyparquet-writer'
import { eventLoop } from '../../runtime/platform/event-loop.ts'
import type { ResultTable, ResultColumn } from './result-table.ts'
import type { Rows } from './results.ts'

type SchemaElement = ConstructorParameters<typeof ParquetWriter>[0]['schema'][number]

/** Rows that are encoded together, in some ten milliseconds. */
const GROUP_ROWS = 2_000

/**
 * The rows as a Parquet file, in pieces: a group of rows is in memory at a time. Texts are UTF-8,
 * numbers 32-bit integers, times UTC in milliseconds; blank cells are null, except for `input` and
 * the customer's own.
 */
export async function * parquetPieces (
  tenant: string, table: ResultTable, rows: AsyncIterable<Rows>
): AsyncIterable<Uint8Array> {
  const { columns, toCells } = table
  const writer = new ByteWriter()
  const parquet = new ParquetWriter({
    writer, schema: schemaOf(columns), createdBy: 'verification-jobs',
  })
  const take = () => {
    const bytes = writer.getBytes().slice()
    writer.index = 0
    return bytes
  }
  let values: unknown[][] = columns.map(() => [])
  let count = 0
  const write = async () => {
    const columnData = columns.map(({ name }, at) => ({ name, data: values[at] as [] }))
    await parquet.write({
      columnData: columnData satisfies ColumnSource[], rowGroupSize: count,
    })
    values = columns.map(() => [])
    count = 0
    return take()
  }
  for await (const some of rows) {
    for (const fields of some) {
      const cells = toCells(fields)
      for (const [at, column] of columns.entries()) values[at]?.push(valueOf(column, cells[at]))
      count += 1
      if (count < GROUP_ROWS) continue
      await eventLoop.yield('bulk', tenant)
      yield await write()
    }
  }
  if (count > 0) yield await write()
  await parquet.finish()
  yield take()
}

function schemaOf (columns: readonly ResultColumn[]): SchemaElement[] {
  return [
    { name: 'results', num_children: columns.length },
    ...columns.map((column): SchemaElement => {
      const { name, kind } = column
      const repetition = isRequired(column) ? 'REQUIRED' : 'OPTIONAL'
      const common = { name, repetition_type: repetition } as const
      switch (kind) {
        case 'number': return { ...common, type: 'INT32' }
        case 'time': return {
          ...common,
          type: 'INT64',
          converted_type: 'TIMESTAMP_MILLIS',
          logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MILLIS' },
        }
        default: return {
          ...common, type: 'BYTE_ARRAY', converted_type: 'UTF8', logical_type: { type: 'STRING' },
        }
      }
    }),
  ]
}

const isRequired = ({ name, isOriginal }: ResultColumn) =>
  isOriginal || name === 'row' || name === 'input'

function valueOf (column: ResultColumn, cell = ''): string | number | Date | null {
  if (cell === '' && !isRequired(column)) return null
  switch (column.kind) {
    case 'number': return Number(cell)
    case 'time': return new Date(cell)
    case 'text': return cell
  }
}
