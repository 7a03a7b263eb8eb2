import { Busboy, type BusboyEvents, type BusboyInstance } from '@fastify/busboy'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { isUtf8 } from 'node:buffer'
import { pipeline } from 'node:stream/promises'
import { ENTRY_KINDS, LIST_ACTIONS, MAX_CHANGED_ENTRIES } from '../../schemas/api/contact-lists.ts'
import { MAX_BODY_BYTES, MAX_INPUTS } from '../../schemas/api/create-job.ts'
import { FileOptionsSchema, PreviewOptionsSchema, WORKBOOK_TYPE } from '../../schemas/api/file.ts'
import {
  BlankLines, checkReadable, csvCell, type CsvFormat, type CsvRecord, CsvScanner, DELIMITERS,
  detectFormat, foldedName, isArchive, isUtf8Cell, MAX_COLUMNS, MAX_LINE_BYTES, MAX_NAMES_BYTES,
  findPositions, SAMPLE_BYTES, UnreadableFile,
} from '../../schemas/files/csv-format.ts'
import { readWorkbook, type SheetFacts, type SheetRow } from '../../schemas/files/workbook.ts'
import type { ListChange } from '../accounts/contact-lists.ts'
import { type ApiError, ApiException, SHOWN_CHARACTERS } from './errors.ts'
import { LABEL } from './request.ts'
import { detachBuffer } from '../runtime/crypto/seal.ts'
import { eventLoop } from '../runtime/platform/limits.ts'
import { SMALL_BODY_BYTES } from '../runtime/platform/peer-guards.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The file of the request; undefined for a body of JSON. */
    file: CsvFile | undefined
    /** The bytes of a file to look at, and how to read them. */
    previewed: PreviewedFile | undefined
    /** Grows the memory that the request has reserved; false if there is none. */
    growMemory: (bytes: number) => boolean
  }
}

/**
 * Accepts a CSV file or a workbook (.xlsx) as body of routes that take contacts: as `text/csv` or
 * the type of workbooks with its options in the query, or as a part of `multipart/form-data`. Which
 * it is, its bytes say. The parsed body is that of the equivalent JSON request, so it is validated
 * and fingerprinted as such. Entries of contact lists are CSV, in a form too, whose parsed body is
 * a `ListFile`.
 */
export function acceptFiles (app: FastifyInstance): void {
  app.decorateRequest('file', undefined)
  app.decorateRequest('previewed', undefined)
  app.decorateRequest('growMemory', () => true)
  const options = { parseAs: 'buffer' } as const
  app.addContentTypeParser(['text/csv', WORKBOOK_TYPE], options, async (
    request: FastifyRequest, body: Buffer
  ) => {
    const pause = createPause(request, body)
    if (request.routeOptions.config.takesFile === 'entries') {
      const file = await readListFile(body, pause)
      detachBuffer(body)
      return file
    }
    requireFileRoute(request)
    return await parsed(request, body, { form: [], pause })
  })
  app.addContentTypeParser('multipart/form-data', options, async (
    request: FastifyRequest, body: Buffer
  ) => {
    const isList = request.routeOptions.config.takesFile === 'entries'
    if (!isList) requireFileRoute(request)
    const pause = createPause(request, body)
    const { file, entries } = await readForm(body, request.headers['content-type'] ?? '', pause)
    detachBuffer(body)
    if (isList) {
      const [field] = entries
      if (field === undefined) return await readListFile(file, pause)
      throw optionError(field[0], 'is no field of this form. Send the file only, and action in ' +
        'the query.')
    }
    return await parsed(request, file, { form: entries, pause })
  })
  app.addHook('preValidation', async request => {
    if (request.routeOptions.config.takesFile !== 'contacts') return
    const isJson = request.file === undefined
    const { fields } = readFileOptions(request, [], isJson)
    // Also what the body replaces is validated, so that no invalid option is ever accepted.
    request.query = fields
    if (isJson && isObject(request.body)) {
      request.body = { ...fields, ...request.body }
    }
  })
}

/** The name of the part with the file. */
const FILE = 'file'
/** More than any valid form has; the largest field is `webhook_url`. */
const FORM_LIMITS = {
  fieldNameSize: 200, fieldSize: 8_192, fields: 100, parts: 102, headerPairs: 20, headerSize: 4_096,
}

