import type { RecordEnd } from '../../../schemas/files/csv-format.ts'

type ScanOptions = {
  /** One character of ASCII. */
  readonly delimiter: string
  readonly ends: RecordEnd
  /** Index of the first byte. */
  readonly start: number
  /** Of a record without its end; a longer one ends the scan. */
  readonly maxRecordBytes: number
  /** The most blank lines in one step. */
  readonly maxBlankLines: number
}

/** A step of the scan. `line` counts from 1: the last line that was read. */
export type CsvRecord = { readonly line: number } & (
  | { readonly kind: 'cells', readonly cells: readonly string[] }
  /** Adjacent lines without a byte. */
  | { readonly kind: 'blank', readonly lines: number }
  | { readonly kind: 'long' }
  | { readonly kind: 'unclosed' }
)

const [QUOTE, CR, LF] = [0x22, 0x0d, 0x0a] as const

/**
 * Splits CSV in UTF-8 into records, one for each call. Works through every byte once, so that the
 * cost follows the bytes: a parser that needs an error object for each short line, or copies a cell
 * for a quote in it, can be slowed down by what it reads. A cell that begins with a quote ends at
 * the next quote before a delimiter, a record end or the end of the file; doubled quotes in it are
 * one. If another character follows its quote, both quotes are part of the cell (RFC 4180 leaves
 * this open). Quotes elsewhere are characters.
 */
export class CsvScanner {
  readonly #bytes: Buffer
  readonly #delimiter: number
  readonly #end: number
  readonly #maxRecordBytes: number
  readonly #maxBlankLines: number
  #at: number
  #line = 0

  constructor (bytes: Buffer, options: ScanOptions) {
    this.#bytes = bytes
    this.#delimiter = options.delimiter.charCodeAt(0)
    this.#end = options.ends === 'cr' ? CR : LF
    this.#maxRecordBytes = options.maxRecordBytes
    this.#maxBlankLines = options.maxBlankLines
    this.#at = options.start
  }

  /** Index of the next byte. */
  get position (): number {
    return this.#at
  }

  /** The next record; undefined at the end, and after a violation. */
  next (): CsvRecord | undefined {
    if (this.#at >= this.#bytes.length) return undefined
    const lines = this.#skipBlankLines()
    if (lines > 0) return { kind: 'blank', lines, line: this.#line }
    const cells: string[] = []
    const limit = this.#at + this.#maxRecordBytes
    for (;;) {
      const end = this.#bytes[this.#at] === QUOTE
        ? this.#quotedCell(cells, limit)
        : this.#plainCell(cells, this.#at, limit, '')
      if (end === 'delimiter') continue
      this.#line += 1
      if (end === 'record') return { kind: 'cells', cells, line: this.#line }
      this.#at = this.#bytes.length
      return { kind: end, line: this.#line }
    }
  }

  #skipBlankLines (): number {
    const bytes = this.#bytes
    let lines = 0
    while (lines < this.#maxBlankLines) {
      const length = this.#recordEndAt(this.#at)
      if (length === 0 || this.#at >= bytes.length) break
      this.#at += length
      lines += 1
    }
    this.#line += lines
    return lines
  }

  /** Length of the record end at an index; 0 without one. */
  #recordEndAt (at: number): number {
    const bytes = this.#bytes
    if (bytes[at] === this.#end) return 1
    return this.#end === LF && bytes[at] === CR && bytes[at + 1] === LF ? 2 : 0
  }

  /** Adds the cell that begins at `from`; `before` is its text up to the current position. */
  #plainCell (
    cells: string[], from: number, limit: number, before: string
  ): 'delimiter' | 'record' | 'long' {
    const bytes = this.#bytes
    const delimiter = this.#delimiter
    const recordEnd = this.#end
    // The end of a record of the largest size may be CRLF.
    const last = Math.min(bytes.length, limit + 2)
    let at = from
    let byte = bytes[at]
    while (at < last && byte !== delimiter && byte !== recordEnd) byte = bytes[++at]
    const isCrLf = recordEnd === LF && byte === LF && at > from && bytes[at - 1] === CR
    const end = isCrLf ? at - 1 : at
    if (end > limit) return 'long'
    cells.push(end > from ? before + bytes.toString('utf8', from, end) : before)
    this.#at = at + 1
    return at < bytes.length && byte === delimiter ? 'delimiter' : 'record'
  }

  #quotedCell (
    cells: string[], limit: number
  ): 'delimiter' | 'record' | 'long' | 'unclosed' {
    const bytes = this.#bytes
    const from = this.#at + 1
    let isDoubled = false
    let lines = 0
    let at = from
    for (; ; at++) {
      if (at >= bytes.length) {
        this.#line += lines
        return 'unclosed'
      }
      if (at >= limit) return 'long'
      const byte = bytes[at]
      if (byte === this.#end) lines += 1
      if (byte !== QUOTE) continue
      if (bytes[at + 1] !== QUOTE) break
      isDoubled = true
      at += 1
    }
    this.#line += lines
    const raw = bytes.toString('utf8', from, at)
    const text = isDoubled ? raw.replaceAll('""', '"') : raw
    const next = at + 1
    const recordEnd = this.#recordEndAt(next)
    if (next >= bytes.length || recordEnd > 0 || bytes[next] === this.#delimiter) {
      cells.push(text)
      this.#at = next + Math.max(recordEnd, 1)
      return recordEnd > 0 || next >= bytes.length ? 'record' : 'delimiter'
    }
    return this.#plainCell(cells, next, limit, `"${text}"`)
  }
}
