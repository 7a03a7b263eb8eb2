import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { guardCell } from '../../../../schemas/files/csv-format.ts'
import { csvLine, CsvWriter } from '../../../../services/jobs/results/csv.ts'
import { unicodeText } from '../../../support/texts.ts'

/** Lines of these cells, from a writer with this initial capacity. */
function written (rows: readonly (readonly string[])[], safe: boolean, sizeBytes = 0): Buffer {
  const writer = new CsvWriter({ safe, sizeBytes })
  for (const cells of rows) {
    for (const [at, cell] of cells.entries()) {
      if (at > 0) writer.comma()
      writer.cell(cell)
    }
    writer.endLine()
  }
  return writer.bytes()
}

const units = '",\r\n=+-@\t\'0a é漢😀\ud800\udc00\0\u007f\u0080'.split('')
const cell = fc.oneof(unicodeText(), fc.string({ unit: fc.constantFrom(...units) }))

describe('a piece of CSV', () => {
  it('has the bytes of the lines, whatever the cells contain and for any initial capacity', () => {
    const rows = fc.array(fc.array(cell, { minLength: 1 }))
    fc.assert(fc.property(rows, fc.boolean(), fc.nat(200), (lines, safe, sizeBytes) => {
      const expected = lines.map(cells => csvLine(safe ? cells.map(guardCell) : cells)).join('')
      expect(written(lines, safe, sizeBytes).equals(Buffer.from(expected))).toBe(true)
    }))
  })

  it('guards a cell before it is quoted', () => {
    expect(String(written([['1', '=a,b', '+1 212', '@x']], true)))
      .toBe('1,"\'=a,b",+1 212,\'@x\r\n')
  })

  it('takes cells that were written before as they are', () => {
    const writer = new CsvWriter({ safe: true, sizeBytes: 0 })
    for (let at = 0; at < 3; at++) writer.cells(Buffer.from('"a,b",=c'))
    writer.endLine()
    expect(String(writer.bytes())).toBe('"a,b",=c"a,b",=c"a,b",=c\r\n')
  })
})
