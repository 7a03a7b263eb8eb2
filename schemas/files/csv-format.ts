// How the service, its clients and its pages read CSV files, and name the columns of joined ones.
// Browsers load this file too, without its types: it imports nothing.

/** Delimiters that are detected, by the names that requests may use. */
export const DELIMITERS = { comma: ',', semicolon: ';', tab: '\t', pipe: '|' } as const

/** The most columns of a file. */
export const MAX_COLUMNS = 500

/** The most bytes of a line of a file, its quoted line breaks included. */
export const MAX_LINE_BYTES = 65_536

/**
 * The most bytes of the names of all columns, as JSON: results as JSON repeat them in every row.
 */
export const MAX_NAMES_BYTES = 32_768

const [TAB, LF, CR, QUOTE, SPACE] = [0x09, 0x0a, 0x0d, 0x22, 0x20] as const
const UTF8_MARK = [0xef, 0xbb, 0xbf] as const

/** The bytes of a file that decide how it is read. */
export const SAMPLE_BYTES = 65_536

/** A file that is not CSV in a supported form; the message says what it is, and what to do. */
export class UnreadableFile extends Error {
  readonly code: 'invalid_file' | 'invalid_encoding'

  constructor (code: UnreadableFile['code'], message: string) {
    super(message)
    this.code = code
  }
}

const SAVE_AS = 'Open it in a spreadsheet, and save it as a workbook (.xlsx) or "CSV UTF-8".'
const SAVE_AS_CSV = 'Open it in a spreadsheet, and save it as "CSV UTF-8".'
const UNPACK = 'Unpack it, and take the file in it.'
const EXPORT = 'Export the contacts as "CSV UTF-8".'
const ZIP = 'PK\x03\x04'
const OLD_OFFICE = '\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1'
const SIGNATURES: readonly (readonly [start: string, what: string, remedy: string])[] = [
  ['PK\x05\x06', 'an empty ZIP archive', UNPACK],
  ['%PDF-', 'a PDF', EXPORT],
  ['\x1f\x8b', 'compressed with gzip', UNPACK],
  ['\x28\xb5\x2f\xfd', 'compressed with zstd', UNPACK],
  ['\xfd7zXZ\0', 'compressed with xz', UNPACK],
  ['BZh91AY&SY', 'compressed with bzip2', UNPACK],
  ['7z\xbc\xaf\x27\x1c', 'a 7-Zip archive', UNPACK],
  ['Rar!\x1a\x07', 'a RAR archive', UNPACK],
  ['\x89PNG\r\n\x1a\n', 'an image', EXPORT],
  ['\xff\xd8\xff', 'an image', EXPORT],
  ['GIF87a', 'an image', EXPORT],
  ['GIF89a', 'an image', EXPORT],
  ['II*\0', 'an image', EXPORT],
  ['MM\0*', 'an image', EXPORT],
  ['PAR1', 'a file in Parquet', EXPORT],
  ['Obj\x01', 'a file in Avro', EXPORT],
  ['\x04\x22\x4d\x18', 'compressed with LZ4', UNPACK],
  ['!BDN', 'a mailbox of Outlook (.pst)', EXPORT],
  ['bplist00', 'a property list', EXPORT],
  ['\0\x01\0\0Standard ', 'a database of Access', EXPORT],
  ['SQLite format 3\0', 'a database of SQLite', EXPORT],
  ['{\\rtf', 'a document in RTF', EXPORT],
]
/** Signatures that follow other bytes. */
const INNER_SIGNATURES: readonly (readonly [RegExp, what: string, remedy: string])[] = [
  [/^RIFF[^]{4}WEBP/, 'an image', EXPORT],
  [/^[^]{4}ftyp(?:hei[cx]|mif1|avif)/, 'an image', EXPORT],
  [/^[^]{4}ftyp/, 'a video', EXPORT],
  [/^[^]{257}ustar[\0 ]/, 'an archive (.tar)', UNPACK],
]
const MARKUP = /^\s{0,100}<(?:!doctype html|html|table|\?xml)\b/i
/** Of Office Open XML and OpenDocument, near the beginning of the archive. */
const WORKBOOK = /\bxl\/|\[Content_Types\]\.xml|opendocument\.spreadsheet|Index\/Tables/

