// Reads Excel workbooks (.xlsx, ECMA-376) as streams, with bounds on what they inflate to.
import { StringDecoder } from 'node:string_decoder'
import { format, isDateFormat, isValidFormat } from 'numfmt'
import sax from 'sax'
import { fromBufferPromise, type Entry, type ZipFile } from 'yauzl'
import { csvCell, foldedName, UnreadableFile } from './csv-format.ts'

/** How a workbook is read. */
export type WorkbookOptions = {
  /** Name of the sheet, or its number from 1; the first visible one if left out. */
  readonly sheet?: string | undefined
  /** The most bytes that all parts that are read may inflate to. */
  readonly maxInflatedBytes: number
  /** Reads so many rows with cells at most; all if left out. */
  readonly maxRows?: number
  /** Awaited before each slice of work, which takes a few milliseconds at most. */
  readonly pause: () => Promise<void>
  /** Called before the large parts are read, with the memory that their texts may take. */
  readonly reserve?: (bytes: number) => void
}

/** A row of a sheet; `row` is its number from 1. Cells that the file lacks are blank. */
export type SheetRow = { readonly row: number, readonly cells: readonly string[] }

/** The sheet that was read, and the names of all. */
export type SheetFacts = { readonly sheet: string, readonly sheets: readonly string[] }

/** Workbooks with pictures or hundreds of sheets have some hundred. */
const MAX_PARTS = 2_000
/** Inflated bytes per byte of the file. Sheets have some 10 to 20, those of few values some 60. */
const MAX_RATIO = 150
/** What a workbook may inflate to whatever its size is. */
const FREE_BYTES = 2 * 1_024 * 1_024
const MAX_SHARED_STRINGS = 2_000_000
const MAX_SHARED_CHARACTERS = 48 * 1_024 * 1_024
/** Those of Excel. */
const MAX_CELL_CHARACTERS = 32_767
const MAX_ROWS = 1_048_576
const MAX_SHEET_COLUMNS = 16_384
const MAX_STYLES = 65_536
/** Excel allows 250. */
const MAX_FORMATS = 1_000
const MAX_FORMAT_CHARACTERS = 255
/** Of the list of sheets and of its relations, each; and of the styles. */
const MAX_LIST_BYTES = 2 * 1_024 * 1_024
const MAX_STYLES_BYTES = 16 * 1_024 * 1_024
const MAX_DEPTH = 32
const MAX_ATTRIBUTES = 64
const SLICE_BYTES = 32_768
const LISTED_SHEETS = 20
const LISTED_CHARACTERS = 60

const counted = (number: number) => number.toLocaleString('en-US')

function workbookError (message: string): UnreadableFile {
  return new UnreadableFile('invalid_file', message)
}

const DAMAGED = 'The workbook is damaged. Open it in a spreadsheet and save it again, or save it ' +
  'as "CSV UTF-8".'
const tooLarge = (what: string) => workbookError(`The workbook is too large: ${what}. Save the ` +
  'sheet with the contacts as a workbook of its own, or as "CSV UTF-8".')

/**
 * Reads one sheet of a workbook, row by row from the top; rows without cells are left out. A cell
 * is the text that a person sees, with these exceptions: a number is its digits where a spreadsheet
 * would shorten, group or round it, and a date in the format of the reader's country is
 * `YYYY-MM-DD`. Formulas have the value they had when the file was saved.
 *
 * The cost follows the inflated bytes, which are bounded by `maxInflatedBytes` and by the size of
 * the file. Memory holds the texts that cells share, and a slice of the sheet.
 * @throws UnreadableFile for another archive, a damaged workbook, one beyond a limit, or a sheet
 *   that it does not have; and what `add` throws.
 */
export async function readWorkbook (
  bytes: Buffer, options: WorkbookOptions, add: (row: SheetRow) => void
): Promise<SheetFacts> {
  const parts = await openParts(bytes, options)
  const { sheets, isFrom1904 } = await readSheetList(parts)
  const chosen = chooseSheet(sheets, options.sheet)
  const shared = parts.sizeOf(SHARED_STRINGS)
  const body = parts.sizeOf(chosen.path)
  options.reserve?.(
    2 * (Math.min(shared, MAX_SHARED_CHARACTERS) + parts.sizeOf(STYLES)) + body)
  const formats = await readFormats(parts)
  const strings = await readSharedStrings(parts)
  await readRows(parts, chosen.path, {
    strings, formats, isFrom1904, maxRows: options.maxRows ?? MAX_ROWS,
  }, add)
  return { sheet: chosen.name, sheets: sheets.map(({ name }) => name) }
}

