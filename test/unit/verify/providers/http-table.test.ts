import { describe, expect, it } from 'vitest'
import { readTable } from '../../../../services/verify/providers/http-config.ts'
import { zipOf } from '../../../support/zip.ts'

const rows = [
  { Number: '+41798284651', whatsapp: 'yes' }, { Number: '+41798284652', whatsapp: 'no' },
]
const csv = 'Number,whatsapp\n+41798284651,yes\n"+41798284652", no \n'
const sheet = (cells: string) => ({
  '[Content_Types].xml': '<Types/>',
  'xl/workbook.xml': '<workbook/>',
  'xl/sharedStrings.xml': '<sst count="2"><si><t>Number</t></si><si><r><t>whats</t></r>' +
    '<r><t xml:space="preserve">app</t></r></si><si><t>a &amp; &lt;b&gt;</t></si></sst>',
  'xl/worksheets/sheet1.xml': `<worksheet><cols><col min="1"/></cols><sheetData>${cells}` +
    '</sheetData></worksheet>',
  'xl/worksheets/sheet2.xml': '<worksheet/>',
})
const excel = sheet('<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="s"><v>1</v></c></row>' +
  '<row r="2"><c r="A2" t="inlineStr"><is><t>+41798284651</t></is></c>' +
  '<c r="B2" t="str"><v>yes</v></c></row>' +
  '<row r="3"><c r="A3"><v>+41798284652</v></c>' +
  '<c r="B3" t="inlineStr"><is><t>no</t></is></c></row>')

describe('the table of a vendor', () => {
  it.each([
    ['CSV', Buffer.from(csv)],
    ['CSV with a byte order mark and CRLF', Buffer.from(`\ufeff${csv.replaceAll('\n', '\r\n')}`)],
    ['an archive with CSV', zipOf({ 'out/results.csv': csv })],
    ['an archive with text', zipOf({ 'readme.md': '#', 'results.TXT': csv })],
    ['an Excel file', zipOf(excel)],
  ])('is read from %s', (_kind, bytes) => {
    expect(readTable(bytes)).toEqual(rows)
  })

  it('has the text of cells without its encoding, and blanks for those that are missing', () => {
    const cells = '<row><c r="C1" t="inlineStr"><is><t>x</t></is></c></row>' +
      '<row><c r="C2" t="s"><v>2</v></c></row><row/>'
    expect(readTable(zipOf(sheet(cells))))
      .toEqual([{ '': '', x: 'a & <b>' }, { '': '', x: '' }])
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
  ])('is not read from %s', (_kind, bytes) => {
    expect(readTable(bytes)).toBeUndefined()
  })
})
