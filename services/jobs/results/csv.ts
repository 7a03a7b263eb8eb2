import { ID_COLUMN } from '../../../schemas/api/columns.ts'
import { csvCell, guardCell, uniqueNames } from '../../../schemas/files/csv-format.ts'
import type { CompletedRows } from '../../../schemas/types.ts'
import type { Job } from '../job.ts'
import type { StoredColumn } from './block.ts'
import { listColumns, INPUT_COLUMNS, type JobColumns, listRowFields } from './columns.ts'
import {
  columnsIn, createCellReader, createNumberReader, type MergedChunk, oncePerBlock, type ReadChunk,
  referenceAt,
} from './merge.ts'

/**
 * `safe` guards cells against formulas; `columns` and `keep` select cells and rows; `original` puts
 * the customer's columns of these names before them; `ids` adds the ids of the inputs, `options`
 * the columns of the options of the job; `delimiter` separates cells, a comma by default.
 */
export type CsvOptions = JobColumns & {
  readonly safe?: boolean
  readonly delimiter?: string
  readonly columns?: readonly string[]
  readonly keep?: ((cells: readonly string[]) => boolean) | undefined
  readonly original?: readonly string[] | undefined
}

/** Lines of some rows of a chunk, and the index of the first row after them. */
type CsvPiece = { readonly lines: Buffer, readonly nextRow: number }

function columnNames (job: Job, { columns, original, ...more }: CsvOptions): readonly string[] {
  const all = listColumns(job.service, more)
  return columns ?? (original === undefined ? all : joinedColumns(all))
}

/**
 * The first line of the file, as cells: in a joined file the customer's columns, then ours, with a
 * prefix where the customer has a column of that name.
 */
export function csvHeader (job: Job, options: CsvOptions): readonly string[] {
  const columns = columnNames(job, options)
  const { original, safe = false } = options
  if (original === undefined) return columns
  const names = [...original, ...uniqueNames(columns, original)]
  return safe ? names.map(guardCell) : names
}

/** Encodes rows of a chunk, from the row with index `from` until a piece is full. */
type EncodeChunk = (chunk: ReadChunk, from: number) => CsvPiece

/** How cells are written; `safe` guards those that a spreadsheet would run. */
type CellStyle = { readonly safe: boolean, readonly delimiter: string }

const FIRST_SIZE_BYTES = 65_536
/** Few milliseconds of work; a piece exceeds it by less than a line. */
const PIECE_BYTES = 262_144
const SPARE_BYTES = 16_384

/**
 * Creates an encoder of chunks, equal to `csvLine` of the cells of each row. Cells mostly repeat,
 * so adjacent columns of few distinct values are joined once for all rows that agree in them: a row
 * is then a handful of texts instead of one per column. Duplicates, and rows that `keep` decides
 * on, are written from their cells.
 */
export function createCsv (job: Job, options: CsvOptions): EncodeChunk {
  const { safe = false, delimiter = ',', keep, original } = options
  const fields = listRowFields(job.service)
  const names = columnNames(job, options)
  const positions = names.map(name => fields.indexOf(name))
  const idAt = names.indexOf(ID_COLUMN)
  const cellsAt = createCellReader(fields)
  const readers = createReaders()
  const writeOriginal = original && createOriginalCsv(original, { safe, delimiter })
  const readSegments = oncePerBlock(rows => segmentsIn(rows, names, readers, { safe, delimiter }))
  let sizeBytes = FIRST_SIZE_BYTES
  return ({ merged: chunk, repeated }, from) => {
    const writer = new CsvWriter({ safe, delimiter, sizeBytes })
    const segments = keep === undefined ? chunk.blocks.map(readSegments) : []
    let index = from
    for (; index < chunk.rows && writer.length < PIECE_BYTES; index++) {
      const cells = repeated.get(index) ?? (keep && cellsAt(chunk, index))
      if (cells !== undefined && keep?.(cells) === false) continue
      if (writeOriginal !== undefined) {
        writer.cells(Buffer.from(writeOriginal(chunk, index)))
        if (names.length > 0) writer.delimit()
      }
      if (cells === undefined) {
        writeSegments(writer, segments[chunk.blockOf[index] ?? 0] ?? [], chunk, index)
      } else {
        for (const [at, position] of positions.entries()) {
          if (at > 0) writer.delimit()
          writer.cell(at === idAt ? referenceAt(chunk, index) : cells[position] ?? '')
        }
      }
      writer.endLine()
    }
    const lines = writer.bytes()
    // Pieces of a job have similar sizes, so the next buffer rarely has to grow.
    sizeBytes = Math.max(sizeBytes, lines.length + SPARE_BYTES)
    return { lines, nextRow: index }
  }
}

/** Reads a cell that is not stored as such, of a row that is no duplicate. */
type ReadText = (chunk: MergedChunk, index: number) => string