/** CSV is written in pieces of this size, so that a text of it is never copied often. */
const PIECE_CHARACTERS = 262_144

/**
 * A sheet as CSV in UTF-8 with commas, blank rows included, and the byte order mark by which
 * spreadsheets know UTF-8.
 * @throws UnreadableFile as `readWorkbook` does, and for CSV of more than `maxBytes`.
 */
export async function sheetAsCsv (
  bytes: Buffer, options: WorkbookOptions & { readonly maxBytes: number }
): Promise<SheetFacts & { readonly csv: Buffer }> {
  const pieces: Buffer[] = []
  let text = '\ufeff'
  let written = 0
  let last = 0
  const flush = () => {
    const piece = Buffer.from(text)
    written += piece.length
    if (written > options.maxBytes) throw tooLarge(`as CSV it has ${counted(written)} bytes`)
    pieces.push(piece)
    text = ''
  }
  const facts = await readWorkbook(bytes, options, ({ row, cells }) => {
    text += '\r\n'.repeat(row - last - 1)
    last = row
    text += `${cells.map(cell => csvCell(cell)).join(',')}\r\n`
    if (text.length > PIECE_CHARACTERS) flush()
  })
  flush()
  return { ...facts, csv: Buffer.concat(pieces) }
}

/** The parts of a workbook, inflated one after the other within one budget. */
class WorkbookParts {
  readonly #zip: ZipFile
  readonly #entries: ReadonlyMap<string, Entry>
  readonly #pause: () => Promise<void>
  #left: number

  constructor (zip: ZipFile, entries: ReadonlyMap<string, Entry>, budget: {
    readonly bytes: number, readonly pause: () => Promise<void>
  }) {
    this.#zip = zip
    this.#entries = entries
    this.#left = budget.bytes
    this.#pause = budget.pause
  }

  has (path: string): boolean {
    return this.#entries.has(path.toLowerCase())
  }

  sizeOf (path: string): number {
    return this.#entries.get(path.toLowerCase())?.uncompressedSize ?? 0
  }

  /** The bytes of a part in slices; none if the workbook lacks it. */
  async * slices (path: string): AsyncGenerator<Buffer> {
    const entry = this.#entries.get(path.toLowerCase())
    if (entry === undefined) return
    if (entry.uncompressedSize > this.#left) {
      throw tooLarge('it inflates to more than its size and kind allow')
    }
    this.#left -= entry.uncompressedSize
    for await (const piece of this.#inflate(entry)) {
      for (let from = 0; from < piece.length; from += SLICE_BYTES) {
        await this.#pause()
        yield piece.subarray(from, from + SLICE_BYTES)
      }
    }
  }

  /** Fails a part that inflates to another size than the archive says, which is within budget. */
  async * #inflate (entry: Entry): AsyncGenerator<Buffer> {
    try {
      for await (const chunk of await this.#zip.openReadStreamPromise(entry)) yield chunk as Buffer
    } catch {
      throw workbookError(DAMAGED)
    }
  }
}

async function openParts (
  bytes: Buffer, { maxInflatedBytes, pause }: WorkbookOptions
): Promise<WorkbookParts> {
  const entries = new Map<string, Entry>()
  let zip: ZipFile
  try {
    zip = await fromBufferPromise(bytes, { lazyEntries: true, autoClose: false })
    if (zip.entryCount > MAX_PARTS) {
      throw tooLarge(`it has more than ${counted(MAX_PARTS)} parts`)
    }
    for await (const entry of zip.eachEntry()) entries.set(entry.fileName.toLowerCase(), entry)
  } catch (error) {
    if (error instanceof UnreadableFile) throw error
    throw workbookError(DAMAGED)
  }
  const names = [...entries.keys()]
  const other = nameArchive(bytes, names)
  if (other !== undefined) throw workbookError(other)
  if ([...entries.values()].some(entry => (entry.generalPurposeBitFlag & 1) === 1)) {
    throw workbookError('The workbook is encrypted. Save it without a password.')
  }
  const budget = Math.min(maxInflatedBytes, FREE_BYTES + MAX_RATIO * bytes.length)
  return new WorkbookParts(zip, entries, { bytes: budget, pause })
}

