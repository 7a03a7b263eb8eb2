import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { describe, expect, it } from 'vitest'
import { checkReadable } from '../../../schemas/files/csv-format.ts'
import { readWorkbook, type SheetRow } from '../../../schemas/files/workbook.ts'
import { rowOf, workbookOf } from '../../support/workbooks.ts'
import { zipOf } from '../../support/zip.ts'

const MIB = 1_024 * 1_024
const realFile = (name: string) =>
  readFileSync(join(import.meta.dirname, '../../support/data/workbooks', name))

async function read (bytes: Buffer, sheet?: string, maxInflatedBytes = 64 * MIB) {
  const rows: SheetRow[] = []
  const pause = async () => {}
  const facts = await readWorkbook(bytes, { sheet, maxInflatedBytes, pause }, row => rows.push(row))
  return { rows, ...facts }
}

const cellsOf = async (parts: Parameters<typeof workbookOf>[0]) =>
  (await read(workbookOf(parts))).rows.map(({ cells }) => cells)

/** The text of a number with a format of its own. */
async function shown (value: string, pattern: string, properties = ''): Promise<string> {
  const [[text = ''] = []] = await cellsOf({
    rows: `<row r="1"><c r="A1" s="1"><v>${value}</v></c></row>`,
    formats: `<numFmt numFmtId="170" formatCode="${pattern}"/>`,
    styles: [0, 170],
    properties,
  })
  return text
}

/** The parts of a workbook with so many formats, of long texts, from a number on. */
function withFormats (from: number, count: number) {
  const ids = Array.from({ length: count }, (_, at) => 200 + at)
  const formats = ids.map((id, at) => `<numFmt numFmtId="${id}" formatCode="&quot;${from + at}` +
    `&quot;${'\\a'.repeat(100)}0"/>`)
  return { formats: formats.join(''), styles: ids, rows: '<row><c s="0"><v>1</v></c></row>' }
}

it('the formats of workbooks do not stay in memory', async () => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const heapMb = () => {
    collect()
    return process.memoryUsage().heapUsed / MIB
  }
  await read(workbookOf(withFormats(0, 900)))
  const before = heapMb()
  for (let file = 1; file < 9; file++) await read(workbookOf(withFormats(file * 900, 900)))
  expect(heapMb() - before).toBeLessThan(25)
})