/** Parsing it takes at most a few milliseconds, even if it has thousands of parts. */
const FORM_SLICE_BYTES = 16_384

/**
 * Reads a body of `multipart/form-data`: one part named `file`, and fields. Feeds it to the parser
 * in slices, awaits `pause` before each, and stops at the first violation.
 * @throws ApiException if it is damaged or cut, has no file or two, or too many or too long fields.
 */
async function readForm (
  body: Buffer, contentType: string, pause: () => Promise<void>
): Promise<{ readonly file: Buffer, readonly entries: OptionEntries }> {
  const files: Buffer[][] = []
  const entries: (readonly [string, string])[] = []
  let fault: ApiError | undefined
  const reject = (error: ApiError) => { fault ??= error }
  const form = openForm(contentType)
  const addFile: BusboyEvents['file'] = (name, stream) => {
    const pieces: Buffer[] = []
    // A part that ends too early fails the form as well.
    stream.on('error', () => {})
    stream.on('data', (piece: Buffer) => { pieces.push(piece) })
    const param = (name ?? '').slice(0, SHOWN_CHARACTERS)
    const message = `The part ${param} is a file. Name the file "${FILE}".`
    if (name !== FILE) reject({ code: 'invalid_file', param, message })
    else if (files.push(pieces) > 1) reject(fileCountError(files.length))
  }
  const addField = (...[name, value, , isTruncated]: Parameters<BusboyEvents['field']>) => {
    const param = (name ?? '').slice(0, SHOWN_CHARACTERS)
    const most = FORM_LIMITS.fieldSize.toLocaleString('en-US')
    const message = `${param} is too long. It can have at most ${most} bytes.`
    if (isTruncated) reject({ code: 'invalid_file', param, message })
    else entries.push([name ?? '', value])
  }
  form.on('file', addFile).on('field', addField)
  for (const limit of ['partsLimit', 'fieldsLimit'] as const) {
    form.on(limit, () => reject({
      code: 'invalid_file', message: `The form has more than ${FORM_LIMITS.fields} fields.`,
    }))
  }
  async function * slices () {
    for (let from = 0; from < body.length; from += FORM_SLICE_BYTES) {
      await pause()
      if (fault !== undefined) throw new ApiException(fault)
      yield body.subarray(from, from + FORM_SLICE_BYTES)
    }
  }
  try {
    await pipeline(slices, form)
  } catch {
    throw new ApiException(fault ?? DAMAGED)
  }
  if (fault !== undefined) throw new ApiException(fault)
  const [file] = files
  if (file === undefined) throw new ApiException(fileCountError(0))
  return { file: Buffer.concat(file), entries }
}

const DAMAGED: ApiError = {
  code: 'invalid_file',
  message: 'The body is not a complete form of multipart/form-data. Send its boundary in ' +
    'Content-Type, and all of its parts.',
}

function openForm (contentType: string): BusboyInstance {
  try {
    return new Busboy({
      headers: { 'content-type': contentType },
      limits: FORM_LIMITS,
      // Clients that are generated from the description send the file without a name of its own.
      isPartAFile: (name, _type, fileName) => name === FILE || fileName !== undefined,
    })
  } catch {
    throw new ApiException(DAMAGED)
  }
}

function fileCountError (count: number): ApiError {
  return {
    code: 'invalid_file',
    param: FILE,
    message: count === 0
      ? 'The form has no part named file. Send the file as one, for example: -F file=@contacts.csv'
      : `The form has ${count} files. Send one job for each.`,
  }
}

function requireFileRoute (request: FastifyRequest): void {
  const { takesFile } = request.routeOptions.config
  if (takesFile === 'contacts' || takesFile === 'preview') return
  throw new ApiException({ code: 'unsupported_media_type' })
}

const isObject = (body: unknown): body is object =>
  typeof body === 'object' && body !== null && !Array.isArray(body)

type Pause = () => Promise<void>

/** Waits for the next slot of the event loop, shared fairly with other tenants. */
function createPause ({ caller }: FastifyRequest, body: Buffer): Pause {
  const lane = body.length <= SMALL_BODY_BYTES ? 'small' : 'bulk'
  return () => eventLoop.yield(lane, caller?.tenant)
}

/** A file that is read by its route. */
type PreviewedFile = {
  readonly bytes: Buffer
  readonly csv: CsvReadOptions
  readonly reading: WorkbookReading
}

