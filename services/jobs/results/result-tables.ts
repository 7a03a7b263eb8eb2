import { PassThrough, Readable } from 'node:stream'
import { ZipFile } from 'yazl'
import type { JobBody } from '../../../schemas/api/job.ts'
import { formatUsd } from '../../money/prices.ts'
import { eventLoop } from '../../runtime/platform/limits.ts'
import type { Rows } from './results.ts'
import type { Job } from '../job.ts'
import { listRowFields } from './columns.ts'
import { csvHeader, splitLine, uniqueKeys } from './csv.ts'
import { ByteWriter, ParquetWriter, type ColumnSource } from 'hyparquet-writer'

/** The columns whose cells are whole numbers in every form, or blank. */
export const NUMBER_COLUMNS: ReadonlySet<string> = new Set(['row', 'confidence', 'duplicate_of'])

/** The columns whose cells are times in ISO 8601. */
const TIME_COLUMNS: ReadonlySet<string> = new Set(['checked_at', 'expires_at'])

type ResultColumn = {
  readonly name: string
  readonly kind: 'text' | 'number' | 'time'
  /** Whether it is a column of the customer's file, whose blank cells are texts. */
  readonly isOriginal: boolean
}

/** The results as a table: its columns, and the cells of a row in their order. */
export type ResultTable = {
  readonly columns: readonly ResultColumn[]
  /** The fields of a row, with its reference last if the table has ids or `original` columns. */
  readonly toCells: (fields: readonly string[]) => readonly string[]
}

type TableOptions = {
  /** Of the results. */
  readonly columns: readonly string[]
  /** Of the customer's file, which come first. */
  readonly original?: readonly string[] | undefined
}

/** The table of a job, with the columns and names that its CSV has; names are unique. */
export function createTable (job: Job, { columns, original = [] }: TableOptions): ResultTable {
  const hasOriginal = original.length > 0
  const names = uniqueKeys(csvHeader(job, { columns, ...hasOriginal && { original } }))
  const fields = listRowFields(job.service, { ids: true })
  const positions = columns.map(name => fields.indexOf(name))
  const kinds = [...original.map(() => 'text' as const), ...columns.map(columnKind)]
  return {
    columns: names.map((name, at) => ({
      name, kind: kinds[at] ?? 'text', isOriginal: at < original.length,
    })),
    toCells: fields => {
      const cells = hasOriginal ? splitLine(fields.at(-1) ?? '').slice(0, original.length) : []
      while (cells.length < original.length) cells.push('')
      for (const position of positions) cells.push(fields[position] ?? '')
      return cells
    },
  }
}

const columnKind = (name: string): ResultColumn['kind'] =>
  NUMBER_COLUMNS.has(name) ? 'number' : TIME_COLUMNS.has(name) ? 'time' : 'text'

/** The fastest level: the default takes three times as long and saves a fifth. */
const COMPRESSION_LEVEL = 1
/** Few milliseconds of work. */
export const PIECE_CHARACTERS = 65_536
/** That of Excel, which repairs files with longer cells. */
const MAX_CELL_CHARACTERS = 32_767
/** Styles of cells by their index in `xl/styles.xml`. */
const [TEXT, BOLD, MONEY] = [1, 2, 3]

type WorkbookContent = {
  readonly job: JobBody
  readonly tenant: string
  readonly table: ResultTable
  readonly rows: AsyncIterable<Rows>
}

/**
 * The rows as an Excel workbook (ECMA-376), streamed: its bytes follow the rows as they are read.
 * The first sheet has the rows below a frozen line of names with a filter, the second one the
 * summary of the job. Cells are texts, which no spreadsheet runs as formulas or rewrites, except
 * for numbers of our own. Destroying the stream closes the rows.
 */