describe('a workbook', () => {
  it('of openpyxl has the cells of its first visible sheet as a person sees them', async () => {
    expect(await read(realFile('openpyxl.xlsx'))).toEqual({
      sheet: 'Kunden 2026',
      sheets: ['Hidden', 'Kunden 2026', 'Other'],
      rows: [
        { row: 1, cells: ['Name', 'Telefon', 'Seit', 'Betrag'] },
        { row: 2, cells: ['Müller & Söhne', '491701234567', '2026-03-14', '1,234.50'] },
        { row: 3, cells: ['Ann', '+4917012345', '2026-03-14 13:30:00', '25%'] },
        { row: 5, cells: ['Bob', '(212) 736-5000', 'TRUE'] },
        { row: 6, cells: ['  spaces ', '0170 1234567'] },
        { row: 7, cells: ['', '01701234567'] },
      ],
    })
  })

  it('of XlsxWriter has the values of formulas, and digits for powers of ten', async () => {
    expect((await read(realFile('xlsxwriter.xlsx'))).rows.map(({ cells }) => cells)).toEqual([
      ['name', 'phone', 'date', 'note'],
      ['Ann', '491701234567', '2026-01-31', 'Ann!'],
      ['Bob', '491701234568', '44000.5', 'line 1\nline "2", _x0041_'],
      ['Cy', '491701234569', 'FALSE', '#DIV/0!'],
    ])
  })

  it('has the sheet that is named in any case, or by its number', async () => {
    const file = realFile('openpyxl.xlsx')
    const other = [{ row: 1, cells: ['phone'] }, { row: 2, cells: ['+12127365000'] }]
    for (const name of ['Other', ' other ', '3']) {
      expect((await read(file, name)).rows).toEqual(other)
    }
    expect((await read(file, 'hidden')).rows).toEqual([{ row: 1, cells: ['no'] }])
  })

  it.each(['4', '0', 'Kunden', '', 'constructor'])('has no sheet %j', async name => {
    await expect(read(realFile('openpyxl.xlsx'), name)).rejects
      .toThrow(/no sheet ".*"\. Send the name or the number of one: Hidden, Kunden 2026, Other\./)
  })

  it.each<[string, string, readonly string[]]>([
    ['shared texts in runs, without phonetic hints', '<row r="1"><c t="s"><v>0</v></c></row>',
      ['+12127']],
    ['a text of its own in runs, without phonetic hints', '<row r="1"><c t="inlineStr"><is>' +
      '<r><t>+1</t></r><r><t>2127</t></r><rPh sb="0" eb="1"><t>&#12450;</t></rPh></is></c></row>',
    ['+12127']],
    ['a shared text twice', '<row><c t="s"><v>1</v></c><c t="s"><v>1</v></c></row>', ['a', 'a']],
    ['escaped characters', rowOf(1, 'a_x0009_b_x005F_x0041_'), ['a\tb_x0041_']],
    ['entities and CDATA', rowOf(1, '&amp;&#43;<![CDATA[<b>]]>'), ['&+<b>']],
    ['cells at their place', '<row r="1"><c r="C1"><v>7</v></c></row>', ['', '', '7']],
    ['a formula without a value', '<row r="1"><c r="A1"><f>NOW()</f></c><c><v>1</v></c></row>',
      ['', '1']],
    ['dates as text', '<row r="1"><c t="d"><v>2026-01-31T00:00:00</v></c></row>', ['2026-01-31']],
    ['numbers that are none', '<row r="1"><c><v>abc</v></c></row>', ['abc']],
    ['prefixes', '<x:row r="1"><x:c><x:v>5</x:v></x:c></x:row>', ['5']],
  ])('has %s', async (_what, rows, cells) => {
    const strings = '<si><r><t>+1</t></r><r><t>2127</t></r><rPh><t>x</t></rPh></si>' +
      '<si><t>a</t></si>'
    expect(await cellsOf({ rows, strings })).toEqual([cells])
  })

  it.each([
    ['491701234567.0', 'General', '491701234567'],
    ['4.91701234567E11', 'General', '491701234567'],
    ['4.91701234567E+11', '@', '491701234567'],
    ['491701234567', '0.00E+00', '491701234567'],
    ['491701234567', '#,##0.00', '491701234567'],
    ['491701234567', '_-* #,##0_-', '491701234567'],
    ['1701234567', '00000000000', '01701234567'],
    ['491701234567', '&quot;+&quot;0', '+491701234567'],
    ['2127365000', '(000) 000-0000', '(212) 736-5000'],
    ['1234.5', '#,##0.00', '1,234.50'],
    ['0.30000000000000004', 'General', '0.3'],
    ['1E-7', 'General', '0.0000001'],
    ['-12.50', 'General', '-12.5'],
    ['1.23456789012345E+19', 'General', '12345678901234500000'],
    ['46095', 'yyyy-mm-dd', '2026-03-14'],
    ['46095', 'd. mmmm yyyy', '14. March 2026'],
    ['-5', '0;[Red]0', '5'],
    ['5', 'a broken &quot; format', '5'],
    ['5', '0'.repeat(300), '5'],
  ])('shows %s as %s: %s', async (value, pattern, text) => {
    expect(await shown(value, pattern)).toBe(text)
  })

  it('counts days from 1904 if it says so', async () => {
    expect(await shown('44633', 'yyyy-mm-dd', '<workbookPr date1904="1"/>')).toBe('2026-03-14')
    expect(await shown('44633', '0', '<workbookPr date1904="1"/>')).toBe('44633')
  })
})

const MANY = 'x'.repeat(33_000)

