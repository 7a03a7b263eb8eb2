import { parse } from 'csv-parse/sync'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { CsvScanner, type CsvRecord } from '../../../schemas/files/csv-format.ts'

const LIMITS = { maxRecordBytes: 1_000, maxBlankLines: 3 }

function scan (text: string, delimiter = ',') {
  const bytes = Buffer.from(text)
  const decode = (from: number, to: number) => bytes.toString('utf8', from, to)
  const scanner = new CsvScanner(bytes, { delimiter, decode, start: 0, ...LIMITS })
  const records: CsvRecord[] = []
  for (let next = scanner.next(); next !== undefined; next = scanner.next()) records.push(next)
  return records
}

/** The cells of each record; a blank line is one blank cell. */
const cellsOf = (records: readonly CsvRecord[]) => records.flatMap(record => {
  switch (record.kind) {
    case 'cells': return [record.cells]
    case 'blank': return Array.from({ length: record.lines }, () => [''])
    default: return [record.kind]
  }
})

function parsed (text: string, delimiter: string) {
  try {
    return parse(text, {
      delimiter,
      record_delimiter: ['\r\r\r\r\n', '\r\r\r\n', '\r\r\n', '\r\n', '\n', '\r'],
      relax_column_count: true,
      relax_quotes: true,
    })
  } catch {
    return 'unclosed'
  }
}

describe('a scan of CSV', () => {
  it('finds the cells that a parser of every dialect finds', () => {
    const text = fc.string({ unit: fc.constantFrom(...'",;\r\n\n"aé\u{1f600} '), maxLength: 40 })
    fc.assert(fc.property(text, fc.constantFrom(',', ';'), (file, delimiter) => {
      const cells = cellsOf(scan(file, delimiter))
      const expected = parsed(file, delimiter)
      if (expected === 'unclosed') expect(cells.at(-1)).toBe('unclosed')
      // The parser takes text behind a cell of several lines for a part of the cell.
      else if (cells.at(-1) === 'unclosed') expect(expected).toEqual(
        expect.arrayContaining(cells.slice(0, -1)))
      else expect(cells).toEqual(expected)
    }), { numRuns: 3_000 })
  })

  it('counts blank lines in steps, and the lines of each record', () => {
    expect(scan('\n\r\n\n\n\na\n\n"b\n\nc"\n"')).toEqual([
      { kind: 'blank', lines: 3, line: 3 }, { kind: 'blank', lines: 2, line: 5 },
      { kind: 'cells', cells: ['a'], end: 7, line: 6 }, { kind: 'blank', lines: 1, line: 7 },
      { kind: 'cells', cells: ['b\n\nc'], end: 15, line: 10 }, { kind: 'unclosed', line: 11 },
    ])
  })

  it.each<[what: string, text: (bytes: number) => string]>([
    ['of one cell', bytes => 'x'.repeat(bytes)],
    ['of many cells', bytes => `${'x,'.repeat(bytes / 2)}${'x'.repeat(bytes % 2)}`],
    ['of a quoted cell', bytes => `"${'x'.repeat(bytes - 2)}"`],
    ['of a cell with a quote in it', bytes => `"a"${'x'.repeat(bytes - 3)}`],
    ['of commas', bytes => ','.repeat(bytes)],
  ])('ends at a record beyond the limit: %s', (_what, text) => {
    for (const end of ['', '\n', '\r\n']) {
      const kinds = (bytes: number) => scan(`${text(bytes)}${end}`).map(({ kind }) => kind)
      expect([kinds(999), kinds(1_000)]).toEqual([['cells'], ['cells']])
      expect([kinds(1_001), kinds(3_000)]).toEqual([['long'], ['long']])
    }
    expect(scan(`a\n${text(1_001)}\nb`).at(-1)).toEqual({ kind: 'long', line: 2 })
  })
})
