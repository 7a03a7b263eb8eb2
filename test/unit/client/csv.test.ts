import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { parse } from 'csv-parse/sync'
import fc from 'fast-check'
import { afterAll, describe, expect, it } from 'vitest'
import {
  csvCell, decodeCell, detectDialect, encodeCell, readRecords,
} from '../../../services/client/csv.ts'
import { openInput } from '../../../services/client/files.ts'
import { createLines, headerLine } from '../../../services/client/join-results.ts'
import {
  decodeContact, planJobs, readContacts, readFacts, readHead,
} from '../../../services/client/plan.ts'
import { csvCell as serviceCell } from '../../../services/jobs/results/csv.ts'
import { newFolder } from '../../support/folder.ts'

const folder = newFolder('csv-')
afterAll(() => rmSync(folder, { recursive: true }))
const path = join(folder, 'a.csv')
writeFileSync(path, '')
/** Stays the same file: tests write to it. */
const file = openInput(path)

async function recordsOf (bytes: Buffer | string) {
  writeFileSync(path, bytes)
  const { dialect, bytes: to } = await readFacts(file)
  const records = []
  for await (const one of readRecords(file, dialect, { from: dialect.startByte, to })) {
    records.push(one)
  }
  return records
}

const anyText = fc.string({ unit: fc.constantFrom(...'ab1 ,;\t"\r\n=+-@ü€') })

describe('a CSV cell', () => {
  it('is formatted as the service does it', () => {
    fc.assert(fc.property(anyText, text => {
      expect(csvCell(text)).toBe(serviceCell(text))
    }))
  })

  it('is quoted when it contains the delimiter', () => {
    expect([';', '\t', '|', ']', '^', '-'].map(delimiter => csvCell(`a${delimiter}b`, delimiter)))
      .toEqual(['"a;b"', '"a\tb"', '"a|b"', '"a]b"', '"a^b"', '"a-b"'])
    expect(csvCell('a,b', ';')).toBe('a,b')
  })

  it('is decoded and encoded in UTF-8 and Windows-1252', () => {
    const utf8 = Buffer.from('ü€').toString('latin1')
    expect([decodeCell(utf8, 'utf-8'), encodeCell('ü€', 'utf-8')]).toEqual(['ü€', utf8])
    expect(decodeCell('\xfc\x80', 'windows-1252')).toBe('ü€')
    expect(encodeCell('ü€ł', 'windows-1252')).toBe('\xfc\x80?')
  })
})

describe('a CSV dialect', () => {
  it.each<[string, string]>([
    ['a,b\n1,2\n', ','],
    ['a;b\n"1,5";2,5\n', ';'],
    ['a\tb, c\td\n1\t2\t3\n', '\t'],
    ['a|b\n1|2', '|'],
    ['"a,b";c\n1;2\n', ';'],
    ['a\n1\n', ','],
    ['', ','],
    ['Nachname, Vorname;Telefon\nDoe, Jane;030 901820\n', ';'],
    ['Nachname, Vorname, Titel;Telefon\nDoe, Jane, Dr.;030 901820\n', ';'],
    ['Nachname, Vorname;Telefon;Notiz\nDoe, Jane;030 901820\nRoe, Max;030 901821;x\n', ';'],
    ['Nachname,Vorname;Telefon;Notiz\nDoe,Jane;030 901820\nRoe,Max;030 901821;x\n', ';'],
    ['Nachname,Vorname|Telefon\r\nDoe,Jane|030 901820\r\n', '|'],
    ['Preis, netto\tTelefon\r1,5\t030 901820\r', '\t'],
    ['name,emails\nAnn,a@b.org;c@d.org\nBob,e@f.org;g@h.org\n', ','],
    ['id,name,phone (home; work)\n1,Ann,030 901820\n2,Bob,030 901821\n', ','],
    ['13";030\n15";031\n', ';'],
    ['"5"" pipe, long";phone\n"6"" pipe, long";030\n', ';'],
    ['name,phone\nAnn,1\nSmith, Bob,2\n', ','],
    ['Adresse\nWeg 1, 10115 Berlin, DE\nWeg 2, 10117 Berlin\n', ';'],
    ['Adresse, voll\nWeg 1, 10115 Berlin, DE\nWeg 2, 10117 Berlin, Mitte, DE\n', ';'],
    ['Adresse, voll\nWeg 1, 10115 Berlin, DE\nWeg 2, 10117 Berlin, DE\n', ';'],
    ['id,phone\n1,030 901820,x\n2,030 901821,y\n', ','],
    ['sep=;\r\na,b;c\r\n', ';'],
    ['"sep=\t"\na,b\tc\n', '\t'],
    ['SEP=|\ra;b|c\r', '|'],
    ['sep=,,,\na;b\n', ','],
  ])('of %j is detected', (text, delimiter) => {
    expect(detectDialect(Buffer.from(text)).delimiter).toBe(delimiter)
  })

  it('includes byte order mark and lone CRs, and binary files are rejected', () => {
    expect(detectDialect(Buffer.from('\ufeffa,b\r1,2\r'))).toEqual({
      delimiter: ',', preamble: '\u00ef\u00bb\u00bf', startByte: 3,
    })
    expect(detectDialect(Buffer.from('a,b\r\n1,2'), ';')).toEqual({
      delimiter: ';', preamble: '', startByte: 0,
    })
    for (const text of ['\ufeffa,b', 'a,b']) {
      expect(() => detectDialect(Buffer.from(text, 'utf16le'))).toThrow('Save it as "CSV UTF-8"')
    }
  })
})

