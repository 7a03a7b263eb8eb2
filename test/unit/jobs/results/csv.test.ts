import { parse } from 'csv-parse/sync'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { guardCell } from '../../../../schemas/files/csv-format.ts'
import { csvLine } from '../../../../services/jobs/results/csv.ts'

describe('csvLine', () => {
  it('ends by CRLF and quotes only what needs it', () => {
    const lines = [['row', 'input'], ['1', 'a"b'], ['2', 'a,b'], ['3', ' a\tb '], ['4', '']]
    expect(lines.map(cells => csvLine(cells)).join(''))
      .toBe('row,input\r\n1,"a""b"\r\n2,"a,b"\r\n3, a\tb \r\n4,\r\n')
  })

  it('writes no byte order mark', () => {
    expect(Buffer.from(csvLine(['row'])).toString('hex')).toBe('726f770d0a')
  })

  it('is read back by another parser, whatever the cells hold', () => {
    const cell = fc.oneof(
      fc.string({ unit: 'grapheme' }),
      fc.string({ unit: fc.constantFrom('"', ',', '\r', '\n', "'", ' ', '=', '\t', '\0', 'é') })
    )
    const row = fc.tuple(fc.constant('x'), cell, cell, fc.constant('y'))
    const rows = fc.array(row, { minLength: 1 })
    fc.assert(fc.property(rows, (cells) => {
      const text = cells.map(one => csvLine(one)).join('')
      expect(parse(text, { record_delimiter: '\r\n' })).toEqual(cells)
    }))
  })
})

describe('guardCell', () => {
  it.each([
    ['=1+1', "'=1+1"],
    ['+1 212 736 5000', '+1 212 736 5000'],
    ['+cmd|calc', "'+cmd|calc"],
    ['-5', '-5'],
    ['-5;x', "'-5;x"],
    ['@sum(1)', "'@sum(1)"],
    ['\t1', "'\t1"],
    ['\r1', "'\r1"],
    ['plain = text', 'plain = text'],
    ['', ''],
  ])('%j becomes %j', (cell, guarded) => {
    expect(guardCell(cell)).toBe(guarded)
  })
})
