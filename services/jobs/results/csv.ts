import { csvCell, guardCell } from '../../../schemas/files/csv-format.ts'

const [QUOTE, CR, LF] = [0x22, 0x0d, 0x0a] as const
const LAST_OF_ASCII = 0x7f

/** UTF-8 needs at most three bytes per UTF-16 unit, plus quotes and separators. */
const MAX_BYTES_PER_UNIT = 3
const OVERHEAD_BYTES = 8

/** The only cell of a line, if it is blank: many readers skip lines without a character. */
const BLANK_CELL = '""'

type CsvWriterOptions = {
  readonly safe: boolean
  readonly sizeBytes: number
  readonly delimiter?: string
}

/**
 * Writes CSV cells, `csvCell` of each, into one buffer. Nearly all cells are plain ASCII, which is
 * checked and written in one pass: a row of many cells takes half the time of building a string.
 * `safe` guards cells that a spreadsheet would run as formulas; `delimiter` is of ASCII.
 */
export class CsvWriter {
  readonly #safe: boolean
  readonly #delimiter: string
  readonly #delimiterCode: number
  #bytes: Buffer
  #at = 0
  #lineStart = 0

  constructor ({ safe, sizeBytes, delimiter = ',' }: CsvWriterOptions) {
    this.#safe = safe
    this.#delimiter = delimiter
    this.#delimiterCode = delimiter.charCodeAt(0)
    this.#bytes = Buffer.allocUnsafe(sizeBytes)
  }

  cell (text: string): void {
    this.#ensureCapacity(text.length)
    const bytes = this.#bytes
    const delimiter = this.#delimiterCode
    let at = this.#at
    const isPlain = !this.#safe || guardCell(text) === text
    for (let index = 0; index < text.length; index++) {
      const code = text.charCodeAt(index)
      const isSpecial = code === delimiter || code === QUOTE || code === CR || code === LF
      if (code > LAST_OF_ASCII || isSpecial || !isPlain) return this.#writeEncoded(text)
      bytes[at++] = code
    }
    this.#at = at
  }

  delimit (): void {
    this.#bytes[this.#at++] = this.#delimiterCode
  }

  endLine (): void {
    if (this.#at === this.#lineStart) this.#at += this.#bytes.write(BLANK_CELL, this.#at)
    this.#bytes[this.#at++] = CR
    this.#bytes[this.#at++] = LF
    this.#lineStart = this.#at
  }

  /** Appends encoded cells, including the delimiters between them. */
  cells (bytes: Uint8Array): void {
    this.#ensureCapacity(bytes.length)
    this.#bytes.set(bytes, this.#at)
    this.#at += bytes.length
  }

  /** The number of bytes written so far. */
  get length (): number {
    return this.#at
  }

  /** The bytes written so far. */
  bytes (): Buffer {
    return this.#bytes.subarray(0, this.#at)
  }

  #writeEncoded (plain: string): void {
    const text = csvCell(this.#safe ? guardCell(plain) : plain, this.#delimiter)
    this.#ensureCapacity(text.length)
    this.#at += this.#bytes.write(text, this.#at)
  }

  /** Grows the buffer for this many units, quotes and separators. */
  #ensureCapacity (units: number): void {
    const needed = this.#at + MAX_BYTES_PER_UNIT * units + OVERHEAD_BYTES
    if (needed <= this.#bytes.length) return
    const larger = Buffer.allocUnsafe(2 * needed)
    larger.set(this.bytes())
    this.#bytes = larger
  }
}

/** A line of a CSV file, ended by CRLF. */
export function csvLine (cells: readonly string[], delimiter = ','): string {
  return `${cells.map(cell => csvCell(cell, delimiter)).join(delimiter) || BLANK_CELL}\r\n`
}

/** A line of a CSV file that spreadsheets run no formula of, ended by CRLF. */
export function guardedLine (cells: readonly string[]): string {
  return csvLine(cells.map(guardCell))
}