/** The encoding of a file in UTF-16, by its byte order mark or its bytes of zero. */
export function detectUtf16 (sample: Uint8Array): 'utf-16le' | 'utf-16be' | undefined {
  const [first, second] = sample
  const isUtf32 = (second === 0xfe && sample[2] === 0 && sample[3] === 0)
  if (first === 0xff && second === 0xfe) return isUtf32 ? undefined : 'utf-16le'
  if (first === 0xfe && second === 0xff) return 'utf-16be'
  const bytes = sample.subarray(0, 1_024)
  let [even, odd] = [0, 0]
  for (let at = 0; at < bytes.length; at++) {
    if (bytes[at] !== 0) continue
    if (at % 2 === 0) even += 1
    else odd += 1
  }
  if (odd > bytes.length / 4 && even === 0) return 'utf-16le'
  return even > bytes.length / 4 && odd === 0 ? 'utf-16be' : undefined
}

/** Whether a file begins as an archive (ZIP), which a workbook is. */
export function isArchive (bytes: Uint8Array): boolean {
  return bytes[0] === 0x50 && bytes[1] === 0x4b && bytes[2] === 0x03 && bytes[3] === 0x04
}

/**
 * Names a file that is not text. The whole file may be given, of which a sample is looked at, or
 * what begins as an old document of Microsoft Office.
 * @throws UnreadableFile for a workbook, an archive, UTF-16 or another binary file.
 */
export function checkReadable (file: Uint8Array): void {
  const sample = file.subarray(0, SAMPLE_BYTES)
  const text = new TextDecoder('latin1').decode(sample)
  // What the decoder maps to other characters are bytes from 0x80 to 0x9f.
  const start = String.fromCharCode(...sample.subarray(0, 16))
  const signature = SIGNATURES.find(([bytes]) => start.startsWith(bytes))
  if (signature !== undefined) throw seemsToBe(signature[1], signature[2])
  if (start.startsWith(OLD_OFFICE)) throw seemsToBe(...nameOldOffice(file))
  const inner = INNER_SIGNATURES.find(([pattern]) => pattern.test(text))
  if (inner !== undefined) throw seemsToBe(inner[1], inner[2])
  if (start.startsWith(ZIP)) {
    throw WORKBOOK.test(text)
      ? seemsToBe('a workbook of a spreadsheet (.xlsx, .ods)', SAVE_AS_CSV)
      : seemsToBe('a ZIP archive', UNPACK)
  }
  if (MARKUP.test(text)) throw seemsToBe('a page in HTML or XML', SAVE_AS)
  if (detectUtf16(sample) !== undefined) {
    throw new UnreadableFile('invalid_encoding', 'The file is not CSV in UTF-8: it seems to be ' +
      'text in UTF-16 ("Unicode text"). Save it as "CSV UTF-8".')
  }
  if (!text.includes('\0') && !isMostlyControls(sample)) return
  throw new UnreadableFile('invalid_encoding', 'The file is not text in UTF-8: it seems to be a ' +
    'binary file. Save its contacts as "CSV UTF-8".')
}

/**
 * What a compound file of Microsoft Office is, by the names of its streams in UTF-16, which may be
 * anywhere in it; and what to do.
 */
function nameOldOffice (bytes: Uint8Array): readonly [what: string, remedy: string] {
  const text = new TextDecoder('latin1').decode(bytes)
  const hasStream = (name: string) => text.includes(name.split('').join('\0'))
  if (hasStream('EncryptedPackage')) return ['a workbook with a password', 'Save it without one.']
  if (hasStream('WordDocument')) return ['an old Word document (.doc)', EXPORT]
  return ['an old Excel workbook (.xls)', SAVE_AS]
}

function seemsToBe (what: string, remedy: string): UnreadableFile {
  return new UnreadableFile('invalid_file', `The file seems to be ${what}. ${remedy}`)
}

const MAX_CONTROLS_SHARE = 0.02

