import { isUtf8 } from 'node:buffer'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { parse } from 'csv-parse/sync'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  checkReadable, CsvScanner, detectFormat, isUtf8Cell, findPositions, readHead, uniqueNames,
  UnreadableFile, type CsvRecord,
} from '../../../schemas/files/csv-format.ts'
import { zipOf } from '../../support/zip.ts'

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
      const isUnclosed = cells.at(-1) as unknown === 'unclosed'
      if (expected === 'unclosed') expect(isUnclosed).toBe(true)
      // The parser takes text behind a cell of several lines for a part of the cell.
      else if (isUnclosed) expect(cells.slice(0, -1)).toEqual(expected.slice(0, cells.length - 1))
      else expect(cells).toEqual(expected)
    }), { numRuns: 3_000 })
  })

  it('counts blank lines in steps, and the lines of each record', () => {
    expect(scan('\n\r\n""\n\n""\ra\n\n"b\n\nc"\n"')).toEqual([
      { kind: 'blank', lines: 3, end: 5, line: 3 }, { kind: 'blank', lines: 2, end: 9, line: 5 },
      { kind: 'cells', cells: ['a'], end: 11, line: 6 },
      { kind: 'blank', lines: 1, end: 12, line: 7 },
      { kind: 'cells', cells: ['b\n\nc'], end: 19, line: 10 }, { kind: 'unclosed', line: 11 },
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

const utf16 = (text: string, isBig = false) => {
  const bytes = Buffer.from(text, 'utf16le')
  return isBig ? bytes.swap16() : bytes
}
const binary = (bytes: number) => Buffer.from(Array.from({ length: bytes }, (_, at) =>
  1 + (at * 167) % 255))

describe('a file that cannot be read', () => {
  it.each<[what: string, bytes: Buffer, code: string, why: RegExp]>([
    ['UTF-16 LE', utf16('\ufeffphone\r\n1'), 'invalid_encoding', /UTF-16.*"CSV UTF-8"/],
    ['UTF-16 BE', utf16('\ufeffphone\r\n1', true), 'invalid_encoding', /UTF-16/],
    ['UTF-16 without a mark', utf16('phone\r\n1'), 'invalid_encoding', /UTF-16/],
    ['UTF-16 BE without a mark', utf16('phone\r\n1', true), 'invalid_encoding', /UTF-16/],
    ['UTF-32', Buffer.from('\xff\xfe\0\0p\0\0\0', 'latin1'), 'invalid_encoding', /binary/],
    ['zeros', Buffer.from('phone\n1\0\0'), 'invalid_encoding', /binary/],
    ['random bytes', binary(5_000), 'invalid_encoding', /binary/],
    ['.xlsx', zipOf({ '[Content_Types].xml': 'a', 'xl/workbook.xml': 'b' }), 'invalid_file',
      /workbook.*save it as "CSV UTF-8"/],
    ['a ZIP archive', zipOf({ 'contacts.csv': 'phone' }), 'invalid_file', /ZIP.*Unpack/],
    ['.xls', Buffer.from('d0cf11e0a1b11ae1', 'hex'), 'invalid_file', /\(\.xls\)/],
    ['gzip', gzipSync('phone\n1'), 'invalid_file', /gzip.*Unpack/],
    ['zstd', zstdCompressSync('phone\n1'), 'invalid_file', /zstd/],
    ['a PDF', Buffer.from('%PDF-1.7\n%\xe2\xe3'), 'invalid_file', /PDF/],
    ['an image', Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), 'invalid_file', /image/],
    ['HTML named .xls', Buffer.from('\r\n<html><table>'), 'invalid_file', /HTML/],
    ['XML', Buffer.from('<?xml version="1.0"?>'), 'invalid_file', /XML/],
  ])('is named: %s', (_what, bytes, code, why) => {
    expect(() => checkReadable(bytes)).toThrow(UnreadableFile)
    expect(() => checkReadable(bytes)).toThrow(expect.objectContaining({
      code, message: expect.stringMatching(why) as string,
    }))
  })

  it.each<[string, Buffer]>([
    ['UTF-8 with control characters', Buffer.from('phone\n\u0001\u0002é\n')],
    ['UTF-8 that the sample cuts', Buffer.from('phone\né').subarray(0, -1)],
    ['Windows-1252', Buffer.from('n;m\nM\xfcller;\x80\n', 'latin1')],
    ['code page 437', Buffer.from('M\x81ller;\x8e\n', 'latin1')],
    ['names that resemble signatures', Buffer.from('PK,BZh,GIF8,Rar!\n1,2,3,4')],
    ['nothing', Buffer.alloc(0)],
  ])('is not one in %s', (_what, bytes) => {
    expect(() => checkReadable(bytes)).not.toThrow()
  })

  it('names a delimiter that is not supported', () => {
    expect(() => detectFormat(Buffer.from('sep=:\na:b\n'))).toThrow(/sep=:, names a delimiter/)
    expect(detectFormat(Buffer.from('sep=:\na;b\n'), ';')).toMatchObject({
      delimiter: ';', sepLine: 'sep=:', start: 6,
    })
  })
})

describe('the name of a column', () => {
  it.each([
    'Telefon\u00a0', '\u2003Telefon', '\ufeffTelefon', 'Tele\u200bfon', 'TELEFON', 'Tele\u00adfon',
  ])('%j is that of Telefon', name => {
    expect(findPositions(['x', name], 'Telefon')).toEqual([1])
    expect(findPositions(['x', 'Telefon'], name)).toEqual([1])
    expect(uniqueNames(['telefon'], [name])).toEqual(['verified_telefon'])
  })

  it('is composed, and its inner white space is one space', () => {
    expect(findPositions(['Te\u0301le\u0301phone', 'x'], 't\u00e9l\u00e9phone')).toEqual([0])
    expect(findPositions(['Telefon\u00a0 privat'], 'telefon privat')).toEqual([0])
    expect(findPositions(['Telefonprivat'], 'telefon privat')).toEqual([])
    expect(findPositions(['Telefon', 'Telefon\u00a0'], 'Telefon\u00a0')).toEqual([1])
  })
})

it('a cell of a file that is not UTF-8 ' +
  'is UTF-8 if its bytes are, and none is ß in Windows-1252', () => {
  // The first and last byte of each kind that UTF-8 has, and their neighbors.
  const kinds = [
    0x00, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xde, 0xdf, 0xe0, 0xe1,
    0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff,
  ]
  const wrong: string[] = []
  const check = (bytes: readonly number[]) => {
    const cell = Uint8Array.from(bytes)
    if (isUtf8Cell(cell) !== (isUtf8(cell) && !bytes.includes(0xdf))) wrong.push(bytes.join(' '))
    if (bytes.length < 4) for (const kind of kinds) check([...bytes, kind])
  }
  check([])
  expect(wrong).toEqual([])
  expect([isUtf8Cell(Buffer.from('Zoë 中 😀 a')), isUtf8Cell(Buffer.from('aé\xff', 'latin1'))])
    .toEqual([true, false])
})

describe('the head of a file', () => {
  it('has each cell in its own encoding, as the service reads it', () => {
    const mixed = Buffer.concat([
      Buffer.from('name;phone\nZoë 😀;1\n'), Buffer.from('Andr\xe9 Stra\xdfe \x80;2\n', 'latin1'),
    ])
    expect(readHead(mixed, 1_000).rows)
      .toEqual([['name', 'phone'], ['Zoë 😀', '1'], ['André Straße €', '2']])
    expect(readHead(Buffer.from('ߊ;1\n'), 1_000).rows).toEqual([['ߊ', '1']])
  })

  it('begins after the mark and the line sep= of the file, whose bytes are counted', () => {
    const file = Buffer.from('\ufeffsep=;\n+12127365000;a\n+12127365001;b\n')
    const { start, rows, delimiter } = readHead(file, 1_000)
    expect(file.toString('utf8', start)).toMatch(/^\+12127365000;a/)
    expect([delimiter, rows[0]]).toEqual([';', ['+12127365000', 'a']])
  })

  it('ends with its last whole row', () => {
    const file = Buffer.from('a,b\n1,2\n\n"3",4\n5,6')
    expect(readHead(file, 14))
      .toEqual({ delimiter: ',', start: 0, end: 9, rows: [['a', 'b'], ['1', '2']] })
    expect(readHead(file, 100)).toMatchObject({ end: file.length, rows: { length: 4 } })
    expect(() => readHead(Buffer.from('a\n"b\n'), 100)).toThrow(
      'Line 2 of the file has a cell that begins with a double quote, and no quote that ends it.')
  })
})