/** The equivalent JSON body. The bytes of the file of a job are freed. */
async function parsed (
  request: FastifyRequest, bytes: Buffer,
  { form, pause }: { readonly form: OptionEntries, readonly pause: Pause }
): Promise<object> {
  const { csv, fields } = readFileOptions(request, form)
  const reading = {
    pause,
    // A workbook takes memory beside its own bytes.
    reserve: (more: number) => {
      if (request.growMemory(bytes.length + more)) return
      throw new ApiException({ code: 'temporarily_unavailable' })
    },
  }
  if (request.routeOptions.config.takesFile === 'preview') {
    request.previewed = { bytes, csv, reading }
    return fields
  }
  const file = isArchive(bytes)
    ? await readSheet(bytes, csv, reading)
    : await readCsv(bytes, csv, pause)
  detachBuffer(bytes)
  request.file = file
  return { ...fields, inputs: file.inputs }
}

/** Names and values of options, in the order of the request. */
type OptionEntries = readonly (readonly [name: string, value: string])[]

/** What a request with a file says beside it. */
type FileRequest = {
  readonly csv: CsvReadOptions
  /** The fields of the equivalent JSON body without `inputs`, not validated. */
  readonly fields: Readonly<Record<string, unknown>>
}

/** The JSON types of options by name; undefined for a choice of texts. */
type OptionTypes = ReadonlyMap<string, string | undefined>

const listTypes = ({ properties }: { readonly properties: object }): OptionTypes =>
  new Map(Object.entries(properties as Readonly<Record<string, { readonly type?: string }>>)
    .map(([name, { type }]) => [name, type]))

/** The options of files of contacts, and of those to look at. */
const OPTIONS = {
  contacts: listTypes(FileOptionsSchema), preview: listTypes(PreviewOptionsSchema),
}
/** The option that is a list. */
const LIST = 'options'
/** A map, because an object also has members like `toString`. */
const BOOLEANS: ReadonlyMap<string, boolean> = new Map([['true', true], ['false', false]])

/**
 * Reads the options of a request: those in the query, and in place of them what the form says. An
 * empty field of a form counts as left out, as forms send one for each field.
 * Beside JSON, what is no option has always been ignored.
 * @throws ApiException for an option that is unknown, sent twice in one place or not valid.
 */
function readFileOptions (
  request: FastifyRequest, form: OptionEntries, isJson = false
): FileRequest {
  const { takesFile } = request.routeOptions.config
  const allowed = OPTIONS[takesFile === 'preview' ? 'preview' : 'contacts']
  const isLabel = ([name]: readonly [string, string]) => LABEL.test(name)
  // A `?` behind the first one is part of a value.
  const query = [...new URLSearchParams(request.url.replace(/^[^?]*\??/, ''))]
    .filter(([name]) => !isJson || isOption(name, allowed))
  // In a form a list may also be a field for each item, as OpenAPI has it.
  const items = form.filter(([name]) => name === LIST).map(([, value]) => value)
  const single = form.filter(([name]) => name !== LIST)
  const fields: OptionEntries = items.length > 0 ? [...single, [LIST, items.join(',')]] : form
  checkNames(query, allowed)
  checkNames(fields, allowed)
  const entries = [...query, ...fields.filter(entry => entry[1] !== '' || isLabel(entry))]
  const labels = Object.fromEntries(entries.filter(isLabel)
    .map(([name, value]) => [LABEL.exec(name)?.[1] ?? '', value]))
  const { column, header, delimiter, sheet, ...others } =
    Object.fromEntries(entries.filter(entry => !isLabel(entry)))
  const hasHeader = header === undefined ? undefined : BOOLEANS.get(header)
  if (hasHeader === undefined && header !== undefined) {
    throw optionError('header', 'must be true or false, or be left out.')
  }
  const separator = Object.entries(DELIMITERS)
    .find(spellings => delimiter !== undefined && spellings.includes(delimiter))?.[1]
  if (separator === undefined && delimiter !== undefined) {
    throw optionError('delimiter', `must be one of: ${Object.keys(DELIMITERS).join(', ')}.`)
  }
  return {
    csv: {
      column: column === '' ? undefined : column,
      header: hasHeader,
      delimiter: separator,
      sheet: sheet === '' ? undefined : sheet,
    },
    fields: {
      ...Object.fromEntries(Object.entries(others).map(([name, text]) =>
        [name, parseOption(text, allowed.get(name))])),
      ...Object.keys(labels).length === 0 ? {} : { metadata: labels },
    },
  }
}