/** Whether bytes are neither UTF-8 nor text in an older encoding. */
function isMostlyControls (sample: Uint8Array): boolean {
  let controls = 0
  for (const byte of sample) {
    if (byte < SPACE && (byte < TAB || byte > CR) && byte !== 0x1a && byte !== 0x1b) controls += 1
  }
  if (controls <= MAX_CONTROLS_SHARE * sample.length) return false
  return !decodesAsUtf8(sample, false)
}

/** How a file is read, from its sample. */
export type CsvFormat = {
  readonly delimiter: string
  /** Whether it begins with the byte order mark of UTF-8. */
  readonly hasMark: boolean
  /** The line `sep=;`, with which Excel names the delimiter, without its end; '' without one. */
  readonly sepLine: string
  /** Index of the first byte after the byte order mark and the line `sep=`. */
  readonly start: number
}

const SEP_LINE =
  /^(?:sep=(\\t|[^\r\n])|"sep=(\\t|[^\r\n])")[,;\t|]{0,99} {0,9}(?=(\r{0,4}\n|\r|$))/i
const MAX_SEP_BYTES = 120

/**
 * Detects the format of a file from its first SAMPLE_BYTES, or all of a smaller one. A delimiter
 * may be named in advance.
 * @throws UnreadableFile for a line `sep=` with a delimiter that is not supported.
 */
export function detectFormat (sample: Uint8Array, delimiter?: string): CsvFormat {
  const hasMark = UTF8_MARK.every((byte, at) => sample[at] === byte)
  const markBytes = hasMark ? UTF8_MARK.length : 0
  const first = String.fromCharCode(...sample.subarray(markBytes, markBytes + MAX_SEP_BYTES))
  const sep = SEP_LINE.exec(first)
  const [sepLine = '', plain, quoted, sepEnd = ''] = sep ?? []
  const start = markBytes + sepLine.length + sepEnd.length
  if (delimiter !== undefined) return { delimiter, hasMark, sepLine, start }
  const named = (plain ?? quoted)?.replace('\\t', '\t')
  if (named === undefined) {
    return { delimiter: detectDelimiter(sample.subarray(start)), hasMark, sepLine, start }
  }
  if (Object.values<string>(DELIMITERS).includes(named)) {
    return { delimiter: named, hasMark, sepLine, start }
  }
  throw new UnreadableFile('invalid_file', `The first line of the file, sep=${named}, names a ` +
    'delimiter that is not supported. Separate the cells with a comma, semicolon, tab or bar.')
}

const SAMPLE_LINES = 50
/** The rarest in text first: of candidates that fit equally well, it is the delimiter. */
const BY_RARITY = [DELIMITERS.tab, DELIMITERS.pipe, DELIMITERS.semicolon, DELIMITERS.comma]

/**
 * The delimiter that splits the first line, and most other lines into as many cells. A comma loses
 * to another one that splits all lines: text and numbers contain commas. Without a
 * delimiter that fits, the file has one column, and one that no line contains is returned.
 */
function detectDelimiter (sample: Uint8Array): string {
  const scored = BY_RARITY.map(delimiter => ({ delimiter, ...scoreDelimiter(sample, delimiter) }))
  const fitting = scored.filter(({ width, equal, wider, isRegular, isSpaced }) =>
    width > 1 && (wider <= equal || (isRegular && !isSpaced)))
  const others = fitting.filter(({ delimiter }) => delimiter !== DELIMITERS.comma)
  const candidates = others.some(({ splitsAll }) => splitsAll) ? others : fitting
  const [best] = candidates.sort((a, b) =>
    b.equal - a.equal || a.wider - b.wider || b.width - a.width)
  return (best ?? scored.findLast(({ splits }) => !splits))?.delimiter ?? DELIMITERS.tab
}