export function workbookStream (content: WorkbookContent): Readable {
  const { job, tenant, table, rows } = content
  const zip = new ZipFile()
  const mtime = new Date(job.completedAt ?? job.createdAt)
  const options = { mtime, compressionLevel: COMPRESSION_LEVEL, forceDosTimestamp: true }
  for (const [path, xml] of Object.entries(FIXED_PARTS)) {
    zip.addBuffer(Buffer.from(HEAD + xml), path, options)
  }
  const sheet = Readable.from(sheetPieces(tenant, table, rows), { objectMode: false })
  zip.addReadStream(sheet, 'xl/worksheets/sheet1.xml', options)
  zip.addBuffer(Buffer.from(summarySheet(job)), 'xl/worksheets/sheet2.xml', options)
  zip.end()
  const bytes = new PassThrough()
  const fail = (error: Error) => { bytes.destroy(error) }
  sheet.once('error', fail)
  zip.on('error', fail)
  bytes.once('close', () => sheet.destroy())
  zip.outputStream.pipe(bytes)
  return bytes
}

/** The texts of rows in pieces, the last of each batch as soon as its rows are there. */
export async function * textPieces (
  tenant: string, batches: AsyncIterable<Rows> | readonly Rows[],
  toText: (fields: readonly string[]) => string
): AsyncIterable<string> {
  for await (const rows of batches) {
    let text = ''
    for (const fields of rows) {
      text += toText(fields)
      if (text.length < PIECE_CHARACTERS) continue
      yield text
      text = ''
      await eventLoop.yield('bulk', tenant)
    }
    if (text !== '') yield text
  }
}

async function * sheetPieces (
  tenant: string, { columns, toCells }: ResultTable, rows: AsyncIterable<Rows>
): AsyncIterable<string> {
  const letters = columns.map((_, at) => columnLetters(at))
  const widths = columns.map(({ name }, at) => `<col min="${at + 1}" max="${at + 1}" ` +
    `width="${Math.min(30, Math.max(10, name.length + 4))}" customWidth="1"/>`)
  yield `${SHEET_START}<sheetViews><sheetView tabSelected="1" workbookViewId="0">` +
    '<pane ySplit="1" topLeftCell="A2" activePane="bottomLeft" state="frozen"/></sheetView>' +
    `</sheetViews><cols>${widths.join('')}</cols><sheetData><row r="1">` +
    `${columns.map(({ name }, at) => textCell(`${letters[at]}1`, name, BOLD)).join('')}</row>`
  let row = 1
  yield * textPieces(tenant, rows, fields => {
    row += 1
    let text = `<row r="${row}">`
    for (const [at, cell] of toCells(fields).entries()) {
      if (cell === '') continue
      const place = `${letters[at]}${row}`
      text += columns[at]?.kind === 'number'
        ? `<c r="${place}"><v>${Number(cell)}</v></c>`
        : textCell(place, cell, TEXT)
    }
    return `${text}</row>`
  })
  const range = `A1:${letters.at(-1)}${row}`
  yield `</sheetData><autoFilter ref="${range}"/><ignoredErrors>` +
    `<ignoredError sqref="${range}" numberStoredAsText="1"/></ignoredErrors></worksheet>`
}

/** What the job found and cost, and how its rows ended. */
function summarySheet (job: JobBody): string {
  const { verdicts, reasons } = job
  const lines: (readonly [label: string, value: string | number, style?: number])[] = [
    ['Job', job.id], ['Service', job.service], ['Status', job.status],
    ['Created', job.createdAt], ['Ended', job.completedAt ?? ''],
    ['Rows', job.totalRows],
    ...Object.entries(verdicts ?? {}).map(([verdict, rows]) => [`Rows ${verdict}`, rows] as const),
    ['Rows checked live', job.freshRecords], ['Rows from the cache', job.cacheHits],
    ['Rows that repeat another', job.duplicateRecords],
    ['Rows unreadable or blocked', job.invalidRecords],
    ['Rows without a verdict', job.unknownRecords], ['Rows cancelled', job.cancelledRecords],
    ['Maximum price in USD', formatUsd(job.maxQuoteMicros), MONEY],
    ['Charged in USD', formatUsd(job.chargedMicros), MONEY],
    ['Released in USD', formatUsd(job.releasedMicros), MONEY],
    ...Object.entries(reasons ?? {}).map(([reason, rows]) => [`Reason ${reason}`, rows] as const),
  ]
  const rows = lines.map(([label, value, style], at) => {
    const cell = typeof value === 'number' || style === MONEY
      ? `<c r="B${at + 1}" s="${style ?? 0}"><v>${value}</v></c>`
      : textCell(`B${at + 1}`, value, TEXT)
    return `<row r="${at + 1}">${textCell(`A${at + 1}`, label, BOLD)}${cell}</row>`
  })
  return `${SHEET_START}<cols><col min="1" max="1" width="30" customWidth="1"/>` +
    `<col min="2" max="2" width="34" customWidth="1"/></cols><sheetData>${rows.join('')}` +
    '</sheetData></worksheet>'
}

