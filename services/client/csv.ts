import {
  checkReadable, CsvScanner, detectFormat, isUtf8Cell, SAMPLE_BYTES, UnreadableFile,
} from '../../schemas/files/csv-format.ts'
import type { InputFile } from './files.ts'
import { CommandError } from './terminal.ts'

/** The format of a CSV file, detected from its first bytes. */
export type Dialect = {
  readonly delimiter: string
  /** The byte order mark and the line `sep=` without its end, one character per byte. */
  readonly preamble: string
  /** Length of the preamble, with the end of the line `sep=`. */
  readonly startByte: number
}

export type TextEncoding = 'utf-8' | 'windows-1252'

/** A record of a file. Its text has one character per byte, so it can be written unchanged. */
export type CsvRecord = {
  readonly cells: readonly string[]
  /** The bytes of the record without its end. */
  readonly text: string
  /** CRLF, LF or CR, or CRs before LF; '' at the end of the file. */
  readonly end: string
  /** Position in the file; `to` is after the end of the record. */
  readonly from: number
  readonly to: number
}

/** A range of bytes in a file; `to` is exclusive. */
export type ByteRange = { readonly from: number, readonly to: number }

/** An unclosed quote would turn the rest of the file into one cell. */
const MAX_RECORD_BYTES = 4 * 1_024 * 1_024
const PIECE_BYTES = 65_536
/** A record is complete if as many bytes follow: its end may be CRs and LF. */
const LOOKAHEAD_BYTES = 8

/**
 * Detects the dialect from the first bytes of a file. Throws CommandError for what is not CSV, such
 * as workbooks and UTF-16, and says what it is.
 */
export function detectDialect (start: Buffer, delimiter?: string): Dialect {
  const sample = start.subarray(0, SAMPLE_BYTES)
  try {
    checkReadable(sample)
    const format = detectFormat(sample, delimiter)
    const mark = format.hasMark ? UTF8_MARK : ''
    return {
      delimiter: format.delimiter, preamble: mark + format.sepLine, startByte: format.start,
    }
  } catch (error) {
    if (!(error instanceof UnreadableFile)) throw error
    throw new CommandError(`${error.message} Then run the command again.`, { cause: error })
  }
}

/** Spreadsheets detect UTF-8 by the byte order mark, so the output keeps it. */
const UTF8_MARK = '\u00ef\u00bb\u00bf'

/**
 * Streams the records of a byte range of a CSV file. Records may have fewer or more cells than
 * others; a blank line is a record with one empty cell. Throws CommandError where the file is not
 * valid CSV or has changed since its range was computed.
 */
export async function * readRecords (
  file: InputFile, { delimiter }: Dialect, { from, to }: ByteRange
): AsyncIterable<CsvRecord> {
  if (to <= from) return
  const counts = { position: from, lines: 0 }
  let pieces: Buffer[] = []
  let bytes = 0
  let wantedBytes = 1
  function * scan (isLast: boolean) {
    const window = Buffer.concat(pieces)
    const windowAt = counts.position
    yield * scanWindow(window, { delimiter, isLast, path: file.path }, counts)
    const rest = window.subarray(counts.position - windowAt)
    pieces = [rest]
    bytes = rest.length
    // A record larger than a piece is scanned again only when there is twice as much of it.
    wantedBytes = 2 * bytes
  }
  for (let at = from; at < to;) {
    const piece = await file.readRange(at, Math.min(PIECE_BYTES, to - at))
    if (piece.length === 0) break
    at += piece.length
    pieces.push(piece)
    bytes += piece.length
    if (bytes >= wantedBytes) yield * scan(false)
  }
  yield * scan(true)
  if (counts.position !== to) {
    throw new CommandError(`${file.path} has changed during the run: it has ` +
      `${counts.position - from} bytes where ${to - from} were expected. Restore it ` +
      'and run the command again.')
  }
}

type Window = { readonly delimiter: string, readonly isLast: boolean, readonly path: string }

/** The complete records of a part of a file; counts their bytes, and their lines for errors. */
function * scanWindow (
  window: Buffer, { delimiter, isLast, path }: Window, counts: { position: number, lines: number }
): Iterable<CsvRecord> {
  const scanner = new CsvScanner(window, {
    delimiter,
    start: 0,
    line: counts.lines,
    decode: (from, to) => window.toString('latin1', from, to),
    maxRecordBytes: MAX_RECORD_BYTES,
    maxBlankLines: 1,
  })
  const windowAt = counts.position
  for (let at = 0; ; at = scanner.position) {
    const record = scanner.next()
    if (record === undefined) return
    const next = Math.min(scanner.position, window.length)
    const isPart = record.kind === 'unclosed'
      ? window.length - at <= MAX_RECORD_BYTES
      : record.kind !== 'long' && next + LOOKAHEAD_BYTES > window.length
    if (!isLast && isPart) return
    if (record.kind === 'long' || record.kind === 'unclosed') {
      throw new CommandError(record.kind === 'long'
        ? `Cannot parse ${path} as CSV: line ${record.line} has more than ${MAX_RECORD_BYTES} ` +
          'bytes. Shorten it; if it is not that long, a double quote in it is not closed.'
        : `Cannot parse ${path} as CSV: a cell in line ${record.line} begins with a double ` +
          'quote, and no quote ends it. Close it, or put the cell between quotes and double ' +
          'those in it.')
    }
    const { end } = record
    counts.position = windowAt + next
    counts.lines = record.line
    yield {
      cells: record.kind === 'cells' ? record.cells : [''],
      text: window.toString('latin1', at, end),
      end: window.toString('latin1', end, next),
      from: windowAt + at,
      to: windowAt + next,
    }
  }
}

/** Decodes a cell, which has one character per byte, as the service does. */
export function decodeCell (cell: string, encoding: TextEncoding): string {
  if (isAscii(cell)) return cell
  const bytes = Buffer.from(cell, 'latin1')
  return new TextDecoder(isUtf8Cell(bytes) ? 'utf-8' : encoding).decode(bytes)
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