function isOption (name: string, allowed: OptionTypes): boolean {
  const label = LABEL.exec(name)?.[1]
  return label === undefined
    ? allowed.has(name) && name !== 'metadata'
    : allowed.has('metadata') && label !== '__proto__'
}

/** @throws ApiException for an option that is not allowed, or that stands there twice. */
function checkNames (entries: OptionEntries, allowed: OptionTypes): void {
  const names = new Set<string>()
  for (const [name] of entries) {
    if (!isOption(name, allowed)) {
      const options = [...allowed.keys()]
        .map(option => option === 'metadata' ? 'metadata[name]' : option)
      throw optionError(name, 'is not an option of a file. Leave it out; there are: ' +
        `${options.join(', ')}.`)
    }
    if (names.has(name)) throw optionError(name, 'was sent more than once. Send it once.')
    names.add(name)
  }
}

/** The value of a type; a text that has none stays one, which the schema of the field rejects. */
function parseOption (text: string, type: string | undefined): unknown {
  switch (type) {
    case 'boolean': return BOOLEANS.get(text) ?? text
    case 'integer': return /^\d{1,15}$/.test(text) ? Number(text) : text
    case 'array': return text === '' ? [] : text.split(',')
    default: return text
  }
}

function optionError (name: string, text: string): ApiException {
  const param = name.slice(0, SHOWN_CHARACTERS)
  return new ApiException({ code: 'invalid_request', param, message: `${param} ${text}` })
}

/** How a file is read; what is undefined is detected. */
export type CsvReadOptions = ColumnOptions & {
  readonly delimiter?: string | undefined
  /** Of a workbook: the name of the sheet, or its number from 1. */
  readonly sheet?: string | undefined
}

/** A file as a job needs it. */
type CsvFile = {
  /** The cells of the column with the contacts. */
  readonly inputs: readonly string[]
  /** The names of all columns, `column_1` and so on without a header line. */
  readonly columns: readonly string[]
  /** Each row as a CSV line of the service, with at most as many cells as there are columns. */
  readonly lines: readonly string[]
  /** By which the cells of the file were separated; undefined for a sheet. */
  readonly delimiter?: string
}

/** Takes at most a few milliseconds, whatever the bytes are. */
const SLICE_BYTES = 65_536

/**
 * Reads a CSV file in UTF-8, or else its cells, each in UTF-8 or in Windows-1252. Blank lines at
 * its beginning and end are no rows. `pause` is awaited before each slice of the file, which takes
 * at most a few milliseconds.
 * @throws ApiException that names the line or the column, and the limit.
 */
async function readCsv (
  bytes: Buffer, options: CsvReadOptions, pause: () => Promise<void>
): Promise<CsvFile> {
  if (options.sheet !== undefined) throw sheetOfText()
  const rows = createRows(options)
  const delimiter = await scanCsv(bytes, options.delimiter, { pause, onRecord: rows.add })
  return { ...rows.finish(), delimiter }
}

/** A line of a file, or of a sheet, that can be read; or blank ones. */
export type FileRecord = Exclude<CsvRecord, { readonly kind: 'long' | 'unclosed' }>

/**
 * Reads the lines of such a file. Resolves with their delimiter.
 * @throws ApiException for a file that is not text, or has a line that cannot be read.
 */
export async function scanCsv (
  bytes: Buffer, given: string | undefined,
  { pause, onRecord }: {
    readonly pause: () => Promise<void>,
    /** False ends the reading. */
    readonly onRecord: (record: FileRecord) => boolean | void,
  }
): Promise<string> {
  await pause()
  const { delimiter, start, sepLine, encoding } = readFormat(bytes, given)
  const scanner = new CsvScanner(bytes, {
    delimiter,
    start,
    line: sepLine === '' ? 0 : 1,
    decode: createDecoder(bytes, encoding),
    maxRecordBytes: MAX_LINE_BYTES,
    maxBlankLines: SLICE_BYTES,
  })
  let pausedAt = 0
  for (let record = scanner.next(); record !== undefined; record = scanner.next()) {
    if (record.kind === 'unclosed') {
      throw fileError(`Line ${record.line} of the file has a cell that begins with a double ` +
        'quote, and no quote that ends it. Close it, or put the cell between quotes and double ' +
        'the quotes in it.')
    }
    if (record.kind === 'long') {
      throw fileError(`Line ${record.line} of the file has more than ` +
        `${MAX_LINE_BYTES.toLocaleString('en-US')} bytes. Shorten it; if it is not that long, a ` +
        'double quote in it or in a line before is not closed.')
    }
    if (onRecord(record) === false) break
    if (scanner.position - pausedAt < SLICE_BYTES) continue
    pausedAt = scanner.position
    await pause()
  }
  return delimiter
}