/** An underscore counts if a reader would take what follows it, as written, for an escape. */
// oxlint-disable-next-line no-control-regex
const SPECIAL = /[&<>\u0000-\u001f\ufffe\uffff]|_(?=x[0-9a-f]{4}[_\u0000-\u001f\ufffe\uffff])/gi
const AT_AN_END = /^\s|\s$|\n/

/** A text in a cell, whatever it begins with. */
function textCell (place: string, text: string, style: number): string {
  const short = text.length > MAX_CELL_CHARACTERS
    ? `${text.slice(0, MAX_CELL_CHARACTERS - 1)}\u2026`.toWellFormed()
    : text
  const space = AT_AN_END.test(short) ? ' xml:space="preserve"' : ''
  return `<c r="${place}" s="${style}" t="inlineStr"><is><t${space}>` +
    `${short.replace(SPECIAL, escaped)}</t></is></c>`
}

/** Characters that XML has no place for are written by their number (ECMA-376, 22.9.2.19). */
function escaped (special: string): string {
  if (special === '&') return '&amp;'
  if (special === '<') return '&lt;'
  if (special === '>') return '&gt;'
  if (special === '\n' || special === '\t') return special
  return `_x${special.charCodeAt(0).toString(16).padStart(4, '0').toUpperCase()}_`
}

function columnLetters (column: number): string {
  const before = column < 26 ? '' : columnLetters(Math.floor(column / 26) - 1)
  return before + String.fromCharCode(65 + column % 26)
}

const HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
const MAIN = 'http://schemas.openxmlformats.org/spreadsheetml/2006/main'
const RELATIONS = 'http://schemas.openxmlformats.org/officeDocument/2006/relationships'
const PACKAGE = 'http://schemas.openxmlformats.org/package/2006'
const TYPE = 'application/vnd.openxmlformats-officedocument.spreadsheetml'
const SHEET_START = `${HEAD}<worksheet xmlns="${MAIN}">`

const FIXED_PARTS: Readonly<Record<string, string>> = {
  '[Content_Types].xml': `<Types xmlns="${PACKAGE}/content-types">` +
    '<Default Extension="rels" ' +
    'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>' +
    `<Override PartName="/xl/workbook.xml" ContentType="${TYPE}.sheet.main+xml"/>` +
    `<Override PartName="/xl/worksheets/sheet1.xml" ContentType="${TYPE}.worksheet+xml"/>` +
    `<Override PartName="/xl/worksheets/sheet2.xml" ContentType="${TYPE}.worksheet+xml"/>` +
    `<Override PartName="/xl/styles.xml" ContentType="${TYPE}.styles+xml"/></Types>`,
  '_rels/.rels': `<Relationships xmlns="${PACKAGE}/relationships"><Relationship Id="rId1" ` +
    `Type="${RELATIONS}/officeDocument" Target="xl/workbook.xml"/></Relationships>`,
  'xl/workbook.xml': `<workbook xmlns="${MAIN}" xmlns:r="${RELATIONS}"><sheets>` +
    '<sheet name="Results" sheetId="1" r:id="rId1"/>' +
    '<sheet name="Summary" sheetId="2" r:id="rId2"/></sheets></workbook>',
  'xl/_rels/workbook.xml.rels': `<Relationships xmlns="${PACKAGE}/relationships">` +
    `<Relationship Id="rId1" Type="${RELATIONS}/worksheet" Target="worksheets/sheet1.xml"/>` +
    `<Relationship Id="rId2" Type="${RELATIONS}/worksheet" Target="worksheets/sheet2.xml"/>` +
    `<Relationship Id="rId3" Type="${RELATIONS}/styles" Target="styles.xml"/></Relationships>`,
  // The styles of cells, in order: general, text, bold, money.
  'xl/styles.xml': `<styleSheet xmlns="${MAIN}"><numFmts count="1">` +
    '<numFmt numFmtId="164" formatCode="0.00####"/></numFmts><fonts count="2">' +
    '<font><sz val="11"/><name val="Calibri"/></font>' +
    '<font><b/><sz val="11"/><name val="Calibri"/></font></fonts>' +
    '<fills count="2"><fill><patternFill patternType="none"/></fill>' +
    '<fill><patternFill patternType="gray125"/></fill></fills><borders count="1"><border>' +
    '<left/><right/><top/><bottom/><diagonal/></border></borders>' +
    '<cellStyleXfs count="1"><xf/></cellStyleXfs><cellXfs count="4">' +
    '<xf xfId="0"/><xf numFmtId="49" xfId="0" applyNumberFormat="1"/>' +
    '<xf numFmtId="49" fontId="1" xfId="0" applyNumberFormat="1" applyFont="1"/>' +
    '<xf numFmtId="164" xfId="0" applyNumberFormat="1"/></cellXfs>' +
    '<cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles>' +
    '</styleSheet>',
}