function scoreDelimiter (sample: Uint8Array, delimiter: string) {
  const latin1 = (from: number, to: number) => String.fromCharCode(...sample.subarray(from, to))
  const scanner = new CsvScanner(sample, {
    delimiter,
    start: 0,
    decode: (from, to) => to - from > 100 ? 'x' : latin1(from, to),
    maxRecordBytes: SAMPLE_BYTES,
    maxBlankLines: SAMPLE_BYTES,
  })
  const rows: (readonly string[])[] = []
  for (let next = scanner.next(); next !== undefined; next = scanner.next()) {
    if (next.kind === 'blank') continue
    // The last line of a sample may be cut.
    const isCut = sample.length >= SAMPLE_BYTES - MAX_SEP_BYTES && scanner.position >= sample.length
    if (next.kind !== 'cells' || (isCut && rows.length > 0)) break
    if (next.cells.some(cell => cell.trim() !== '') && rows.push(next.cells) === SAMPLE_LINES) break
  }
  const width = rows[0]?.length ?? 0
  const middle = rows.map(cells => cells.length).sort((a, b) => a - b)[rows.length >> 1]
  return {
    width,
    equal: rows.filter(cells => cells.length === width).length,
    /** More cells than the first line has, and not only blank ones. */
    wider: rows.filter(cells => cells.slice(width).some(cell => cell !== '')).length,
    /** Whether most lines have as many cells as each other. */
    isRegular: rows.filter(cells => cells.length === middle).length > rows.length / 2,
    splits: rows.some(cells => cells.length > 1),
    splitsAll: width > 1 && rows.every(cells => cells.length > 1),
    /** As commas in text are. */
    isSpaced: rows.every(cells => cells.slice(1).every(cell => cell.startsWith(' '))),
  }
}

/** `ß` in Windows-1252; in UTF-8 the first byte of N'Ko letters alone: `Spaß…` is no UTF-8. */
const SHARP_S = 0xdf

/**
 * Whether a cell of a file that is not UTF-8 as a whole is UTF-8 nevertheless: a file that was
 * joined of several, or cut within a character, must not have all its other cells read wrong.
 */
export function isUtf8Cell (bytes: Uint8Array): boolean {
  let at = 0
  while (at < bytes.length) {
    const first = bytes[at] ?? 0
    const second = bytes[at + 1] ?? 0
    // The well-formed sequences (Unicode, table 3-7).
    const length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4
    const least = first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80
    const most = first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf
    if (length === 0 || first > 0xf4 || first === SHARP_S) return false
    if (length > 1 && (second < least || second > most)) return false
    for (let next = at + 2; next < at + length; next++) {
      if (((bytes[next] ?? 0) & 0xc0) !== 0x80) return false
    }
    at += length
  }
  return true
}

/** The beginning of a file as the service reads it, for people who choose its column. */
export type FileHead = {
  readonly delimiter: string
  /** Index of the first byte of its first line. */
  readonly start: number
  readonly rows: readonly (readonly string[])[]
  /** Index after the last whole row that is not behind `maxBytes`. */
  readonly end: number
}

/**
 * Reads the first rows of a file. @throws UnreadableFile for a cell without its last quote.
 */
export function readHead (file: Uint8Array, maxBytes: number): FileHead {
  const head = file.subarray(0, maxBytes)
  const { delimiter, start, sepLine } = detectFormat(head.subarray(0, SAMPLE_BYTES))
  const isUtf8 = decodesAsUtf8(file)
  const [utf8, windows] = [
    new TextDecoder('utf-8', { ignoreBOM: true }), new TextDecoder('windows-1252'),
  ]
  const scanner = new CsvScanner(head, {
    delimiter,
    start,
    line: sepLine === '' ? 0 : 1,
    decode: (from, to) => {
      const cell = head.subarray(from, to)
      return (isUtf8 || isUtf8Cell(cell) ? utf8 : windows).decode(cell)
    },
    maxRecordBytes: head.length,
    maxBlankLines: head.length,
  })
  const isCut = file.length > head.length
  const rows: (readonly string[])[] = []
  let end = head.length
  for (let next = scanner.next(); next !== undefined; next = scanner.next()) {
    // The last row of a large file is cut.
    if (isCut && scanner.position >= head.length) break
    if (isCut) end = scanner.position
    if (next.kind === 'unclosed') {
      throw new UnreadableFile('invalid_file', `Line ${next.line} of the file has a cell that ` +
        'begins with a double quote, and no quote that ends it. Close it.')
    }
    if (next.kind === 'cells' && !isBlankLine(next.cells)) rows.push(next.cells)
  }
  return { delimiter, start, rows, end }
}