type FileFormat = CsvFormat & { readonly encoding: 'utf-8' | 'windows-1252' }

/** What is text, but not UTF-8, usually comes from a spreadsheet on Windows. */
function readFormat (bytes: Buffer, delimiter: string | undefined): FileFormat {
  const sample = bytes.subarray(0, SAMPLE_BYTES)
  try {
    checkReadable(bytes)
    const format = detectFormat(sample, delimiter)
    const encoding = isUtf8(bytes) ? 'utf-8' : 'windows-1252'
    if (format.hasMark && encoding !== 'utf-8') {
      throw fileError('The file begins with the byte order mark of UTF-8, but is not text in ' +
        'UTF-8. Save it as "CSV UTF-8".', { code: 'invalid_encoding' })
    }
    return { ...format, encoding }
  } catch (error) {
    throw asApiException(error)
  }
}

/** The bytes in which Windows-1252 is not Latin-1. */
const NOT_LATIN1 = /[\u0080-\u009f]/
const BEYOND_ASCII = /[\u0080-\u00ff]/

function createDecoder (bytes: Buffer, encoding: FileFormat['encoding']) {
  if (encoding === 'utf-8') return (from: number, to: number) => bytes.toString('utf8', from, to)
  const decoder = new TextDecoder(encoding)
  return (from: number, to: number) => {
    const text = bytes.toString('latin1', from, to)
    if (!BEYOND_ASCII.test(text)) return text
    const cell = bytes.subarray(from, to)
    if (isUtf8Cell(cell)) return cell.toString('utf8')
    return NOT_LATIN1.test(text) ? decoder.decode(cell) : text
  }
}

/** A sheet of 100,000 rows and some twenty columns has 100 MiB as XML. */
const MAX_INFLATED_BYTES = 256 * 1_024 * 1_024

export type WorkbookReading = {
  /** Awaited before each slice of work, which takes a few milliseconds. */
  readonly pause: () => Promise<void>
  /** Reserves memory for the request; throws if there is none. */
  readonly reserve: (bytes: number) => void
}

/**
 * Reads a sheet of a workbook (.xlsx) as if it had been saved as CSV: the same rows, limits and
 * errors, in which a line is a row of the sheet.
 * @throws ApiException that names the sheet, the row or the limit, and what to do.
 */
async function readSheet (
  bytes: Buffer, options: CsvReadOptions, reading: WorkbookReading
): Promise<CsvFile> {
  const rows = createRows(options, ROWS_OF_SHEET)
  await scanSheet(bytes, options, reading, record => rows.add(record))
  return rows.finish()
}

type ScanOptions = Pick<CsvReadOptions, 'delimiter' | 'sheet'> & { readonly maxRows?: number }

/** Gives the rows of a sheet as records of a CSV file. @throws ApiException as `readSheet` does. */
export async function scanSheet (
  bytes: Buffer, { delimiter, sheet, maxRows }: ScanOptions, reading: WorkbookReading,
  add: (record: FileRecord) => void
): Promise<SheetFacts> {
  if (delimiter !== undefined) {
    throw new ApiException({
      code: 'invalid_request',
      param: 'delimiter',
      message: 'delimiter is for text, and the file is a workbook. Leave delimiter out.',
    })
  }
  let last = 0
  let textBytes = 0
  const addRow = ({ row, cells }: SheetRow) => {
    if (row > last + 1) add({ kind: 'blank', lines: row - last - 1, end: 0, line: row - 1 })
    last = row
    const rowBytes = cells.reduce((sum, cell) => sum + Buffer.byteLength(cell), 0)
    if (rowBytes > MAX_LINE_BYTES) {
      throw fileError(`Row ${row} of the sheet has more than ` +
        `${MAX_LINE_BYTES.toLocaleString('en-US')} bytes. Shorten it.`)
    }
    textBytes += rowBytes
    if (textBytes > MAX_BODY_BYTES) {
      throw fileError('The sheet has more than 34 MiB of text. Remove columns, or split it into ' +
        'several jobs.')
    }
    add({ kind: 'cells', cells, end: 0, line: row })
  }
  try {
    return await readWorkbook(bytes, {
      sheet,
      maxInflatedBytes: MAX_INFLATED_BYTES,
      ...maxRows !== undefined && { maxRows },
      ...reading,
    }, addRow)
  } catch (error) {
    throw asApiException(error)
  }
}