type SchemaElement = ConstructorParameters<typeof ParquetWriter>[0]['schema'][number]

/** Rows that are encoded together, in some ten milliseconds. */
const GROUP_ROWS = 2_000

/**
 * The rows as a Parquet file, in pieces: a group of rows is in memory at a time. Texts are UTF-8,
 * numbers 32-bit integers, times UTC in milliseconds; blank cells are null, except for `input` and
 * the customer's own.
 */
export async function * parquetPieces (
  tenant: string, table: ResultTable, rows: AsyncIterable<Rows>
): AsyncIterable<Uint8Array> {
  const { columns, toCells } = table
  const writer = new ByteWriter()
  const parquet = new ParquetWriter({
    writer, schema: buildSchema(columns), createdBy: 'verification-jobs',
  })
  const take = () => {
    const bytes = writer.getBytes().slice()
    writer.index = 0
    return bytes
  }
  let values: unknown[][] = columns.map(() => [])
  let count = 0
  const write = async () => {
    const columnData = columns.map(({ name }, at) => ({ name, data: values[at] as [] }))
    await parquet.write({
      columnData: columnData satisfies ColumnSource[], rowGroupSize: count,
    })
    values = columns.map(() => [])
    count = 0
    return take()
  }
  for await (const some of rows) {
    for (const fields of some) {
      const cells = toCells(fields)
      for (const [at, column] of columns.entries()) values[at]?.push(toValue(column, cells[at]))
      count += 1
      if (count < GROUP_ROWS) continue
      await eventLoop.yield('bulk', tenant)
      yield await write()
    }
  }
  if (count > 0) yield await write()
  await parquet.finish()
  yield take()
}

function buildSchema (columns: readonly ResultColumn[]): SchemaElement[] {
  return [
    { name: 'results', num_children: columns.length },
    ...columns.map((column): SchemaElement => {
      const { name, kind } = column
      const repetition = isRequired(column) ? 'REQUIRED' : 'OPTIONAL'
      const common = { name, repetition_type: repetition } as const
      switch (kind) {
        case 'number': return { ...common, type: 'INT32' }
        case 'time': return {
          ...common,
          type: 'INT64',
          converted_type: 'TIMESTAMP_MILLIS',
          logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MILLIS' },
        }
        default: return {
          ...common, type: 'BYTE_ARRAY', converted_type: 'UTF8', logical_type: { type: 'STRING' },
        }
      }
    }),
  ]
}

const isRequired = ({ name, isOriginal }: ResultColumn) =>
  isOriginal || name === 'row' || name === 'input'

function toValue (column: ResultColumn, cell = ''): string | number | Date | null {
  if (cell === '' && !isRequired(column)) return null
  switch (column.kind) {
    case 'number': return Number(cell)
    case 'time': return new Date(cell)
    case 'text': return cell
  }
}