describe('the records of a CSV file', () => {
  it('have cells, text and position', async () => {
    expect(await recordsOf('a,b\r\n"1\r\n",2\n\n3\n4,5,6')).toEqual([
      { cells: ['a', 'b'], text: 'a,b', end: '\r\n', from: 0, to: 5 },
      { cells: ['1\r\n', '2'], text: '"1\r\n",2', end: '\n', from: 5, to: 13 },
      { cells: [''], text: '', end: '\n', from: 13, to: 14 },
      { cells: ['3'], text: '3', end: '\n', from: 14, to: 16 },
      { cells: ['4', '5', '6'], text: '4,5,6', end: '', from: 16, to: 21 },
    ])
    expect((await recordsOf('\ufeffa\rb\r')).map(({ text, end, from }) => [text, end, from]))
      .toEqual([['a', '\r', 3], ['b', '\r', 5]])
  })

  it('are the same wherever the pieces of the file end', async () => {
    const unit = '"a\r\n""b""",13"\r\r\n\r\n\rü,"c"d\n'
    const text = unit.repeat(40_000)
    const cells = (await recordsOf(text)).map(({ cells }) => cells)
    expect(cells.length).toBe(4 * 40_000)
    expect(cells.filter((_, at) => at >= 4).every((it, at) => isDeepStrictEqual(it, cells[at])))
      .toBe(true)
    const long = `"${'x\n'.repeat(1_000_000)}"`
    expect((await recordsOf(`n\n${long}\n1\n`)).map(({ text }) => text)).toEqual(['n', long, '1'])
  })

  it('cannot be read from invalid CSV', async () => {
    await expect(recordsOf('a;b\n"13;1\n"15;2\n17;3')).rejects.toThrow('a cell in line 2 begins')
    await expect(recordsOf(`a\n1\n"${'x\n'.repeat(2_200_000)}`)).rejects.toThrow('line 3 has more')
    await expect(recordsOf('a,b\n1,"2\n3,4\n'))
      .rejects.toThrow(/^Cannot parse \S+ as CSV: a cell in line 2/)
  })
})

describe('the plan of a submitted file', () => {
  it('splits the rows into jobs', async () => {
    const lines = ['1,a', '2,b,x', '', '"4\n",d', '5,e']
    writeFileSync(path, ['id,phone', ...lines].join('\n'))
    const facts = await readFacts(file)
    expect(await readHead(file, facts)).toMatchObject({ header: ['id', 'phone'] })
    const plan = await planJobs(file, facts, { column: 1, rowsPerJob: 2 })
    expect(plan).toMatchObject({ column: 1, width: 3, rows: 5, header: { from: 0, to: 9 } })
    expect(plan.ranges.map(({ firstRow, rows }) => [firstRow, rows]))
      .toEqual([[0, 2], [2, 2], [4, 1]])
    const contacts = await Promise.all(plan.ranges.map(async range =>
      await readContacts(file, facts, { range, column: 1 })))
    expect(contacts).toEqual([['a', 'b'], ['', 'd'], ['e']])
  })

  it('is made after only the first rows of a file were read', async () => {
    writeFileSync(path, `phone\n${'1234567\n'.repeat(30_000)}`)
    const facts = await readFacts(file)
    expect((await readHead(file, facts)).rows.length).toBe(200)
    expect(await planJobs(file, facts, { column: 0 })).toMatchObject({ rows: 30_000 })
  })

  it('keeps requests below the size limit of the service', async () => {
    writeFileSync(path, `phone\n${`${'\u0001'.repeat(1_000)}\n`.repeat(6_000)}`)
    const { ranges } = await planJobs(file, await readFacts(file), { column: 0 })
    // A control character takes six bytes in JSON: 1,000 of them, 6,003 bytes a contact.
    expect(ranges.map(({ rows }) => rows)).toEqual([5_330, 670])
  })

  it('rejects a file without rows', async () => {
    for (const [text, why] of [['', 'is empty'], ['a,b\n', 'has no rows']] as const) {
      writeFileSync(path, text)
      const facts = await readFacts(file)
      const plan = async () => {
        await readHead(file, facts)
        await planJobs(file, facts, { column: 0 })
      }
      await expect(plan()).rejects.toThrow(why)
    }
  })

  it('truncates contacts that are too long', () => {
    expect(decodeContact(`${'x'.repeat(1_023)}\u{1f600}`, 'utf-8')).toHaveLength(1_024)
    expect(decodeContact(Buffer.from(`${'x'.repeat(1_023)}\u{1f600}`).toString('latin1'), 'utf-8'))
      .toBe(`${'x'.repeat(1_023)}\ufffd`)
    expect(decodeContact(undefined, 'utf-8')).toBe('')
  })
})

