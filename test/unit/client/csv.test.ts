import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { describe, expect, it } from 'vitest'
import { csvCell, uniqueNames } from '../../../schemas/files/csv-format.ts'
import {
  decodeCell, detectDialect, encodeCell, readRecords,
} from '../../../services/client/csv.ts'
import { openInput } from '../../../services/client/files.ts'
import {
  decodeContact, indexOfName, planJobs, readContacts, readFacts, readHead, selectColumns,
} from '../../../services/client/plan.ts'
import { UsageError } from '../../../services/client/terminal.ts'
import { newFolder } from '../../support/folder.ts'

const folder = newFolder('csv-')
const path = join(folder, 'a.csv')
writeFileSync(path, '')
/** Stays the same file: tests write to it. */
const file = openInput(path)

async function readAll (bytes: Buffer | string) {
  writeFileSync(path, bytes)
  const { dialect, bytes: to } = await readFacts(file)
  const records = []
  const range = { from: dialect.startByte, to }
  for await (const record of readRecords(file, dialect, range)) records.push(record)
  return records
}

describe('a CSV cell', () => {
  it('is quoted when it contains the delimiter, a quote or an end of line', () => {
    expect([';', '\t', '|', ']', '^', '-'].map(delimiter => csvCell(`a${delimiter}b`, delimiter)))
      .toEqual(['"a;b"', '"a\tb"', '"a|b"', '"a]b"', '"a^b"', '"a-b"'])
    expect(['a,b', 'a"b', 'a\rb', 'a\nb', '=1'].map(text => csvCell(text, ';')))
      .toEqual(['a,b', '"a""b"', '"a\rb"', '"a\nb"', '=1'])
  })

  it('is decoded and encoded in UTF-8 and Windows-1252', () => {
    const utf8 = Buffer.from('ü€').toString('latin1')
    expect([decodeCell(utf8, 'utf-8'), encodeCell('ü€', 'utf-8')]).toEqual(['ü€', utf8])
    expect(decodeCell('\xfc\x80', 'windows-1252')).toBe('ü€')
    // Of a file in which another cell is not UTF-8.
    expect(decodeCell(utf8, 'windows-1252')).toBe('ü€')
    expect(encodeCell('ü€ł', 'windows-1252')).toBe('\xfc\x80?')
  })
})

/** Of the delimiters of real files: test/accuracy/data/files.jsonl. */
describe('a CSV dialect', () => {
  it.each<[string, string]>([
    ['', ','], ['a|b\n1|2', '|'], ['sep=,,,\na;b\n', ','],
    ['Adresse, voll\nWeg 1, 10115 Berlin, DE\nWeg 2, 10117 Berlin, DE\n', ';'],
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
    expect(() => detectDialect(Buffer.from('a,b', 'utf16le'))).toThrow('Save it as "CSV UTF-8"')
  })
})

describe('the records of a CSV file', () => {
  it('have cells, text and position', async () => {
    expect(await readAll('a,b\r\n"1\r\n",2\n\n3\n4,5,6')).toEqual([
      { cells: ['a', 'b'], text: 'a,b', end: '\r\n', from: 0, to: 5 },
      { cells: ['1\r\n', '2'], text: '"1\r\n",2', end: '\n', from: 5, to: 13 },
      { cells: [''], text: '', end: '\n', from: 13, to: 14 },
      { cells: ['3'], text: '3', end: '\n', from: 14, to: 16 },
      { cells: ['4', '5', '6'], text: '4,5,6', end: '', from: 16, to: 21 },
    ])
    // A job's results keep the bytes of a file.
    expect((await readAll('a\n""\r\n""')).map(({ cells, text, end }) => [...cells, text, end]))
      .toEqual([['a', 'a', '\n'], ['', '""', '\r\n'], ['', '""', '']])
    expect((await readAll('\ufeffa\rb\r')).map(({ text, end, from }) => [text, end, from]))
      .toEqual([['a', '\r', 3], ['b', '\r', 5]])
  })

  it('are the same wherever the pieces of the file end', async () => {
    const unit = '"a\r\n""b""",13"\r\r\n\r\n\rü,"c"d\n'
    const cells = (await readAll(unit.repeat(40_000))).map(record => record.cells)
    expect(cells.length).toBe(4 * 40_000)
    expect(cells.every((record, at) => isDeepStrictEqual(record, cells[at % 4]))).toBe(true)
    const long = `"${'x\n'.repeat(1_000_000)}"`
    expect((await readAll(`n\n${long}\n1\n`)).map(({ text }) => text)).toEqual(['n', long, '1'])
  })

  it.each([
    ['a;b\n"13;1\n"15;2\n17;3', 'a cell in line 2 begins'],
    ['a,b\n1,"2\n3,4\n', /^Cannot parse \S+ as CSV: a cell in line 2/],
    [`a\n1\n"${'x\n'.repeat(2_200_000)}`, 'line 3 has more'],
  ])('cannot be read from invalid CSV', async (text, why) => {
    await expect(readAll(text)).rejects.toThrow(why)
  })
})

