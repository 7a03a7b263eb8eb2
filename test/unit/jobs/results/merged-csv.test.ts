import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createDictionaryColumns } from '../../../../services/jobs/results/dictionary-columns.ts'
import { guardCell } from '../../../../schemas/files/csv-format.ts'
import { csvLine } from '../../../../services/jobs/results/csv.ts'
import {
  mergeChunk, type OpenBlock, createCellReader,
} from '../../../../services/jobs/results/merge.ts'
import { createChunkCsv } from '../../../../services/jobs/results/merged-csv.ts'
import { bitmapOf } from '../../../support/stage-doubles.ts'

const columns = ['row', 'input', 'phone', 'country', 'status', 'source', 'duplicate_of', 'zone']
const stored = columns.filter(name => !['row', 'input', 'duplicate_of'].includes(name))
const cellsAt = createCellReader(columns)

type Held = ReadonlyMap<number, readonly string[]>

/** A block that won all its rows: cells by the stored columns, by row. */
function blockOf (held: Held, width: number, inputs?: readonly string[]): OpenBlock {
  const cells = createDictionaryColumns(stored)
  for (const row of held.values()) {
    for (const [at, cell] of row.entries()) cells.put(stored[at] ?? '', cell)
    cells.endRow()
  }
  const won = bitmapOf(width, [...held.keys()])
  return {
    entry: { chunk: 0, firstRow: 0, digest: '', won, inputs: inputs !== undefined },
    rows: {
      inputs: inputs === undefined ? null : [...inputs],
      rows: [...held.keys()],
      duplicateOf: [],
      columns: [...cells.filled()],
    },
  }
}

const nasty = fc.string({ unit: fc.constantFrom(...'",\r\n=+@\t\'é漢1 ') })
const few = fc.constantFrom('', 'a', 'AT&T, Inc.', '=x', '"', 'Zürich')
const row = fc.tuple(nasty, few, few, few, few)
const rowsOfChunk = fc.array(
  fc.record({ input: nasty, cells: row, block: fc.nat(2), copy: fc.option(row, { freq: 4 }) }),
  { minLength: 1, maxLength: 150 })

describe('a chunk as CSV', () => {
  it('is the lines of the cells of its rows, for any content and any winning block', () => {
    fc.assert(fc.property(rowsOfChunk, fc.boolean(), (rows, safe) => {
      const inputs = rows.map(({ input }) => input)
      const blocks = [0, 1, 2].map(block => blockOf(
        new Map(rows.flatMap((one, at) => one.block === block ? [[at, one.cells]] : [])),
        rows.length, block === 1 ? inputs : undefined))
      const plan = { chunk: 0, firstRow: 0, rows: rows.length, entries: [] }
      const merged = mergeChunk('job_1', plan, blocks)
      const repeated = new Map(rows.flatMap(({ input, copy }, at) =>
        copy === null ? [] : [[at, [`${at + 1}`, input, ...copy, 'x']]]))
      const lineOf = (cells: readonly string[]) => csvLine(safe ? cells.map(guardCell) : cells)
      const expected = rows.map(({ input, cells: [phone, country, status, source, zone] }, at) =>
        lineOf(repeated.get(at) ??
          [`${at + 1}`, input, phone, country, status, source, '', zone]))
      const { lines } = createChunkCsv(columns, { safe })(merged, repeated, 0)
      expect(String(lines)).toBe(expected.join(''))
      expect(rows.map((_, at) => lineOf(repeated.get(at) ?? cellsAt(merged, at))))
        .toEqual(expected)
    }))
  })

  it('takes blocks of the whole job for each of its chunks', () => {
    const cells = (row: number) => [`+${row}`, row < 3 ? 'US' : 'DE', 'unknown', 'live', '']
    const held = new Map([0, 1, 2, 3, 4, 5].map(row => [row, cells(row)]))
    const wide = blockOf(held, 6)
    const csvOf = createChunkCsv(columns, { safe: false })
    const chunk = (firstRow: number) => {
      const plan = { chunk: 0, firstRow, rows: 2, entries: [] }
      return String(csvOf(mergeChunk('job_1', plan, [wide]), new Map(), 0).lines)
    }
    expect([chunk(0), chunk(2), chunk(4)]).toEqual([
      '1,,+0,US,unknown,live,,\r\n2,,+1,US,unknown,live,,\r\n',
      '3,,+2,US,unknown,live,,\r\n4,,+3,DE,unknown,live,,\r\n',
      '5,,+4,DE,unknown,live,,\r\n6,,+5,DE,unknown,live,,\r\n',
    ])
  })
})