const resultColumns = ['row', 'input', 'status', 'duplicate_of']

async function joinedFile (guarded = false): Promise<Buffer> {
  const facts = await readFacts(file)
  const plan = await planJobs(file, facts, { column: 0 })
  const layout = { file: facts, plan, columns: ['duplicate_of', 'status'], guarded }
  const lineOf = createLines(layout, { resultColumns, firstRow: 100 })
  let text = ''
  const whole = { from: facts.dialect.startByte, to: facts.bytes }
  for await (const record of readRecords(file, facts.dialect, whole)) {
    const contact = decodeContact(record.cells[0], facts.encoding)
    text += text === ''
      ? headerLine(record, layout.columns, layout)
      : lineOf(record, ['1', contact, 'völlig; "gut"', '7'])
  }
  return Buffer.from(text, 'latin1')
}

describe('the joined file', () => {
  const table = fc.record({
    rows: fc.array(fc.array(anyText, { minLength: 2, maxLength: 4 }), {
      minLength: 2, maxLength: 8,
    }),
    delimiter: fc.constantFrom(',', ';', '\t', '|'),
    end: fc.constantFrom('\r\n', '\n'),
    mark: fc.constantFrom('', '\ufeff'),
    isLastEnded: fc.boolean(),
  })

  it('keeps every cell of any table and appends the results to every line', async () => {
    await fc.assert(fc.asyncProperty(table, async ({ rows, delimiter, end, mark, isLastEnded }) => {
      const all = [['n', 'm', 'o', 'p'], ...rows]
      const quoted = (cell: string) => `"${cell.replaceAll('"', '""')}"`
      const lines = all.map((cells, row) => cells.map(row === 0 ? String : quoted).join(delimiter))
      writeFileSync(path, mark + lines.join(end) + (isLastEnded ? end : ''))
      const output = (await joinedFile()).toString()
      expect(output.startsWith(mark)).toBe(true)
      const [header, ...joined] = parse(output, { delimiter, bom: true })
      expect(header).toEqual(['n', 'm', 'o', 'p', 'duplicate_of', 'status'])
      expect(joined).toEqual(rows.map(cells =>
        [...cells, ...Array(4 - cells.length).fill(''), '107', 'völlig; "gut"']))
      // The lines themselves are unchanged.
      let at = 0
      for (const line of lines) {
        const found = output.indexOf(line, at)
        expect(found).toBeGreaterThanOrEqual(at)
        at = found + line.length
      }
    }), { numRuns: 150 })
  })

  it.each<[what: string, text: string, output: string]>([
    ['sep= first', '\ufeffsep=;\r\nn;m\r\n1;2\r\n',
      '\ufeffsep=;\r\nn;m;duplicate_of;status\r\n1;2;107;$\r\n'],
    ['a quoted sep= first', '"sep=|"\nn|m\n1|2', '"sep=|"\nn|m|duplicate_of|status\n1|2|107|$\n'],
    ['CR of a file without LF', 'n;m\r1;2\r', 'n;m;duplicate_of;status\r1;2;107;$\r'],
    ['no lone CR beside LF', 'n;m\r1;2\r3;4\n', 'n;m;duplicate_of;status\n1;2;107;$\n3;4;107;$\n'],
    ['no CR CR LF', 'sep=;\r\r\nn;m\r\r\n1;2\r\r\n\r\r\n',
      'sep=;\r\nn;m;duplicate_of;status\r\n1;2;107;$\r\n;;107;$\r\n'],
    ['inch marks', 'n;m\n13";2\n', 'n;m;duplicate_of;status\n13";2;107;$\n'],
  ])('has %s', async (_what, text, output) => {
    writeFileSync(path, text)
    const joined = (await joinedFile()).toString()
    expect(joined.replaceAll(/"völlig; ""gut"""|völlig; "gut"/g, '$'))
      .toBe(output.replaceAll('"$"', '$').replaceAll('$$', '$'))
  })

  it('keeps the bytes of a file that is not UTF-8', async () => {
    writeFileSync(path, Buffer.from('n;m\nM\xfcller;\x80\n', 'latin1'))
    expect((await joinedFile()).toString('latin1'))
      .toBe('n;m;duplicate_of;status\nM\xfcller;\x80;107;"v\xf6llig; ""gut"""\n')
  })

  it('escapes the cells of the input too, on request', async () => {
    writeFileSync(path, 'n,m\n=1,"+a,b"\n+1 2,ü\n')
    expect(parse(await joinedFile(true)).map((cells: readonly string[]) => cells.slice(0, 2)))
      .toEqual([['n', 'm'], ["'=1", "'+a,b"], ['+1 2', 'ü']])
    expect(readFileSync(path, 'utf8')).toBe('n,m\n=1,"+a,b"\n+1 2,ü\n')
  })
})