const CSV_ADVICE = 'Open it in a spreadsheet, and save it as a workbook (.xlsx) or "CSV UTF-8".'

/** What an archive is that is no workbook, and what to do; undefined for a workbook. */
function nameArchive (bytes: Buffer, names: readonly string[]): string | undefined {
  const says = (what: string, remedy: string) => `The file seems to be ${what}. ${remedy}`
  if (names.includes('xl/workbook.xml')) return undefined
  if (names.includes('xl/workbook.bin')) {
    return says('a workbook in Excel\'s binary form (.xlsb)', CSV_ADVICE)
  }
  const mimeType = bytes.toString('latin1', 0, 200)
  if (mimeType.includes('opendocument.spreadsheet')) {
    return says('a spreadsheet of OpenDocument (.ods)', CSV_ADVICE)
  }
  if (names.some(name => /^index\/(?:tables|document)/.test(name))) {
    return says('a document of Apple Numbers or Pages', 'Export it as a workbook (.xlsx) or CSV.')
  }
  const isDocument = names.includes('word/document.xml') || mimeType.includes('opendocument.text')
  if (isDocument) return says('a text document (.docx, .odt)', 'Copy its table to a spreadsheet.')
  if (names.includes('ppt/presentation.xml')) {
    return says('a presentation (.pptx)', 'Copy its table to a spreadsheet.')
  }
  return says('a ZIP archive', 'Unpack it, and take the file in it.')
}

type Tag = { readonly name: string, readonly attributes: Readonly<Record<string, string>> }

type XmlHandler = {
  readonly open: (tag: Tag) => void
  readonly text?: (text: string) => void
  readonly close?: (name: string) => void
  /** Whether the rest of the part is not needed. */
  readonly isDone?: () => boolean
}

/** Parses a part without a document type, so that it has no entities of its own. */
async function readXml (
  parts: WorkbookParts, path: string, { open, text, close, isDone }: XmlHandler
): Promise<void> {
  const parser = sax.parser(true)
  const decoder = new StringDecoder('utf8')
  let depth = 0
  let attributes = 0
  const fail = () => { throw workbookError(DAMAGED) }
  parser.onerror = fail
  parser.ondoctype = fail
  parser.onattribute = () => {
    attributes += 1
    if (attributes > MAX_ATTRIBUTES) fail()
  }
  parser.onopentag = tag => {
    attributes = 0
    depth += 1
    if (depth > MAX_DEPTH) fail()
    open({ name: localName(tag.name), attributes: tag.attributes as Tag['attributes'] })
  }
  parser.onclosetag = name => {
    depth -= 1
    close?.(localName(name))
  }
  if (text !== undefined) {
    parser.ontext = text
    parser.oncdata = text
  }
  for await (const slice of parts.slices(path)) {
    parser.write(decoder.write(slice))
    if (isDone?.() === true) return
  }
  if (parts.has(path)) parser.write(decoder.end()).close()
}

const localName = (name: string) => name.slice(name.indexOf(':') + 1)

const isTrue = (text = '') => text === '1' || text === 'true'

const WORKBOOK = 'xl/workbook.xml'
const RELATIONS = 'xl/_rels/workbook.xml.rels'
const SHARED_STRINGS = 'xl/sharedStrings.xml'
const STYLES = 'xl/styles.xml'

type Sheet = { readonly name: string, readonly path: string, readonly isHidden: boolean }