/** The answer to a file that cannot be read; any other error is itself. */
function asApiException (error: unknown): unknown {
  if (!(error instanceof UnreadableFile)) return error
  return fileError(error.message, { code: error.code })
}

/** How the lines of a file are called in errors, and what helps against too many cells. */
export type LineNames = { readonly at: (line: number) => string, readonly advice: string }

export const LINES_OF_TEXT: LineNames = {
  at: line => `Line ${line} of the file`,
  advice: 'Put cells with a delimiter in them between double quotes.',
}

/** How the lines of a workbook are called in errors. */
export const ROWS_OF_SHEET: LineNames = {
  at: row => `Row ${row} of the sheet`,
  advice: 'Name every column in the first row, or remove the cells beside the table.',
}

/** Collects the rows of a file, of which the first line decides the columns. */
function createRows (options: ColumnOptions, names = LINES_OF_TEXT) {
  const inputs: string[] = []
  const lines: string[] = []
  const blankLines = new BlankLines()
  let chosen: ChosenColumn | undefined

  const add = (record: FileRecord): void => {
    const blankRows = blankLines.rowsBefore(record)
    if (blankRows === undefined || record.kind === 'blank') return
    const { cells, line } = record
    if (chosen === undefined) {
      if (cells.length > MAX_COLUMNS) throw tooManyColumns(cells.length, names.at(line))
      chosen = chooseColumn(cells, options)
      if (chosen.isHeader) {
        // Every row of the results as JSON repeats the names, so they are counted as JSON.
        const bytes = cells.reduce(
          (sum, name) => sum + Buffer.byteLength(JSON.stringify(name)), 0)
        if (bytes <= MAX_NAMES_BYTES) return
        throw fileError(`The names of the columns have ${bytes.toLocaleString('en-US')} bytes as ` +
          `JSON. They can have at most ${MAX_NAMES_BYTES.toLocaleString('en-US')} in all. ` +
          'Shorten them, or leave columns out.')
      }
    }
    const width = chosen.columns.length
    let blankTo = width
    while (blankTo < cells.length && cells[blankTo] === '') blankTo += 1
    if (blankTo < cells.length) {
      throw fileError(`${names.at(line)} has ${cells.length} cells, but its first line has ` +
        `${width}. ${names.advice}`)
    }
    if (inputs.length + blankRows >= MAX_INPUTS) {
      throw fileError(`The file has more than ${MAX_INPUTS.toLocaleString('en-US')} rows. Split ` +
        'it into several jobs.', { code: 'too_many_inputs' })
    }
    for (let row = 0; row < blankRows; row++) {
      inputs.push('')
      lines.push('')
    }
    inputs.push(cells[chosen.at] ?? '')
    lines.push(cells.slice(0, width).map(cell => csvCell(cell)).join(','))
  }
  const finish = (): CsvFile => {
    if (chosen === undefined || inputs.length === 0) throw noRows(chosen !== undefined)
    return { inputs, columns: chosen.columns, lines }
  }
  return { add, finish }
}

/** The answer to a file that violates a rule. */
function fileError (message: string, more: Partial<ApiError> = {}): ApiException {
  return new ApiException({ code: 'invalid_file', param: 'file', message, ...more })
}

/** The error of text for which a sheet is named. */
export function sheetOfText (): ApiException {
  return new ApiException({
    code: 'invalid_request',
    param: 'sheet',
    message: 'sheet is for workbooks (.xlsx), and the file is text. Leave sheet out.',
  })
}

/** The error of a file without rows. */
export function noRows (hasHeader: boolean): ApiException {
  return fileError(hasHeader
    ? 'The file has a header line, but no rows. If its first line is a row, send header=false.'
    : 'The file is empty. Send at least one row.')
}

