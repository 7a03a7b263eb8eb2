import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { WORKBOOK_TYPE } from '../../../../schemas/api/file.ts'
import { parseUpload } from '../../../support/parse-upload.ts'
import { rowOf, workbookOf } from '../../../support/workbooks.ts'
import { errorOf, field, fileSender } from './support.ts'

const LIST = workbookOf({
  sheets: ['List', 'Other'],
  rows: rowOf(2, 'name', 'phone') + rowOf(3, 'A, &quot;B&quot;', '+49 30 901820') +
    '<row r="5"><c r="B5"><v>4.930901821E10</v></c></row>',
})
const QUERY = 'service=phone-validation'
const EXPECTED = {
  inputs: ['+49 30 901820', '', '49309018210'],
  columns: ['name', 'phone'],
  references: ['"A, ""B""",+49 30 901820', '', ',49309018210'],
}

describe('a job from a workbook', () => {
  it('has the rows that its sheet would have as CSV, blank ones included', async () => {
    const { send, calls } = fileSender()
    const query = `${QUERY}&column=phone`
    expect((await send(WORKBOOK_TYPE, LIST, { query })).statusCode).toBe(202)
    expect((await send('text/csv', LIST, { query })).statusCode).toBe(202)
    const headers = { 'content-encoding': 'gzip' }
    expect((await send(WORKBOOK_TYPE, gzipSync(LIST), { query, headers })).statusCode).toBe(202)
    expect(calls.submissions).toMatchObject([EXPECTED, EXPECTED, EXPECTED])
  })

  it('may be a part of a form, and quoted', async () => {
    const { send, calls } = fileSender()
    const part = 'Content-Disposition: form-data; name="file"; filename="a.xlsx"\r\n\r\n'
    const body = Buffer.concat([
      ...[field('service', 'phone-validation'), field('column', '2'), field('sheet', '1')]
        .map(text => Buffer.from(`--b\r\n${text}\r\n`)),
      Buffer.from(`--b\r\n${part}`), LIST, Buffer.from('\r\n--b--\r\n'),
    ])
    const type = 'multipart/form-data; boundary=b'
    expect((await send(type, body)).statusCode).toBe(202)
    expect((await send(type, body, { path: 'quotes' })).statusCode).toBe(200)
    expect(calls.submissions[0]).toMatchObject(EXPECTED)
  })

  it.each<[string, string, Buffer, readonly unknown[], RegExp]>([
    ['no sheet of that name', 'sheet=Z', LIST, ['invalid_file', 'file'], /List, Other/],
    ['a delimiter', 'delimiter=comma', LIST, ['invalid_request', 'delimiter'], /is a workbook/],
    ['a sheet of text', 'sheet=List', Buffer.from('a,b\n1,2'), ['invalid_request', 'sheet'],
      /text/],
    ['no column', '', LIST, ['invalid_request', 'column'], /The columns are: name, phone\./],
    ['an empty sheet', 'sheet=Other', LIST, ['invalid_file', 'file'], /empty/],
    ['too wide a row', 'column=1', workbookOf({ rows: rowOf(1, 'a') + rowOf(3, 'b', 'c') }),
      ['invalid_file', 'file'], /Row 3 of the sheet has 2 cells, .* Name every column/],
    ['too many columns', 'column=1', workbookOf({ rows: '<row><c r="AAA1"><v>1</v></c></row>' }),
      ['invalid_file', 'file'], /Row 1 of the sheet has 703 columns/],
    ['a row at the end of the sheet', 'column=1', workbookOf({
      rows: rowOf(1, 'a') + rowOf(1_048_576, 'b'),
    }), ['too_many_inputs', 'file'], /more than 100,000 rows/],
    ['too long a row', 'column=1', workbookOf({
      rows: rowOf(7, 'x'.repeat(30_000), 'y'.repeat(30_000), 'z'.repeat(30_000)),
    }), ['invalid_file', 'file'], /Row 7 of the sheet has more than 65,536 bytes/],
    ['a damaged workbook', '', LIST.subarray(0, 500), ['invalid_file', 'file'], /damaged/],
  ])('is rejected for %s', async (_what, query, body, error, why) => {
    const answer = await fileSender().send(WORKBOOK_TYPE, body, { query: `${QUERY}&${query}` })
    expect(errorOf(answer)).toEqual([400, ...error])
    expect(answer.json().error['message']).toMatch(why)
  })

  it('is read only if there is memory for its texts and its sheet', async () => {
    const asked: number[] = []
    const growMemory = (bytes: number) => {
      asked.push(bytes)
      return false
    }
    await expect(parseUpload(
      WORKBOOK_TYPE, LIST, { query: 'column=1', takesFile: 'contacts', growMemory }
    )).rejects.toMatchObject({ fault: { code: 'temporarily_unavailable' } })
    expect(asked[0]).toBeGreaterThan(LIST.length + 300)
  })
})