/** Whether a line is blank: without a byte, or with an empty cell between quotes. */
export function isBlankLine (cells: readonly string[]): boolean {
  return cells.length === 1 && cells[0] === ''
}

/** Which blank lines of a file are rows: those between other lines, not at its start and end. */
export class BlankLines {
  #lines = 0
  #isInTable = false

  /** How many rows the blank lines before this one are; undefined for one that is blank itself. */
  rowsBefore (record: CsvRecord): number | undefined {
    if (record.kind === 'blank' || (record.kind === 'cells' && isBlankLine(record.cells))) {
      this.#lines += record.kind === 'blank' ? record.lines : 1
      return undefined
    }
    const rows = this.#isInTable ? this.#lines : 0
    this.#isInTable = true
    this.#lines = 0
    return rows
  }
}

/** Where a file is cut for several jobs: each part is read behind the first `head` bytes. */
export type FileParts = {
  readonly head: number
  readonly parts: readonly (readonly [from: number, to: number])[]
}

/**
 * Cuts a file between rows into parts of at most so many rows and bytes, which jobs take. Blank
 * lines where it is cut are at the end of a part, and so no rows.
 */
export function splitRows (
  file: Uint8Array, { delimiter, start, hasHeader, maxRows, maxBytes }: {
    readonly delimiter: string
    readonly start: number
    readonly hasHeader: boolean
    readonly maxRows: number
    readonly maxBytes: number
  }
): FileParts {
  const scanner = new CsvScanner(file, {
    delimiter,
    start,
    decode: (from, to) => from < to ? 'x' : '',
    maxRecordBytes: file.length,
    maxBlankLines: file.length,
  })
  const blankLines = new BlankLines()
  const parts: [from: number, to: number][] = []
  let head = hasHeader ? undefined : start
  let [from, to, rows] = [start, start, 0]
  for (let at = scanner.position, next = scanner.next(); next !== undefined;
    at = scanner.position, next = scanner.next()) {
    const blankRows = blankLines.rowsBefore(next)
    if (blankRows === undefined) continue
    if (head === undefined) {
      head = from = to = scanner.position
      continue
    }
    rows += blankRows + 1
    if (to > from && (rows > maxRows || scanner.position - from > maxBytes)) {
      parts.push([from, to])
      from = at
      rows = 1
    }
    to = scanner.position
  }
  return { head: head ?? start, parts: [...parts, [from, file.length]] }
}

/** Whether all bytes are UTF-8. */
function decodesAsUtf8 (bytes: Uint8Array, isWhole = true): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: !isWhole })
    return true
  } catch {
    return false
  }
}

type ScanOptions = {
  /** One character of ASCII. */
  readonly delimiter: string
  /** Index of the first byte. */
  readonly start: number
  /** Lines before it; 0 if left out. */
  readonly line?: number
  /** The text of a range of the bytes. */
  readonly decode: (from: number, to: number) => string
  /** Of a record without its end; a longer one ends the scan. */
  readonly maxRecordBytes: number
  /** The most blank lines in one step. */
  readonly maxBlankLines: number
}

/** A step of the scan. `line` counts from 1: the last line that was read. */
export type CsvRecord = { readonly line: number } & (
  /** `end` is the index after the last byte, without the end of the record. */
  | { readonly kind: 'cells', readonly cells: readonly string[], readonly end: number }
  /** Adjacent lines without a byte, or with an empty cell between quotes; `end` of the last one. */
  | { readonly kind: 'blank', readonly lines: number, readonly end: number }
  | { readonly kind: 'long' }
  /** A cell that begins in this line with a quote, and no quote that ends it. */
  | { readonly kind: 'unclosed' }
)

/** Programs that write lines with CRLF in the text mode of Windows add a CR each time. */
const MAX_CRS = 4