/** The error of a first line with too many cells. */
export function tooManyColumns (cells: number, line: string): ApiException {
  const count = cells.toLocaleString('en-US')
  return fileError(`${line} has ${count} columns. A file has at most ` +
    `${MAX_COLUMNS}. Remove some, or send the right delimiter.`)
}

type ColumnOptions = {
  /** A name, or a position from 1. */
  readonly column?: string | undefined
  /** Whether the first line names the columns. */
  readonly header?: boolean | undefined
}

type ChosenColumn = {
  readonly isHeader: boolean
  readonly columns: readonly string[]
  /** Position, from 0, of the column with the contacts. */
  readonly at: number
}

/** A column by its number, unlike one by its name. */
export const POSITION = /^[1-9]\d{0,3}$/
const MAX_LISTED = 50

/**
 * Finds the column of the contacts by the first line of a file. Without an option, the line is a
 * header if the column was named, or if its cell in that column is neither blank nor a contact.
 * @throws ApiException for a column that is missing, unknown or ambiguous; it lists the names.
 */
function chooseColumn (
  first: readonly string[], { column, header }: ColumnOptions
): ChosenColumn {
  const isPosition = column === undefined || POSITION.test(column)
  const at = findColumn(first, { column, header })
  const cell = first[at] ?? ''
  const isHeader = header ?? (!isPosition || (cell.trim() !== '' && !mayBeContact(cell)))
  const columns = isHeader ? first : first.map((_, index) => `column_${index + 1}`)
  return { isHeader, columns, at }
}

/**
 * The position, from 0, of a column in the first line of a file.
 * @throws ApiException for one that is missing, unknown or ambiguous; it lists the names.
 */
export function findColumn (
  first: readonly string[], { column, header }: ColumnOptions
): number {
  return column === undefined || POSITION.test(column)
    ? atPosition(first, column, header)
    : atName(first, column, header)
}

function atPosition (
  first: readonly string[], column: string | undefined, header: boolean | undefined
): number {
  if (column === undefined && first.length === 1) return 0
  if (column === undefined) {
    throw columnError(`column is missing. The file has ${first.length} columns. Send the name or ` +
      `the number of the one with the contacts. ${describeColumns(first, header)}`)
  }
  if (Number(column) <= first.length) return Number(column) - 1
  throw columnError(`The file has no column ${column}: it has ${first.length}. ` +
    describeColumns(first, header))
}

function atName (
  first: readonly string[], column: string, header: boolean | undefined
): number {
  const shown = column.slice(0, SHOWN_CHARACTERS)
  if (header === false) {
    throw columnError(`column is "${shown}", but header is false. Send the number of the column, ` +
      'from 1.')
  }
  const positions = findPositions(first, column)
  const [only] = positions
  if (only === undefined) {
    throw columnError(`The file has no column "${shown}". ${describeColumns(first, header)}`)
  }
  if (positions.length > 1) {
    const numbers = positions.slice(0, MAX_LISTED).map(index => index + 1)
    throw columnError(`${positions.length} columns have the name "${shown}". Send the number of ` +
      `one: ${numbers.join(', ')}.`)
  }
  return only
}

/** The names of the columns. A first line with contacts is no header, so it is not repeated. */
function describeColumns (first: readonly string[], header: boolean | undefined): string {
  if (header === false || (header === undefined && first.some(mayBeContact))) {
    return 'The first line of the file is a row, so columns have numbers only.'
  }
  const names = first.slice(0, MAX_LISTED).map((name, index) =>
    name.trim() === '' ? String(index + 1) : name.slice(0, SHOWN_CHARACTERS))
  const more = first.length > MAX_LISTED ? `, and ${first.length - MAX_LISTED} more` : ''
  return `The columns are: ${names.join(', ')}${more}.`
}

const MIN_DIGITS = 5

/** Rather takes a name for a contact than a contact for a name: no row may be lost. */
function mayBeContact (cell: string): boolean {
  return cell.includes('@') || cell.replace(/\D/g, '').length >= MIN_DIGITS
}

function columnError (message: string): ApiException {
  return new ApiException({ code: 'invalid_request', param: 'column', message })
}