describe('a file that is no workbook within the limits', () => {
  it.each<[string, Buffer, RegExp]>([
    ['.ods', realFile('open.ods'), /OpenDocument \(\.ods\)\. Open it/],
    ['.xlsb', zipOf({ 'xl/workbook.bin': 'x' }), /\(\.xlsb\)\. Open it/],
    ['.docx', zipOf({ 'word/document.xml': 'x' }), /text document/],
    ['.pptx', zipOf({ 'ppt/presentation.xml': 'x' }), /presentation/],
    ['.numbers', zipOf({ 'Index/Document.iwa': 'x' }), /Numbers/],
    ['an archive', zipOf({ 'list.csv': 'phone' }), /ZIP archive\. Unpack it/],
    ['half of one', realFile('openpyxl.xlsx').subarray(0, 3_000), /damaged/],
    ['four bytes', Buffer.from('PK\x03\x04'), /damaged/],
    ['no sheet', workbookOf({ sheets: [] }), /no sheet with cells/],
    ['XML that ends early', workbookOf({ rows: '<row><c>' }), /damaged/],
    ['a document type', workbookOf({
      more: { 'xl/worksheets/s0.xml': '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>' },
    }), /damaged/],
    ['a foreign entity', workbookOf({ rows: rowOf(1, '&b;') }), /damaged/],
    ['a missing shared text', workbookOf({ rows: '<row><c t="s"><v>9</v></c></row>' }), /damaged/],
    ['rows twice', workbookOf({ rows: rowOf(2, 'a') + rowOf(2, 'b') }), /damaged/],
    ['row 1,048,577', workbookOf({ rows: rowOf(1_048_577, 'a') }), /damaged/],
    ['column 16,385', workbookOf({ rows: '<row><c r="XFE1"><v>1</v></c></row>' }), /damaged/],
    ['deep elements', workbookOf({ rows: '<a>'.repeat(40) + '</a>'.repeat(40) }), /damaged/],
    ['many attributes', workbookOf({
      rows: `<row ${Array.from({ length: 70 }, (_, at) => `a${at}="1"`).join(' ')}/>`,
    }), /damaged/],
    ['2,001 sheets', workbookOf({
      more: { 'xl/workbook.xml': `<workbook>${'<sheet r:id="rId1"/>'.repeat(2_001)}</workbook>` },
    }), /too large: it has more than 2,000 sheets/],
    ['a long list of sheets', workbookOf({
      more: { 'xl/workbook.xml': `<workbook>${' '.repeat(2 * MIB)}</workbook>` },
    }), /too large: its list of sheets is/],
    ['long styles', workbookOf({
      more: { 'xl/styles.xml': `<styleSheet>${' '.repeat(16 * MIB)}</styleSheet>` },
    }), /too large: its styles are/],
    ['1,001 formats', workbookOf(withFormats(0, 1_001)), /more than 1,000 number formats/],
    ['a long cell', workbookOf({ rows: rowOf(1, MANY) }), /too large: a cell has more than 32,767/],
    ['a bomb', workbookOf({ rows: `<!-- ${'\n'.repeat(40 * MIB)} -->` }), /too large: it inflates/],
    ['a bomb of shared texts', workbookOf({ strings: '<si><t>a</t></si>'.repeat(2_000_001) }),
      /too large: it inflates/],
    ['thousands of parts', zipOf(Object.fromEntries(Array.from({ length: 2_001 }, (_, at) =>
      [`xl/${at}`, '']))), /too large: it has more than 2,000 parts/],
  ])('is named: %s', async (_what, bytes, why) => {
    await expect(read(bytes)).rejects.toThrow(expect.objectContaining({
      name: 'Error', code: 'invalid_file', message: expect.stringMatching(why) as string,
    }))
  })

  it.each([
    ['old.xls', /old Excel workbook \(\.xls\)\. Open it in a spreadsheet/],
    ['password.xlsx', /a workbook with a password\. Save it without one\./],
  ])('is named before it is read: %s', (name, why) => {
    expect(() => checkReadable(realFile(name))).toThrow(why)
  })

  it('is refused at the bytes that it may inflate to', async () => {
    const file = workbookOf({ rows: rowOf(1, 'a'), more: { 'xl/media/a.png': MANY } })
    expect((await read(file, undefined, 4_096)).rows).toHaveLength(1)
    await expect(read(file, undefined, 512)).rejects.toThrow(/too large/)
  })

  it('fails where it inflates to more than its directory says', async () => {
    const file = Buffer.from(workbookOf({ rows: rowOf(1, MANY) }))
    const entry = file.lastIndexOf('xl/worksheets/s0.xml')
    file.writeUInt32LE(10, entry - 46 + 24)
    await expect(read(file)).rejects.toThrow(/damaged/)
  })

  it('ends with what its reader throws', async () => {
    const fault = new Error('enough')
    const reading = readWorkbook(workbookOf({ rows: rowOf(1, 'a') }), {
      maxInflatedBytes: MIB, pause: async () => {},
    }, () => { throw fault })
    await expect(reading).rejects.toBe(fault)
  })
})