/**
 * Splits CSV in UTF-8 or an encoding of one byte for a character into records, one for each call.
 * Works through every byte once, so that the cost follows the bytes: a parser that needs an error
 * object for each short line, or copies a cell for a quote in it, can be slowed down by what it
 * reads.
 *
 * LF, CR and CRLF end a record, also with up to four CRs before the LF. A cell that begins with a
 * quote ends at the next quote before a delimiter, a record end or the end of the file; doubled
 * quotes in it are one. If another character follows its quote, both quotes are part of the cell
 * (RFC 4180 leaves this open), unless it contains line breaks: then a quote is missing, and lines
 * would be lost. Quotes elsewhere are characters, such as inch marks.
 */
export class CsvScanner {
  readonly #bytes: Uint8Array
  readonly #delimiter: number
  readonly #decode: ScanOptions['decode']
  readonly #maxRecordBytes: number
  readonly #maxBlankLines: number
  #at: number
  #line: number
  #end = 0
  /** Index after the last run of CRs, so that each is counted once. */
  #runEnd = 0

  constructor (bytes: Uint8Array, options: ScanOptions) {
    this.#bytes = bytes
    this.#delimiter = options.delimiter.charCodeAt(0)
    this.#decode = options.decode
    this.#maxRecordBytes = options.maxRecordBytes
    this.#maxBlankLines = options.maxBlankLines
    this.#at = options.start
    this.#line = options.line ?? 0
  }

  /** Index of the next byte. */
  get position (): number {
    return this.#at
  }

