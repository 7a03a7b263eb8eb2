import { pipeline } from 'node:stream'
import { CsvError, parse, type Parser } from 'csv-parse'
import { detectDelimiter, detectRecordEnd, type RecordEnd } from '../../schemas/files/csv-format.ts'
import type { InputFile } from './files.ts'
import { CommandError } from './terminal.ts'

/** The format of a CSV file, detected from its first bytes. */
export type Dialect = {
  readonly delimiter: string
  readonly ends: RecordEnd
  /** Length of the byte order mark. */
  readonly startByte: number
}

export type TextEncoding = 'utf-8' | 'windows-1252'

/** A record of a file. Its text has one character per byte, so it can be written unchanged. */
export type CsvRecord = {
  readonly cells: readonly string[]
  /** The bytes of the record without its end. */
  readonly text: string
  /** CRLF, LF or CR; '' at the end of the file. */
  readonly end: string
  /** Position in the file; `to` is after the end of the record. */
  readonly from: number
  readonly to: number
}

/** A range of bytes in a file; `to` is exclusive. */
export type ByteRange = { readonly from: number, readonly to: number }

const UTF8_MARK = Buffer.from([0xef, 0xbb, 0xbf])
const UTF16_MARKS = [Buffer.from([0xff, 0xfe]), Buffer.from([0xfe, 0xff])]
/** An unclosed quote would turn the rest of the file into one cell. */
const MAX_RECORD_BYTES = 4 * 1_024 * 1_024

/**
 * Detects the dialect from the beginning of a file. Throws CommandError for UTF-16, which cannot be
 * split into cells byte by byte.
 */
export function detectDialect (sample: Buffer, delimiter?: string): Dialect {
  if (UTF16_MARKS.some(mark => sample.subarray(0, 2).equals(mark)) || sample.includes(0)) {
    throw new CommandError('The file is not CSV in UTF-8: it looks like UTF-16 or a binary file. ' +
      'Save it as "CSV UTF-8" and run the command again.')
  }
  const startByte = sample.subarray(0, 3).equals(UTF8_MARK) ? 3 : 0
  const text = sample.toString('latin1', startByte)
  const ends = detectRecordEnd(text)
  return { delimiter: delimiter ?? detectDelimiter(text, ends), ends, startByte }
}

type Parsed = { readonly record: readonly string[], readonly raw: string }

/**
 * Streams the records of a byte range of a CSV file. Records may have fewer or more cells than
 * others; a blank line is a record with one empty cell. Throws CommandError where the file is not
 * valid CSV or has changed since its range was computed.
 */
export async function * readRecords (
  file: InputFile, { delimiter, ends }: Dialect, { from, to }: ByteRange
): AsyncIterable<CsvRecord> {
  if (to <= from) return
  const parser: Parser = parse({
    delimiter,
    encoding: 'latin1',
    raw: true,
    record_delimiter: ends === 'cr' ? ['\r'] : ['\r\n', '\n'],
    relax_column_count: true,
    relax_quotes: true,
    max_record_size: MAX_RECORD_BYTES,
    // The parser compares each record with the first one of the file, and makes an error with a
    // copy of the record where their numbers of cells differ: so each record is the first one.
    on_record: record => {
      Object.assign(parser.info, { records: 0 })
      return record
    },
  })
  pipeline(file.stream(from, to), parser, () => {})
  let position = from
  try {
    for await (const { record, raw } of parser as AsyncIterable<Parsed>) {
      const next = locate(raw, { from: position, to }, ends)
      yield { cells: record, ...next }
      position = next.to
    }
  } catch (cause) {
    if (!(cause instanceof CsvError)) throw cause
    throw new CommandError(`Cannot parse ${file.path} as CSV: ${cause.message}`, { cause })
  }
  if (position !== to) {
    throw new CommandError(`${file.path} has changed during the run: it has ` +
      `${position - from} bytes where ${to - from} were expected. Restore it ` +
      'and run the command again.')
  }
}

/** The parser leaves the LF of a CRLF out of its raw text. */
function locate (
  raw: string, { from, to: fileEnd }: ByteRange, ends: Dialect['ends']
): Omit<CsvRecord, 'cells'> {
  const to = from + raw.length
  if (ends === 'lf' && raw.endsWith('\r') && to < fileEnd) {
    return { text: raw.slice(0, -1), end: '\r\n', from, to: to + 1 }
  }
  const end = (ends === 'cr' ? /\r$/ : /\r?\n$/).exec(raw)?.[0] ?? ''
  return { text: raw.slice(0, raw.length - end.length), end, from, to }
}

/** Characters that start a formula, including their full-width forms. */
const FORMULA = '=+\\-@\uff1d\uff0b\uff0d\uff20'
const STARTS_FORMULA = new RegExp(`^[${FORMULA}\t\r\n]`)
/** A spreadsheet may split a cell at a semicolon, a tab or a line break. */
const LATER_FORMULA = new RegExp(`(?<=[;\t\r\n])(?=[${FORMULA}])`, 'g')
const PHONE_CHARACTERS = /^[0-9 ()+./-]*$/
const NEEDS_QUOTES = new Map<string, RegExp>()

/**
 * Writes a cell according to RFC 4180: quoted only when it contains a quote, the delimiter, CR or
 * LF. Doubles quotes and changes no other character.
 */
export function csvCell (text: string, delimiter = ','): string {
  let needsQuotes = NEEDS_QUOTES.get(delimiter)
  if (needsQuotes === undefined) {
    needsQuotes = new RegExp(`["\r\n${delimiter.replace(/[\\\]^-]/, '\\$&')}]`)
    NEEDS_QUOTES.set(delimiter, needsQuotes)
  }
  return needsQuotes.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

/**
 * Escapes a cell that a spreadsheet would run as a formula with a leading quote mark, exactly as
 * the service does for `safe=spreadsheet`. Leaves phone numbers unchanged.
 */
export function guardCell (text: string): string {
  if (PHONE_CHARACTERS.test(text)) return text
  const guarded = text.replace(LATER_FORMULA, "'")
  return STARTS_FORMULA.test(text) ? `'${guarded}` : guarded
}

/** Decodes a cell, which has one character per byte. */
export function decodeCell (cell: string, encoding: TextEncoding): string {
  if (isAscii(cell)) return cell
  return new TextDecoder(encoding).decode(Buffer.from(cell, 'latin1'))
}

/** Encodes a text as a cell. Replaces what the encoding does not contain with a question mark. */
export function encodeCell (text: string, encoding: TextEncoding): string {
  if (isAscii(text)) return text
  if (encoding === 'utf-8') return Buffer.from(text, 'utf8').toString('latin1')
  return Array.from(text, letter => WINDOWS_1252.get(letter) ?? '?').join('')
}

const isAscii = (text: string): boolean => {
  for (let index = 0; index < text.length; index++) {
    if (text.charCodeAt(index) > 0x7f) return false
  }
  return true
}

/** The characters of Windows-1252 and the byte of each. */
const WINDOWS_1252: ReadonlyMap<string, string> =
  new Map(Array.from({ length: 256 }, (_, byte) => [
    new TextDecoder('windows-1252').decode(Uint8Array.of(byte)), String.fromCharCode(byte),
  ]))