/** The readers of the columns that no block has as such. */
function createReaders (): ReadonlyMap<string, ReadText> {
  const numberAt = createNumberReader()
  return new Map<string, ReadText>([
    ['row', ({ firstRow }, index) => String(firstRow + index + 1)],
    ['input', ({ inputs }, index) => inputs[index] ?? ''],
    [ID_COLUMN, referenceAt],
    ...Object.entries(INPUT_COLUMNS).map(([name, read]): [string, ReadText] =>
      [name, (chunk, index) => read(chunk.inputs[index] ?? '', numberAt(chunk, index))]),
  ])
}

function writeSegments (
  writer: CsvWriter, segments: readonly Segment[], chunk: MergedChunk, index: number
): void {
  const position = chunk.positionOf[index] ?? 0
  for (let at = 0; at < segments.length; at++) {
    const segment = segments[at] as Segment
    if (at > 0) writer.delimit()
    if (segment.kind === 'values') writer.cell(segment.values[position] ?? '')
    else if (segment.kind === 'read') writer.cell(segment.read(chunk, index))
    else writer.cells(segment.texts[segment.at[position] ?? 0] as Buffer)
  }
}

/** A column with one value per row. */
type Values = { readonly kind: 'values', readonly values: readonly string[] }

/** Adjacent dictionary columns: their distinct joined texts, and the index of each row's text. */
type JoinedColumns = {
  readonly kind: 'joined'
  readonly texts: readonly Buffer[]
  readonly at: Int32Array
}

/** A column that no block has as such. */
type ReadColumn = { readonly kind: 'read', readonly read: ReadText }

type Segment = Values | JoinedColumns | ReadColumn

/** A column of few distinct values: its encoded cells, and the index of each row's cell. */
type DictionaryColumn = { readonly cells: readonly string[], readonly at: readonly number[] }

function segmentsIn (
  rows: CompletedRows, names: readonly string[], readers: ReadonlyMap<string, ReadText>,
  { safe, delimiter }: CellStyle
): readonly Segment[] {
  const encode = (text: string) => csvCell(safe ? guardCell(text) : text, delimiter)
  const segments: Segment[] = []
  let dictionaries: DictionaryColumn[] = []
  const flush = () => {
    if (dictionaries.length > 0) {
      segments.push(joinColumns(dictionaries, rows.rows.length, delimiter))
    }
    dictionaries = []
  }
  for (const [at, column] of columnsIn(rows, names).entries()) {
    const read = readers.get(names[at] ?? '')
    const next = read === undefined ? buildDictionary(column, encode) : undefined
    if (next !== undefined) {
      dictionaries.push(next)
      continue
    }
    flush()
    segments.push(read === undefined
      ? { kind: 'values', values: column?.values ?? [] }
      : { kind: 'read', read })
  }
  flush()
  return segments
}

/** Undefined for a column with one value per row; a missing column is blank. */
function buildDictionary (
  column: StoredColumn | undefined, encode: (text: string) => string
): DictionaryColumn | undefined {
  if (column === undefined) return { cells: [''], at: [] }
  return column.at.length === 0 ? undefined : { cells: column.values.map(encode), at: column.at }
}

/** Numbers rows column by column: rows with one number agree in all columns so far. */
function joinColumns (
  dictionaries: readonly DictionaryColumn[], rows: number, delimiter: string
): JoinedColumns {
  const numbers = new Int32Array(rows)
  let firstRows = [0]
  for (const { cells, at } of dictionaries) {
    if (cells.length === 1) continue
    const firsts: number[] = []
    const numberOf = new Int32Array(firstRows.length * cells.length)
    for (let row = 0; row < rows; row++) {
      const pair = (numbers[row] ?? 0) * cells.length + (at[row] ?? 0)
      // Counted from 1, as 0 stands for none yet.
      const number = numberOf[pair] || firsts.push(row)
      numberOf[pair] = number
      numbers[row] = number - 1
    }
    firstRows = firsts
  }
  const texts = firstRows.map(row =>
    Buffer.from(dictionaries.map(({ cells, at }) => cells[at[row] ?? 0]).join(delimiter)))
  return { kind: 'joined', texts, at: numbers }
}

/** The joined file has these already: the column of the contacts, and the order of the lines. */
const OMITTED: ReadonlySet<string> = new Set(['row', 'input'])

/** The columns that are joined unless others are selected. */
export function joinedColumns (columns: readonly string[]): readonly string[] {
  return columns.filter(name => !OMITTED.has(name))
}

/**
 * Creates a reader of the customer's part of a line, as CSV with one cell for each of its columns:
 * stored lines, which have commas, may have fewer. It is blank if the block that held it is lost.
 */
function createOriginalCsv (
  columns: readonly string[], { safe, delimiter }: CellStyle
): (chunk: MergedChunk, index: number) => string {
  const delimiters = delimiter.repeat(columns.length - 1)
  const isAsStored = !safe && delimiter === ','
  return (chunk, index) => {
    const line = referenceAt(chunk, index)
    const cells = isAsStored && !line.includes('"') ? undefined : splitLine(line)
    const count = cells?.length ?? countCommas(line) + 1
    const text = isAsStored || cells === undefined
      ? line
      : cells.map(cell => csvCell(safe ? guardCell(cell) : cell, delimiter)).join(delimiter)
    return count < columns.length ? text + delimiters.slice(0, columns.length - count) : text
  }
}

