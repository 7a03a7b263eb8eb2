import { createReadStream } from 'node:fs'
import { pipeline } from 'node:stream'
import { CsvError, parse } from 'csv-parse'
import { CommandError } from './command-error.ts'
import type { Dialect } from './csv-dialect.ts'

/** A record of a file; its text has one character a byte, so that it can be written as it was. */
export type CsvRecord = {
  readonly cells: readonly string[]
  /** As it stands in the file, without its end. */
  readonly text: string
  /** CRLF, LF or CR; '' at the end of the file. */
  readonly end: string
  /** Its place in the file, `to` behind its end. */
  readonly from: number
  readonly to: number
}

/** Bytes of the file; the end is not part of it. */
export type ByteRange = { readonly from: number, readonly to: number }

type Parsed = { readonly record: readonly string[], readonly raw: string }

/** A quote that is opened and never closed takes the rest of the file for one cell. */
const LONGEST_RECORD = 4 * 1_024 * 1_024

/**
 * Reads the records that begin in a part of a CSV file, a piece at a time. Records may have fewer
 * or more cells than others; a blank line is a record of one empty cell. Throws CommandError where
 * the file is no CSV.
 */
export async function * readRecords (
  file: string, { delimiter, ends }: Dialect, { from, to }: ByteRange
): AsyncIterable<CsvRecord> {
  if (to <= from) return
  const parser = parse({
    delimiter,
    encoding: 'latin1',
    raw: true,
    record_delimiter: ends === 'cr' ? ['\r'] : ['\r\n', '\n'],
    relax_column_count: true,
    relax_quotes: true,
    max_record_size: LONGEST_RECORD,
  })
  pipeline(createReadStream(file, { start: from, end: to - 1 }), parser, () => {})
  let at = from
  try {
    for await (const { record, raw } of parser as AsyncIterable<Parsed>) {
      const next = placed(raw, { from: at, to }, ends)
      yield { cells: record, ...next }
      at = next.to
    }
  } catch (cause) {
    if (!(cause instanceof CsvError)) throw cause
    throw new CommandError(`The CSV can't be read: ${cause.message}`, { cause })
  }
  if (at !== to) {
    throw new CommandError(`${file} has been changed meanwhile: ${at - from} bytes stand where ` +
      `${to - from} were. Put it back as it was and run the command again.`)
  }
}

/** The parser leaves the LF of a CRLF out of what it calls raw. */
function placed (
  raw: string, { from, to: fileEnd }: ByteRange, ends: Dialect['ends']
): Omit<CsvRecord, 'cells'> {
  const to = from + raw.length
  if (ends === 'lf' && raw.endsWith('\r') && to < fileEnd) {
    return { text: raw.slice(0, -1), end: '\r\n', from, to: to + 1 }
  }
  const end = (ends === 'cr' ? /\r$/ : /\r?\n$/).exec(raw)?.[0] ?? ''
  return { text: raw.slice(0, raw.length - end.length), end, from, to }
}