/** The sheets with cells, in the order of their tabs. */
async function readSheetList (
  parts: WorkbookParts
): Promise<{ readonly sheets: readonly Sheet[], readonly isFrom1904: boolean }> {
  for (const path of [RELATIONS, WORKBOOK]) {
    if (parts.sizeOf(path) > MAX_LIST_BYTES) throw tooLarge('its list of sheets is')
  }
  const paths = new Map<string, string>()
  await readXml(parts, RELATIONS, {
    open: ({ name, attributes: { Id = '', Type = '', Target = '' } }) => {
      if (name !== 'Relationship' || !Type.endsWith('/worksheet')) return
      paths.set(Id, Target.startsWith('/') ? Target.slice(1) : `xl/${Target}`)
      if (paths.size > MAX_PARTS) throw tooLarge(`it has more than ${counted(MAX_PARTS)} sheets`)
    },
  })
  const sheets: Sheet[] = []
  let isFrom1904 = false
  await readXml(parts, WORKBOOK, {
    open: ({ name, attributes }) => {
      if (name === 'workbookPr') isFrom1904 = isTrue(attributes['date1904'])
      if (name !== 'sheet') return
      const [, id = ''] = Object.entries(attributes).find(([key]) => key.endsWith(':id')) ?? []
      const path = paths.get(id)
      const isHidden = (attributes['state'] ?? 'visible') !== 'visible'
      if (path === undefined) return
      sheets.push({ name: attributes['name'] ?? '', path, isHidden })
      if (sheets.length > MAX_PARTS) throw tooLarge(`it has more than ${counted(MAX_PARTS)} sheets`)
    },
  })
  return { sheets, isFrom1904 }
}

/** @throws UnreadableFile for a sheet that does not exist; it lists those that do. */
function chooseSheet (sheets: readonly Sheet[], wanted: string | undefined): Sheet {
  const [first] = sheets
  if (first === undefined) throw workbookError('The workbook has no sheet with cells.')
  if (wanted === undefined) return sheets.find(({ isHidden }) => !isHidden) ?? first
  const chosen = sheets.find(({ name }) => name === wanted) ??
    sheets.find(({ name }) => foldedName(name) === foldedName(wanted)) ??
    (/^[1-9]\d{0,3}$/.test(wanted) ? sheets[Number(wanted) - 1] : undefined)
  if (chosen !== undefined) return chosen
  const names = sheets.slice(0, LISTED_SHEETS).map(({ name }) => name.slice(0, LISTED_CHARACTERS))
  const more = sheets.length > LISTED_SHEETS ? `, and ${sheets.length - LISTED_SHEETS} more` : ''
  throw workbookError(`The workbook has no sheet "${wanted.slice(0, LISTED_CHARACTERS)}". Send ` +
    `the name or the number of one: ${names.join(', ')}${more}.`)
}

/** Formats that show dates in the way of the reader's country, by their ids (ECMA-376, 18.8.30). */
const BUILT_IN_FORMATS: ReadonlyMap<number, string> = new Map([
  [1, '0'], [2, '0.00'], [3, '#,##0'], [4, '#,##0.00'], [9, '0%'], [10, '0.00%'],
  [11, '0.00E+00'], [12, '# ?/?'], [13, '# ??/??'], [14, 'yyyy-mm-dd'], [15, 'd-mmm-yy'],
  [16, 'd-mmm'], [17, 'mmm-yy'], [18, 'h:mm AM/PM'], [19, 'h:mm:ss AM/PM'], [20, 'h:mm'],
  [21, 'h:mm:ss'], [22, 'yyyy-mm-dd h:mm'], [37, '#,##0 ;(#,##0)'], [38, '#,##0 ;(#,##0)'],
  [39, '#,##0.00;(#,##0.00)'], [40, '#,##0.00;(#,##0.00)'], [45, 'mm:ss'], [46, '[h]:mm:ss'],
  [47, 'mm:ss.0'], [48, '##0.0E+0'], [49, '@'],
])

/** What a format does to numbers, found once: a sheet may use it for millions of cells. */
type NumberFormat = {
  readonly pattern: string
  /** Whether it would shorten or group a number, as of an amount. */
  readonly shortens: boolean
  readonly isDate: boolean
}

