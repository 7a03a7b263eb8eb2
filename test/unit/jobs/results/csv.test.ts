import { parse } from 'csv-parse/sync'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { guardCell } from '../../../../schemas/files/csv-format.ts'
import { csvLine, resultDisposition } from '../../../../services/jobs/results/csv.ts'
import { unicodeText } from '../../../support/texts.ts'

const units = '",;|\r\n=+-@\t\'0a é漢😀\ud800\udc00\0\u007f\u0080'.split('')
const delimiters = fc.constantFrom(',', ';', '\t', '|')
const cell = fc.oneof(unicodeText(), fc.string({ unit: fc.constantFrom(...units) }))

describe('CSV', () => {
  it('quotes only what needs it, ends lines by CRLF and has no byte order mark', () => {
    const lines = [['row', 'input'], ['1', 'a"b'], ['2', 'a,b'], ['3', ' a\tb '], ['4', '']]
    expect(lines.map(cells => csvLine(cells)).join(''))
      .toBe('row,input\r\n1,"a""b"\r\n2,"a,b"\r\n3, a\tb \r\n4,\r\n')
  })

  it('is read back by another parser, whatever the cells hold', () => {
    const wellFormed = cell.map(text => text.toWellFormed())
    const row = fc.tuple(fc.constant('x'), wellFormed, wellFormed, fc.constant('y'))
    fc.assert(fc.property(fc.array(row, { minLength: 1 }), delimiters, (rows, delimiter) => {
      const text = rows.map(cells => csvLine(cells, delimiter)).join('')
      expect(parse(text, { delimiter, record_delimiter: '\r\n' })).toEqual(rows)
    }))
  })

  it('of one column keeps its rows for readers that skip blank lines', () => {
    const rows = [['carrier'], [''], ['a'], ['']]
    const text = rows.map(cells => csvLine(cells)).join('')
    expect(parse(text, { skip_empty_lines: true })).toEqual(rows)
  })
})

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
])('a guarded cell %j becomes %j', (text, guarded) => {
  expect(guardCell(text)).toBe(guarded)
})

const of = (upload?: string) => resultDisposition('job_1', { upload, end: '.csv' })

describe('the name of a result file', () => {
  it.each([
    ['list.csv (1 of 2)', 'list (1 of 2).verified.csv', 'list%20%281%20of%202%29.verified.csv'],
    ['list.csv', 'list.verified.csv', 'list.verified.csv'],
    ['Über uns.xlsx', 'Uber uns.verified.csv', '%C3%9Cber%20uns.verified.csv'],
    ['../../etc/passwd', '_.._etc_passwd.verified.csv', '_.._etc_passwd.verified.csv'],
    ['a";\r\nSet-Cookie: b', 'a_;__Set-Cookie_ b.verified.csv',
      'a_%3B__Set-Cookie_%20b.verified.csv'],
    ["it's (1) 100%.csv", "it's (1) 100_.verified.csv", 'it%27s%20%281%29%20100%25.verified.csv'],
    ['\u202egnp.csv', '_gnp.verified.csv', '_gnp.verified.csv'],
    ['名簿.csv', '__.verified.csv', '%E5%90%8D%E7%B0%BF.verified.csv'],
  ])('is that of the upload %j', (upload, ascii, encoded) => {
    expect(of(upload)).toBe(`attachment; filename="${ascii}"; filename*=UTF-8''${encoded}`)
  })

  it.each([undefined, '', '.csv', ' .. '])('is that of the job for %j', upload => {
    expect(of(upload)).toBe('attachment; filename="job_1.csv"')
  })

  it('has at most 100 characters of the upload, and no half of one', () => {
    expect(of('😀'.repeat(200))).toContain(`''${'%F0%9F%98%80'.repeat(100)}.verified.csv`)
  })
})
