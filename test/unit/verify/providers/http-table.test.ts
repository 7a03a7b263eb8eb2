import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { readTable } from '../../../../services/verify/providers/http-answer.ts'
import { workbookOf } from '../../../support/workbooks.ts'
import { zipOf } from '../../../support/zip.ts'

const rows = [
  { Number: '+41798284651', whatsapp: 'yes' }, { Number: '+41798284652', whatsapp: 'no' },
]
const csv = 'Number,whatsapp\n+41798284651,yes\n"+41798284652", no \n'
const sheet = (cells: string) => workbookOf({
  sheets: ['Results', 'Help'],
  rows: cells,
  strings: '<si><t>Number</t></si><si><r><t>whats</t></r>' +
    '<r><t xml:space="preserve">app</t></r></si><si><t>a &amp; &lt;b&gt;</t></si>',
})
const excel = sheet('<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="s"><v>1</v></c></row>' +
  '<row r="2"><c r="A2" t="inlineStr"><is><t>+41798284651</t></is></c>' +
  '<c r="B2" t="str"><v>yes</v></c></row>' +
  '<row r="3"><c r="A3"><v>4.1798284652E10</v></c>' +
  '<c r="B3" t="inlineStr"><is><t>no</t></is></c></row>')

const withHead = (xml: string) => sheet(`<row><c t="s"><v>0</v></c></row>${xml}`)
const oneCell = (column: string) => `<row><c r="${column}1"><v>1</v></c></row>`

/** Text that hardly compresses. */
const noise = (length: number) => randomBytes(length).toString('hex').slice(0, length)

const signal = new AbortController().signal
const read = (bytes: Buffer, maxRows = 10, names = ['Number', 'whatsapp']) =>
  readTable(bytes, { columns: new Set(names), maxRows, signal })

describe('the table of a vendor', () => {
  it.each([
    ['CSV', Buffer.from(csv)],
    ['CSV with a byte order mark and CRLF', Buffer.from(`\ufeff${csv.replaceAll('\n', '\r\n')}`)],
    ['an archive with CSV', zipOf({ 'out/results.csv': csv })],
    ['an archive with text', zipOf({ 'readme.md': '#', 'results.TXT': csv })],
  ])('is read from %s', async (_kind, bytes) => {
    expect(await read(bytes)).toEqual(rows)
  })

  it.each([
    ['a workbook', excel], ['a workbook in an archive', zipOf({ 'out/results.xlsx': excel })],
  ])('is read from %s, with numbers as their digits', async (_kind, bytes) => {
    const [first, second] = rows
    expect(await read(bytes)).toEqual([first, { ...second, Number: '41798284652' }])
  })

  it('has only the columns that are asked for, and of two with a name the last one', async () => {
    const bytes = Buffer.from('other,whatsapp,Number,whatsapp\n1,no,+41,yes\n2\n')
    expect(await read(bytes)).toEqual([
      { Number: '+41', whatsapp: 'yes' }, { Number: '', whatsapp: '' },
    ])
    expect(await read(bytes, 10, ['absent'])).toEqual([{}, {}])
  })

  it('has the text of cells without its encoding, and blanks for those that are missing',
    async () => {
      const cells = '<row><c r="C1" t="inlineStr"><is><t>x</t></is></c></row><row/>' +
        '<row><c r="C2" t="s"><v>2</v></c></row><row><c r="A3"><v>1</v></c></row>'
      expect(await read(sheet(cells), 10, ['x'])).toEqual([{ x: 'a & <b>' }, { x: '' }])
    })

  it.each([
    ['an archive without a table', zipOf({ 'a.pdf': 'x' })],
    ['half an archive', zipOf({ 'results.csv': csv }).subarray(0, 60)],
    ['an archive whose directory points nowhere', (() => {
      const bytes = zipOf({ 'results.csv': csv })
      bytes.writeUInt32LE(0xffff_fff0, bytes.length - 6)
      return bytes
    })()],
    ['more than fits', zipOf({ 'results.csv': 'x'.repeat(17 * 1_024 * 1_024) })],
    ['nothing', Buffer.alloc(0)],
    ['an unclosed quote', Buffer.from('Number,whatsapp\n"+1,yes')],
    ['more rows than may be', Buffer.from(`${csv}1,yes\n`.repeat(4))],
    ['blank lines', Buffer.from(`${csv}${'\n'.repeat(10)}`)],
    ['a line of 1,025 columns', Buffer.from(csv + ','.repeat(1_024))],
    ['a line of 256 kB', Buffer.from(csv + 'x'.repeat(262_145))],
    ['1,000 files', zipOf(Object.fromEntries(Array.from({ length: 1_000 },
      (_, index) => [`${index}.csv`, csv])))],
    ['an archive three deep', zipOf({ 'a.xlsx': zipOf({ 'b.xlsx': excel }) })],
    ['a file that inflates to more than its directory says', (() => {
      const bytes = zipOf({ 'results.csv': csv.repeat(3) })
      bytes.writeUInt32LE(csv.length, bytes.indexOf('PK\x01\x02', 'latin1') + 24)
      return bytes
    })()],
    ['far more than its bytes, in a small archive', zipOf({ 'a.csv': csv + 'x'.repeat(200_000) })],
    ['a sheet with more rows than may be', withHead(oneCell('A').repeat(11))],
    ['a sheet with a cell in column 1,025', withHead(oneCell('AMK'))],
    ['a damaged sheet', withHead('<row><c></row></c>')],
    ['a sheet that inflates to more than its rows may', withHead(
      `<!--${noise(300_000)}-->`)],
  ])('is not read from %s', async (_kind, bytes) => {
    expect(await read(bytes)).toBeUndefined()
  })

  it('rejects with the reason of the signal that ends it', async () => {
    const ended = { columns: new Set(['Number']), maxRows: 10, signal: AbortSignal.abort('over') }
    await expect(readTable(Buffer.from(csv), ended)).rejects.toBe('over')
    await expect(readTable(excel, ended)).rejects.toBe('over')
  })
})