/** The number format of each style of cells; undefined for the general one. */
async function readFormats (parts: WorkbookParts): Promise<readonly (NumberFormat | undefined)[]> {
  if (parts.sizeOf(STYLES) > MAX_STYLES_BYTES) throw tooLarge('its styles are')
  const named = new Map<number, string>()
  const ids: number[] = []
  let isInCells = false
  await readXml(parts, STYLES, {
    open: ({ name, attributes }) => {
      if (name === 'numFmt') {
        named.set(Number(attributes['numFmtId']), attributes['formatCode'] ?? '')
      } else if (name === 'cellXfs') isInCells = true
      else if (name === 'xf' && isInCells) ids.push(Number(attributes['numFmtId'] ?? 0))
      if (ids.length + named.size > 2 * MAX_STYLES) throw tooLarge('it has too many styles')
    },
    close: name => {
      if (name === 'cellXfs') isInCells = false
    },
  })
  const formats = new Map<string, NumberFormat | undefined>()
  return ids.map(id => {
    const pattern = named.get(id) ?? BUILT_IN_FORMATS.get(id) ?? ''
    if (!formats.has(pattern)) formats.set(pattern, describeFormat(pattern))
    if (formats.size > MAX_FORMATS) {
      throw tooLarge(`it has more than ${counted(MAX_FORMATS)} number formats`)
    }
    return formats.get(pattern)
  })
}