/** A line of a file with entries of contact lists. */
type ListLine = {
  /** Its number in the file, from 1. */
  readonly line: number
  readonly entry: string
  readonly kind: string
  readonly list: string
}

/** A file with entries of contact lists. */
export class ListFile {
  readonly #lines: readonly ListLine[]

  constructor (lines: readonly ListLine[]) {
    this.#lines = lines
  }

  /**
   * The changes in it; with `action` that one for all lines.
   * @throws ApiException that names the lines which cannot be used.
   */
  changes (action: ListChange['action'] | undefined): readonly ListChange[] {
    const faults: { readonly index: number, readonly message: string }[] = []
    const changes = this.#lines.map(({ entry, kind, list }, index): ListChange => {
      const wanted = action ?? ACTIONS.find(name => name === list)
      const entryKind = ENTRY_KINDS.find(name => name === kind)
      if (wanted === undefined) faults.push({ index, message: listFault(list) })
      else if (entryKind === undefined && kind !== '') {
        faults.push({ index, message: kindFault(kind) })
      }
      return { text: entry, action: wanted ?? 'remove', ...entryKind && { kind: entryKind } }
    })
    if (faults.length > 0) throw this.error(faults, faults.length)
    return changes
  }

  /** The answer to lines that cannot be used, of which the first `faults` are named. */
  error (
    faults: readonly { readonly index: number, readonly message: string }[], count: number
  ): ApiException {
    const named = faults.slice(0, MAX_NAMED).map(({ index, message }) =>
      `Line ${this.#lines[index]?.line}: ${message}`)
    const more = count > named.length ? ` And ${count - named.length} more.` : ''
    const lines = count === 1 ? 'a line' : `${count.toLocaleString('en-US')} lines`
    return fileError(`Nothing was changed, as ${lines} of the file cannot be used. ` +
      `${named.join(' ')}${more}`)
  }
}

const MAX_NAMED = 10
const ACTIONS = [...LIST_ACTIONS, 'remove'] as const

const quoted = (text: string) => `"${text.slice(0, SHOWN_CHARACTERS)}"`

const listFault = (list: string) => list === ''
  ? `list is blank. Write one of ${ACTIONS.join(', ')} there, or send action for all lines.`
  : `list is ${quoted(list)}. Write one of: ${ACTIONS.join(', ')}.`

const kindFault = (kind: string) =>
  `kind is ${quoted(kind)}. Leave it blank, or write one of: ${ENTRY_KINDS.join(', ')}.`

/**
 * Reads a CSV file with entries of contact lists: columns `entry`, and perhaps `list` and `kind`,
 * in any order; or one column without a name. Other columns are ignored.
 * @throws ApiException for a file that is no such file.
 */
async function readListFile (bytes: Buffer, pause: () => Promise<void>): Promise<ListFile> {
  const lines: ListLine[] = []
  let columns: ReturnType<typeof columnsIn> | undefined
  await scanCsv(bytes, undefined, {
    pause,
    onRecord: record => {
      if (record.kind === 'blank') return
      const { cells, line } = record
      if (cells.every(cell => cell.trim() === '')) return
      if (columns === undefined) {
        columns = columnsIn(cells)
        if (columns.isHeader) return
      }
      const { entry, kind, list } = columns
      if (lines.length === MAX_CHANGED_ENTRIES) {
        throw fileError(`The file has more than ${MAX_CHANGED_ENTRIES.toLocaleString('en-US')} ` +
          'entries. Send it in parts.')
      }
      lines.push({
        line,
        entry: cells[entry] ?? '',
        kind: (cells[kind] ?? '').trim().toLowerCase(),
        list: (cells[list] ?? '').trim().toLowerCase(),
      })
    },
  })
  if (lines.length === 0) throw fileError('The file has no entries. Send at least one.')
  return new ListFile(lines)
}

/** The positions of the columns in the first line; -1 for those that are missing. */
function columnsIn (first: readonly string[]) {
  const names = first.map(foldedName)
  const [entry, kind, list] = ['entry', 'kind', 'list'].map(name => names.indexOf(name)) as
    [number, number, number]
  if (entry >= 0) return { isHeader: true, entry, kind, list }
  if (first.length === 1) return { isHeader: false, entry: 0, kind, list }
  throw fileError('The first line of the file names no column "entry". Name the columns entry, ' +
    'list and kind, of which the last two may be left out, or send one column without a name.')
}