describe('the plan of a submitted file', () => {
  async function plan (text: string, column: number, rowsPerJob?: number) {
    writeFileSync(path, text)
    const facts = await readFacts(file)
    const options = { column, ...rowsPerJob !== undefined && { rowsPerJob } }
    return { facts, ...await planJobs(file, facts, options) }
  }

  it('splits the rows into jobs', async () => {
    const lines = ['id,phone', '1,a', '2,b,x', '', '"4\n",d', '5,e']
    const { facts, ranges, ...planned } = await plan(lines.join('\n'), 1, 2)
    expect(planned).toMatchObject({ column: 1, width: 3, rows: 5, header: { from: 0, to: 9 } })
    expect(ranges.map(({ firstRow, rows }) => [firstRow, rows])).toEqual([[0, 2], [2, 2], [4, 1]])
    const contacts = await Promise.all(ranges.map(async range =>
      await readContacts(file, facts, { range, column: 1 })))
    expect(contacts).toEqual([['a', 'b'], ['', 'd'], ['e']])
  })

  it('is of the whole file, of which the column is chosen by the first rows', async () => {
    const { facts, ranges } = await plan(`phone\n${'1234567\n'.repeat(30_000)}`, 0)
    expect((await readHead(file, facts)).rows.length).toBe(1_000)
    expect(ranges.map(({ rows }) => rows)).toEqual([30_000])
  })

  it('keeps requests below the size limit of the service', async () => {
    const { ranges } = await plan(`phone\n${`${'\u0001'.repeat(1_000)}\n`.repeat(6_000)}`, 0)
    // A control character takes six bytes in JSON: 1,000 of them, 6,003 bytes a contact.
    expect(ranges.map(({ rows }) => rows)).toEqual([5_330, 670])
  })

  it('truncates contacts that are too long', () => {
    const long = `${'x'.repeat(1_023)}\u{1f600}`
    expect(decodeContact(long, 'utf-8')).toHaveLength(1_024)
    const padded = Buffer.from(`${' '.repeat(1_020)}+12127365000`).toString('latin1')
    expect(decodeContact(padded, 'utf-8')).toBe('+12127365000')
    expect(decodeContact(Buffer.from(long).toString('latin1'), 'utf-8'))
      .toBe(`${'x'.repeat(1_023)}\ufffd`)
    expect(decodeContact(undefined, 'utf-8')).toBe('')
  })
})

describe('a column', () => {
  const header = ['id', 'Phone', 'phone', 'Tel']

  it.each<[string, number]>([['Phone', 1], ['phone', 2], [' TEL ', 3], ['#1', 0]])(
    'named %j is found', (named, index) => {
      expect(indexOfName(header, named)).toBe(index)
    })

  it.each<[string, string, string]>([
    ['PHONE,phone,Tel,tel', 'TEL',
      "2 columns have the name TEL. Select one by its position: --id-column '#3' or '#4'."],
    ['id,,Tel', 'mail', 'The file has no column mail. The columns are: id, #2, Tel.'],
    ['id,Tel', '#3', 'The file has no column #3.'],
  ])('of %s named %s is rejected', (names, named, why) => {
    const find = () => indexOfName(names.split(','), named, '--id-column')
    expect(find).toThrow(why)
    expect(find).toThrow(UsageError)
  })
})

describe('the result columns of a joined file', () => {
  it('default to all that the file lacks, and can be selected', () => {
    expect(selectColumns(undefined, ['row', 'input', 'status', 'role']))
      .toEqual(['status', 'role'])
    expect(selectColumns('role, status,role', ['role'])).toEqual(['role', 'status'])
    for (const list of ['input', 'status,x', ' , ']) {
      expect(() => selectColumns(list, ['role'])).toThrow(/^--only: .* phone, e164, .*, role\.$/)
    }
  })

  it('get a prefix when the file already has the name', () => {
    expect(uniqueNames(['status', 'reason', 'e164'], ['STATUS ', 'e164', 'verified_e164']))
      .toEqual(['verified_status', 'reason', 'verified_verified_e164'])
  })
})