  /** The next record; undefined at the end, and after a violation. */
  next (): CsvRecord | undefined {
    if (this.#at >= this.#bytes.length) return undefined
    const lines = this.#skipBlankLines()
    if (lines > 0) return { kind: 'blank', lines, end: this.#end, line: this.#line }
    const cells: string[] = []
    const limit = this.#at + this.#maxRecordBytes
    for (;;) {
      this.#skipEmptyCells(cells, limit)
      const end = this.#bytes[this.#at] === QUOTE
        ? this.#quotedCell(cells, limit)
        : this.#plainCell(cells, this.#at, limit, '')
      if (end === 'delimiter') continue
      this.#line += 1
      if (end === 'record') return { kind: 'cells', cells, end: this.#end, line: this.#line }
      this.#at = this.#bytes.length
      return { kind: end, line: this.#line }
    }
  }

  /** Adds the cells before a delimiter that have no byte: a file may have little else. */
  #skipEmptyCells (cells: string[], limit: number): void {
    const bytes = this.#bytes
    const last = Math.min(bytes.length, limit)
    let at = this.#at
    for (; at < last && bytes[at] === this.#delimiter; at++) cells.push('')
    this.#at = at
  }

  /** Nothing is made for these lines: a file may have millions, where it has few other records. */
  #skipBlankLines (): number {
    const bytes = this.#bytes
    let lines = 0
    while (lines < this.#maxBlankLines) {
      const isQuoted = bytes[this.#at] === QUOTE && bytes[this.#at + 1] === QUOTE
      const end = isQuoted ? this.#at + 2 : this.#at
      const length = this.#recordEndAt(end)
      if (length === 0) break
      this.#end = end
      this.#at = end + length
      lines += 1
    }
    this.#line += lines
    return lines
  }

  /** Length of the record end at an index; 0 without one. */
  #recordEndAt (at: number): number {
    const bytes = this.#bytes
    if (bytes[at] === LF) return 1
    if (bytes[at] !== CR) return 0
    if (at >= this.#runEnd) {
      let next = at + 1
      while (bytes[next] === CR) next += 1
      this.#runEnd = next
    }
    const crs = this.#runEnd - at
    return crs <= MAX_CRS && bytes[this.#runEnd] === LF ? crs + 1 : 1
  }

  /** Ends a cell and its record at an index of a delimiter, a record end or the last byte. */
  #endCell (at: number): 'delimiter' | 'record' {
    if (at < this.#bytes.length && this.#bytes[at] === this.#delimiter) {
      this.#at = at + 1
      return 'delimiter'
    }
    this.#end = at
    this.#at = at + Math.max(this.#recordEndAt(at), 1)
    return 'record'
  }

  /** Adds the cell that begins at `from`; `before` is its text up to the current position. */
  #plainCell (
    cells: string[], from: number, limit: number, before: string
  ): 'delimiter' | 'record' | 'long' {
    const bytes = this.#bytes
    const delimiter = this.#delimiter
    const last = Math.min(bytes.length, limit + 1)
    let at = from
    let byte = bytes[at]
    while (at < last && byte !== delimiter && byte !== LF && byte !== CR) byte = bytes[++at]
    if (at > limit) return 'long'
    cells.push(at > from ? before + this.#decode(from, at) : before)
    return this.#endCell(at)
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
      if (at >= bytes.length) return 'unclosed'
      if (at >= limit) return 'long'
      const byte = bytes[at]
      if (byte === LF || (byte === CR && bytes[at + 1] !== LF)) lines += 1
      if (byte !== QUOTE) continue
      if (bytes[at + 1] !== QUOTE) break
      isDoubled = true
      at += 1
    }
    const next = at + 1
    const isEnd = next >= bytes.length || bytes[next] === this.#delimiter ||
      bytes[next] === LF || bytes[next] === CR
    if (!isEnd && lines > 0) return 'unclosed'
    this.#line += lines
    const raw = this.#decode(from, at)
    const text = isDoubled ? raw.replaceAll('""', '"') : raw
    if (!isEnd) return this.#plainCell(cells, next, limit, `"${text}"`)
    cells.push(text)
    return this.#endCell(next)
  }
}

/**
 * A name as it is compared: composed (NFC), in lower case, without surrounding space and invisible
 * characters, with a space for each white space of Unicode inside.
 */
export function foldedName (name: string): string {
  return name.replace(/\p{Cf}+/gu, '').replace(/[\s\u0085]+/gu, ' ').trim()
    .toLowerCase().normalize('NFC')
}

/**
 * The positions, from 0, of the columns with this name: those spelled exactly so, or else those
 * that are compared as equal.
 */
export function findPositions (header: readonly string[], name: string): readonly number[] {
  const where = (test: (column: string) => boolean) =>
    header.flatMap((column, position) => test(column) ? [position] : [])
  const exact = where(column => column === name)
  if (exact.length > 0) return exact
  const folded = foldedName(name)
  return where(column => foldedName(column) === folded)
}

const PREFIX = 'verified_'

/** The names of columns added to a file. A name that the file already has gets a prefix. */
export function uniqueNames (
  columns: readonly string[], header: readonly string[]
): readonly string[] {
  const used = new Set(header.map(foldedName))
  return columns.map(column => {
    let name = column
    while (used.has(name)) name = `${PREFIX}${name}`
    used.add(name)
    return name
  })
}

const NEEDS_QUOTES = /["\r\n]/

/**
 * Encodes a CSV cell by RFC 4180: doubles its quotes, and quotes it only if it contains a quote,
 * the delimiter, CR or LF.
 */
export function csvCell (text: string, delimiter = ','): string {
  return NEEDS_QUOTES.test(text) || text.includes(delimiter)
    ? `"${text.replaceAll('"', '""')}"`
    : text
}

/** Characters that start a formula, including their full-width forms. */
const FORMULA = '=+\\-@\uff1d\uff0b\uff0d\uff20'
const STARTS_FORMULA = new RegExp(`^[${FORMULA}\t\r\n]`)
/** Spreadsheets may treat a semicolon, tab or line break in a cell as a separator. */
const LATER_FORMULA = new RegExp(`(?<=[;\t\r\n])(?=[${FORMULA}])`, 'g')
const HARMLESS = /^[0-9 ()+./-]*$/

/**
 * Neutralizes a cell that a spreadsheet would run as a formula, by a leading single quote. Cells of
 * digits and punctuation, such as phone numbers, are harmless and stay as they are.
 */
export function guardCell (text: string): string {
  if (HARMLESS.test(text)) return text
  const guarded = text.replace(LATER_FORMULA, "'")
  return STARTS_FORMULA.test(text) ? `'${guarded}` : guarded
}