/** Undefined for the general format, and for one that is none. */
function describeFormat (pattern: string): NumberFormat | undefined {
  if (isGeneral(pattern) || !isValidFormat(pattern)) return undefined
  const [positive = ''] = pattern.split(';')
  // Without colors, spaces of the width of a character, and padding.
  const plain = positive.replaceAll(/\[[^[\]]*\]|[_*\\].|[\s"()-]/g, '')
  return {
    pattern, shortens: AMOUNT.test(plain) && SHORTENS.test(plain), isDate: isDateFormat(pattern),
  }
}

const isGeneral = (pattern: string) =>
  /^(?:general|@|\s*)$/i.test(pattern) || pattern.length > MAX_FORMAT_CHARACTERS

/** Collects the text of cells, which may be in several pieces, without its phonetic hints. */
class CellText {
  #text = ''
  #isOpen = false
  #isPhonetic = false

  open (name: string): void {
    if (name === 'rPh') this.#isPhonetic = true
    else if (name === 'v' || name === 't') this.#isOpen = !this.#isPhonetic
  }

  close (name: string): void {
    if (name === 'rPh') this.#isPhonetic = false
    else if (name === 'v' || name === 't') this.#isOpen = false
  }

  add (text: string): void {
    if (!this.#isOpen) return
    if (this.#text.length + text.length > MAX_CELL_CHARACTERS) {
      throw tooLarge(`a cell has more than ${counted(MAX_CELL_CHARACTERS)} characters`)
    }
    this.#text += text
  }

  take (): string {
    const text = this.#text
    this.#text = ''
    return text
  }
}

/** Characters that XML has no place for are written by their number (ECMA-376, 22.9.2.19). */
function unescaped (text: string): string {
  if (!text.includes('_x')) return text
  return text.replaceAll(/_x([0-9a-f]{4})_/gi, (_, hex: string) =>
    String.fromCharCode(parseInt(hex, 16))).toWellFormed()
}

/** The texts that cells refer to by their index. */
async function readSharedStrings (parts: WorkbookParts): Promise<readonly string[]> {
  const strings: string[] = []
  const text = new CellText()
  let characters = 0
  await readXml(parts, SHARED_STRINGS, {
    open: ({ name }) => text.open(name),
    text: piece => text.add(piece),
    close: name => {
      text.close(name)
      if (name !== 'si') return
      const whole = unescaped(text.take())
      characters += whole.length
      if (characters > MAX_SHARED_CHARACTERS) {
        throw tooLarge(`its texts have more than ${counted(MAX_SHARED_CHARACTERS)} characters`)
      }
      if (strings.push(whole) > MAX_SHARED_STRINGS) {
        throw tooLarge(`it has more than ${counted(MAX_SHARED_STRINGS)} texts`)
      }
    },
  })
  return strings
}

type CellFacts = {
  readonly strings: readonly string[]
  readonly formats: readonly (NumberFormat | undefined)[]
  /** Whether dates count from 1904 instead of 1900. */
  readonly isFrom1904: boolean
  readonly maxRows: number
}

async function readRows (
  parts: WorkbookParts, path: string, facts: CellFacts, add: (row: SheetRow) => void
): Promise<void> {
  const text = new CellText()
  let row = 0
  let cells: string[] = []
  let column = -1
  let kind = ''
  let style = 0
  let added = 0
  await readXml(parts, path, {
    isDone: () => added >= facts.maxRows,
    open: ({ name, attributes }) => {
      text.open(name)
      if (name === 'c') {
        column = parseColumn(attributes['r']) ?? column + 1
        if (column >= MAX_SHEET_COLUMNS) throw workbookError(DAMAGED)
        kind = attributes['t'] ?? 'n'
        style = Number(attributes['s'] ?? 0)
      } else if (name === 'row') {
        const next = Number(attributes['r'] ?? row + 1)
        if (!(next > row && next <= MAX_ROWS)) throw workbookError(DAMAGED)
        row = next
        cells = []
        column = -1
      }
    },
    text: piece => text.add(piece),
    close: name => {
      text.close(name)
      if (name === 'c') {
        const shown = shownText(text.take(), kind, facts.formats[style], facts)
        if (shown === '') return
        while (cells.length < column) cells.push('')
        cells[column] = shown
      } else if (name === 'row' && cells.length > 0 && added < facts.maxRows) {
        added += 1
        add({ row, cells })
      }
    },
  })
}

/** The index of a column, from a name such as `AB12`. */
function parseColumn (name = ''): number | undefined {
  let number = 0
  for (let at = 0; at < name.length; at++) {
    const letter = name.charCodeAt(at) - 64
    if (letter < 1 || letter > 26) break
    number = 26 * number + letter
  }
  return number === 0 ? undefined : number - 1
}

function shownText (
  value: string, kind: string, numberFormat: NumberFormat | undefined,
  { strings, isFrom1904 }: CellFacts
): string {
  switch (kind) {
    case 's': {
      const shared = value === '' ? '' : strings[Number(value)]
      if (shared === undefined) throw workbookError(DAMAGED)
      return shared
    }
    case 'b': return isTrue(value) ? 'TRUE' : value === '' ? '' : 'FALSE'
    case 'd': return value.replace(/T00:00(?::00(?:\.0+)?)?Z?$/, '')
    case 'n': return numberText(value.trim(), numberFormat, isFrom1904)
    default: return unescaped(value)
  }
}

/** Digits, of which a format may group some, leave some out, or show the power of ten. */
const AMOUNT = /^[#0?,.]*(?:E[+-]?0+)?$/i
const SHORTENS = /[,.E]/i
/** A number of so many digits is rather a phone number or an id than an amount. */
const MIN_LONG = 1_000_000
const DAYS_BEFORE_1904 = 1_462

/** A number as its format shows it. */
function numberText (
  value: string, numberFormat: NumberFormat | undefined, isFrom1904: boolean
): string {
  const number = Number(value)
  if (value === '' || !Number.isFinite(number)) return value
  if (numberFormat === undefined) return formatDigits(number)
  const { pattern, shortens, isDate } = numberFormat
  const isLong = Number.isInteger(number) && Math.abs(number) >= MIN_LONG
  if (isLong && shortens) return formatDigits(number)
  try {
    const shown = format(pattern, isDate && isFrom1904 ? number + DAYS_BEFORE_1904 : number).trim()
    return shown.startsWith('###') ? formatDigits(number) : shown
  } catch {
    return formatDigits(number)
  }
}

const SIGNIFICANT_DIGITS = 15

/** A number without a power of ten, with the digits that spreadsheets keep. */
function formatDigits (number: number): string {
  if (Number.isSafeInteger(number)) return String(number)
  const [, sign = '', whole = '', fraction = '', power = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(number.toPrecision(SIGNIFICANT_DIGITS)) ?? []
  const digits = whole + fraction
  const point = whole.length + Number(power)
  const padded = point > 0
    ? digits.padEnd(point, '0')
    : digits.padStart(digits.length - point + 1, '0')
  const at = Math.max(point, 1)
  const rest = padded.slice(at).replace(/0+$/, '')
  return `${sign}${padded.slice(0, at)}${rest === '' ? '' : `.${rest}`}`
}