function countCommas (line: string): number {
  let count = 0
  for (let at = line.indexOf(','); at !== -1; at = line.indexOf(',', at + 1)) count += 1
  return count
}

/**
 * Creates a writer of the customer's cells in a line, as a JSON object by column name. A blank or
 * repeated name is replaced by `column_` and its position.
 */
export function createOriginalJson (columns: readonly string[]): (line: string) => string {
  const keys = uniqueKeys(columns).map(name => `${JSON.stringify(name)}:`)
  const blanks = keys.map(key => `${key}""`)
  return line => {
    const cells = splitLine(line)
    const members = blanks.map((blank, at) => {
      const cell = cells[at]
      return cell === undefined || cell === '' ? blank : `${keys[at]}${JSON.stringify(cell)}`
    })
    return `{${members.join(',')}}`
  }
}

/** The names of columns; a blank or repeated one is replaced by `column_` and its position. */
export function uniqueKeys (columns: readonly string[]): readonly string[] {
  const used = new Set<string>()
  return columns.map((column, at) => {
    let name = column.trim() === '' || used.has(column) ? `column_${at + 1}` : column
    while (used.has(name)) name = `${name}_`
    used.add(name)
    return name
  })
}

/** The cells of a submitted line: `csvCell` of each, with commas between them. */
export function splitLine (line: string): readonly string[] {
  if (!line.includes('"')) return line.split(',')
  const cells: string[] = []
  for (let from = 0; from <= line.length;) {
    const end = endOfCell(line, from)
    const text = line.slice(from, end)
    cells.push(text.startsWith('"') ? text.slice(1, -1).replaceAll('""', '"') : text)
    from = end + 1
  }
  return cells
}

/** Index of the comma after the cell that begins at `from`, or the length of the line. */
function endOfCell (line: string, from: number): number {
  let start = from
  if (line[from] === '"') {
    let quote = line.indexOf('"', from + 1)
    while (quote !== -1 && line[quote + 1] === '"') quote = line.indexOf('"', quote + 2)
    if (quote === -1) return line.length
    start = quote + 1
  }
  const comma = line.indexOf(',', start)
  return comma === -1 ? line.length : comma
}

/** Longer names of files are cut. */
const MAX_NAME_CHARACTERS = 100
/** What a path, a header or a file system could understand otherwise. */
const UNSAFE = /[\p{C}\p{Zl}\p{Zp}"*/:<>?\\|]/gu
/** Of a file, also where it says which part of it a job is. */
const ENDING = /\.(?:csv|tsv|txt|xlsx)(?=$| \(\d+ of \d+\)$)/i

/**
 * The header `Content-Disposition` (RFC 6266) of a result file: named after the file that was
 * uploaded, as its sender called it, or else after the job. `end` follows the name: `.csv`.
 */
export function resultDisposition (
  id: string, { upload = '', end }: { readonly upload?: string | undefined, readonly end: string }
): string {
  const stem = upload.normalize('NFC').replace(ENDING, '')
    .replace(UNSAFE, '_').replace(/^[\s.]+|[\s.]+$/g, '')
  if (stem === '') return `attachment; filename="${id}${end}"`
  const name = `${[...stem].slice(0, MAX_NAME_CHARACTERS).join('').toWellFormed()}.verified${end}`
  const ascii = name.normalize('NFKD').replace(/\p{M}/gu, '').replace(/[^ -~]/g, '_')
  // RFC 8187: only these characters stay as they are.
  const encoded = encodeURIComponent(name).replace(/['()]/g, character =>
    `%${character.charCodeAt(0).toString(16).toUpperCase()}`)
  return `attachment; filename="${ascii.replaceAll('%', '_')}"; filename*=UTF-8''${encoded}`
}

const [QUOTE, CR, LF] = [0x22, 0x0d, 0x0a] as const
const LAST_OF_ASCII = 0x7f

/** UTF-8 needs at most three bytes per UTF-16 unit, plus quotes and separators. */
const MAX_BYTES_PER_UNIT = 3
const OVERHEAD_BYTES = 8

/** The only cell of a line, if it is blank: many readers skip lines without a character. */
const BLANK_CELL = '""'

/**
 * Writes CSV cells, `csvCell` of each, into one buffer. Nearly all cells are plain ASCII, which is
 * checked and written in one pass: a row of many cells takes half the time of building a string.
 * `safe` guards cells that a spreadsheet would run as formulas; `delimiter` is of ASCII.
 */
class CsvWriter {
  readonly #safe: boolean
  readonly #delimiter: string
  readonly #delimiterCode: number
  #bytes: Buffer
  #at = 0
  #lineStart = 0

  constructor ({ safe, delimiter, sizeBytes }: CellStyle & { readonly sizeBytes: number }) {
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
