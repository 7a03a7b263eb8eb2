import { pipeline, Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { createHash } from 'node:crypto'
import { WORKBOOK_TYPE } from '../../schemas/api/file.ts'
import {
  DEFAULT_ROWS, FILTER_COLUMNS, PARQUET_TYPE, type ResultRow, type ResultsQuery,
} from '../../schemas/api/results.ts'
import { type Rows, createRowFilter, type RowFilter } from '../jobs/results/results.ts'
import type { ServiceSlug } from '../topology.ts'
import { type ApiError, ApiException } from './errors.ts'
import type { IngestDeps } from './deps.ts'
import {
  cachingHeaders, chooseForm, codingFor, compressed, createCompressor, isUnchanged,
} from './response.ts'
import { ID_COLUMN } from '../../schemas/api/columns.ts'
import { DELIMITERS } from '../../schemas/files/csv-format.ts'
import { createOriginalJson, joinedColumns, resultDisposition } from '../jobs/results/csv.ts'
import {
  parseCell, listColumns, listJsonFields, parseRowChecks, listRowFields,
} from '../jobs/results/columns.ts'
import { jobBody } from '../jobs/job-view.ts'
import {
  createTable, NUMBER_COLUMNS, parquetPieces, PIECE_CHARACTERS, textPieces, workbookStream,
} from '../jobs/results/result-tables.ts'
import { eventLoop } from '../runtime/platform/limits.ts'
import {
  checkCursor, countedBlocks, cursorAfter, decodeResultCursor, encodeResultCursor,
  type ProvisionalRows,
} from '../jobs/results/provisional.ts'
import type { Job } from '../jobs/job.ts'
import type { JobWithManifest } from '../jobs/store.ts'
import type { JobHeader } from '../jobs/message-codec.ts'

/** Formats of the results by media type; the first one is the default. */
export const RESULT_TYPES = {
  csv: 'text/csv',
  json: 'application/json',
  jsonl: 'application/x-ndjson',
  xlsx: WORKBOOK_TYPE,
  parquet: PARQUET_TYPE,
} as const

export type ResultForm = keyof typeof RESULT_TYPES
/** All rows, not a page of them. */
type FileForm = Exclude<ResultForm, 'json'>

/** Query fields that not every format supports, with those that do. */
const ONLY_IN: Readonly<Partial<Record<keyof ResultsQuery, readonly ResultForm[]>>> = {
  safe: ['csv'],
  delimiter: ['csv'],
  limit: ['json'],
  cursor: ['json'],
  provisional: ['jsonl'],
  after: ['jsonl'],
  types: ['json', 'jsonl'],
}

/**
 * The format of a request, if possible one that its other parameters are for: clients that are
 * generated from the description send `limit` without `format`.
 * @throws ApiException `not_acceptable`.
 */
export function resultForm (query: ResultsQuery, accept: string | undefined): ResultForm {
  const suited = (Object.keys(RESULT_TYPES) as ResultForm[])
    .filter(form => formError(query, form) === undefined)
  return chooseForm(RESULT_TYPES, accept, { format: query.format, suited })
}

/** The query fields that a format does not support, so that none is silently ignored. */
export function formError (query: ResultsQuery, form: ResultForm): ApiError | undefined {
  const names = Object.keys(query) as (keyof ResultsQuery)[]
  const foreign = names.find(name =>
    query[name] !== undefined && ONLY_IN[name]?.includes(form) === false)
  if (foreign === undefined) return undefined
  const forms = ONLY_IN[foreign] ?? []
  return {
    code: 'invalid_request',
    param: foreign,
    message: `${foreign} is for the form ${forms.join(' or ')} only. Leave it out, or send ` +
      `format=${forms[0]}.`,
  }
}

const CONTENT_TYPES = {
  csv: 'text/csv; charset=utf-8; header=present',
  jsonl: 'application/x-ndjson; charset=utf-8',
  xlsx: WORKBOOK_TYPE,
  parquet: PARQUET_TYPE,
} as const

/** Forms that are compressed by themselves. */
const PACKED: readonly string[] = [WORKBOOK_TYPE, PARQUET_TYPE]

type Piece = string | Uint8Array

/** The rows of a job that a request selects, and its reply. */
export type Answering = JobWithManifest & {
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  readonly header: JobHeader
  readonly selection: ResultSelection
}

/** By which spreadsheets know UTF-8. */
const BYTE_ORDER_MARK = Buffer.from('\ufeff')

/** Answers with the result file as it is read, compressed when asked, or with 304. */
export async function sendResults (
  deps: IngestDeps, answering: Answering, form: FileForm
): Promise<FastifyReply> {
  const { request, job, header, selection } = answering
  const query = request.query as ResultsQuery
  const safe = query.safe === 'spreadsheet'
  const delimiter = query.delimiter === 'original'
    ? header.delimiter ?? DELIMITERS.comma
    : DELIMITERS[query.delimiter ?? 'comma']
  const isDefault = form === 'csv' && selection.isWhole && selection.original === undefined
  const upload = header.columns && header.metadata['file']
  return await sendPieces(answering, {
    type: CONTENT_TYPES[form],
    headers: {
      'content-disposition': resultDisposition(job.id, { ...safe && { upload }, end: `.${form}` }),
    },
    tag: [
      ...isDefault ? [] : [form, selection.word], ...safe ? ['safe'] : [],
      ...delimiter === ',' ? [] : [`by-${delimiter.charCodeAt(0)}`],
    ],
    pieces: filePieces(deps, answering, { form, safe, delimiter }),
  })
}

type FileStyle = { readonly form: FileForm, readonly safe: boolean, readonly delimiter: string }

/** A store that fails does so before the first piece. */
async function * filePieces (
  deps: IngestDeps, { job, manifest, header, selection }: Answering,
  { form, safe, delimiter }: FileStyle
): AsyncIterable<Piece> {
  const { keep, columns, isWhole, original, ids, options } = selection
  if (form === 'csv') {
    const whole = { safe, delimiter, original, ids, options }
    const lines = deps.csvStream(job, manifest, isWhole ? whole : { ...whole, keep, columns })
    // The first piece is the header line, for which no row is read.
    const { first, rest } = await startPieces(lines, 2)
    yield * allPieces({ first: safe ? [BYTE_ORDER_MARK, ...first] : first, rest })
    return
  }
  const { service, tenant } = job
  const rows = deps.rows(job, manifest, { withReference: needsReference(selection), keep })
  if (form === 'jsonl') {
    const toText = createRowText(service, selection)
    yield * textPieces(tenant, rows, cells => `{${toText(cells)}}\n`)
    return
  }
  const table = createTable(job, selection)
  if (form === 'parquet') {
    yield * parquetPieces(tenant, table, rows)
    return
  }
  // A workbook begins with parts for which no row is read.
  const started = allPieces(await startPieces(rows, 1))
  yield * workbookStream({ job: jobBody(job, header), tenant, table, rows: started })
}

type Answer = {
  readonly type: string
  readonly headers?: Readonly<Record<string, string>>
  /** What distinguishes these results from others of the job; undefined while they may change. */
  readonly tag?: readonly string[]
  readonly pieces: AsyncIterable<Piece>
  /** Whether HEAD reads it as well, for its length unless it is a large one. */
  readonly isPage?: boolean
}

/**
 * Answers with pieces as the client takes them, compressed when asked, or with 304; for HEAD no
 * piece of a file is read. Fetches the first piece before any header is sent, so that a failing
 * store gives a clean error. A later failure truncates the response, which the client detects by
 * its framing.
 */
async function sendPieces (
  { request, reply, manifest }: Answering,
  { type, headers = {}, tag, pieces, isPage = false }: Answer
): Promise<FastifyReply> {
  const coding = PACKED.includes(type) ? undefined : codingFor(request.headers['accept-encoding'])
  const caching = tag && cachingHeaders(manifest, [...tag, ...coding === undefined ? [] : [coding]])
  if (caching !== undefined && isUnchanged(request, reply, caching)) return reply.send()
  const isRead = isPage || request.method !== 'HEAD'
  const started = isRead
    ? await startPieces(pieces, isPage ? 2 : 1)
    : { first: [], rest: undefined }
  reply.headers({
    'content-type': type,
    ...headers,
    ...caching,
    ...coding !== undefined && { 'content-encoding': coding },
  })
  if (isPage && started.rest === undefined) {
    const text = started.first.join('')
    return reply.send(coding === undefined ? text : await compressed(coding, text))
  }
  const stream = Readable.from(allPieces(started), { objectMode: false })
  if (coding === undefined || !isRead) return reply.send(stream)
  const compressor = createCompressor(coding)
  // A failure of one stream closes both; the reply gets the error of this one.
  pipeline(stream, compressor, () => {})
  return reply.send(compressor)
}

/** The first pieces of an answer, and an iterator of those that follow; undefined without any. */
type StartedPieces<T> = {
  readonly first: readonly T[]
  readonly rest: AsyncIterator<T> | undefined
}

async function startPieces<T> (
  pieces: AsyncIterable<T>, count: number
): Promise<StartedPieces<T>> {
  const rest = pieces[Symbol.asyncIterator]()
  const first: T[] = []
  while (first.length < count) {
    const next = await rest.next()
    if (next.done === true) return { first, rest: undefined }
    first.push(next.value)
  }
  return { first, rest }
}

async function * allPieces<T> ({ first, rest }: StartedPieces<T>): AsyncGenerator<T> {
  try {
    yield * first
    for (let next = await rest?.next(); next?.done === false; next = await rest?.next()) {
      yield next.value
    }
  } finally {
    // Closes the stream of the store if the client has disconnected.
    await rest?.return?.()
  }
}

/** Sends a page of rows as JSON, after the cursor and by the filters of the request. */
export async function sendResultsPage (
  deps: IngestDeps, answering: Answering
): Promise<FastifyReply> {
  const { request, job, manifest, selection } = answering
  const query = request.query as ResultsQuery
  const afterRow = query.cursor === undefined ? 0 : decodeCursor(query.cursor)
  if (afterRow === undefined) {
    throw invalidRequest('cursor',
      'cursor is not valid. Send the next_cursor of the previous page unchanged.')
  }
  const { limit = DEFAULT_ROWS } = query
  const { keep } = selection
  // Which is the first row of a mailbox is known only to who has read all before it.
  const range = query.duplicates !== 'mailbox' || keep === undefined
    ? { afterRow, keep }
    : {
        afterRow: 0,
        keep: (cells: readonly string[]) => keep(cells) && Number(cells[0]) > afterRow,
      }
  const rows = deps.rows(job, manifest, {
    ...range,
    // One more shows whether there is a next page.
    limit: limit + 1,
    withReference: needsReference(selection),
  })
  return await sendPieces(answering, {
    type: 'application/json; charset=utf-8',
    tag: ['json', selection.word, `${limit}-${afterRow}`],
    pieces: pagePieces(job, rows, limit, selection),
    isPage: true,
  })
}

/** A page ends before a row that would follow so many bytes: see `deploy/docs/results.md`. */
const MAX_PAGE_BYTES = 8 * 1_024 * 1_024

/** A page as JSON, in pieces. Its rows end at the limit, or with the row that fills the page. */
async function * pagePieces (
  { service, tenant }: Job, rows: AsyncIterable<Rows>, limit: number, selection: ResultSelection
): AsyncIterable<string> {
  const toText = createRowText(service, selection)
  let text = '{"data":['
  let count = 0
  let bytes = 0
  let afterRow = 0
  let next: number | undefined
  for await (const some of rows) {
    for (const cells of some) {
      if (count === limit || bytes >= MAX_PAGE_BYTES) {
        next = afterRow
        break
      }
      const row = `{${toText(cells)}}`
      text += count === 0 ? row : `,${row}`
      count += 1
      bytes += Buffer.byteLength(row)
      afterRow = Number(cells[0])
      if (text.length < PIECE_CHARACTERS) continue
      yield text
      text = ''
      await eventLoop.yield('bulk', tenant)
    }
    if (next !== undefined) break
  }
  const cursor = next === undefined ? null : encodeCursor(next)
  yield `${text}],"has_more":${next !== undefined},"next_cursor":${JSON.stringify(cursor)}}`
}

const CURSOR = /^v1:(0|[1-9]\d{0,8})$/

/** The cursor after a row, opaque to clients. */
function encodeCursor (afterRow: number): string {
  return Buffer.from(`v1:${afterRow}`).toString('base64url')
}

/** The row before a cursor; undefined for an invalid cursor. */
function decodeCursor (cursor: string): number | undefined {
  const row = CURSOR.exec(Buffer.from(cursor, 'base64url').toString('latin1'))?.[1]
  return row === undefined || encodeCursor(Number(row)) !== cursor ? undefined : Number(row)
}

type RowFields = {
  readonly columns: readonly string[]
  /** Names of the customer's columns, if they are joined. */
  readonly original?: readonly string[]
  /** JSON only: `text` for the form of before. */
  readonly types?: ResultsQuery['types']
}

/** The rows and columns of a request. */
export type ResultSelection = RowFields & {
  /** Undefined if all rows are wanted. */
  readonly keep: RowFilter | undefined
  /** Whether these are all rows and columns of the form. */
  readonly isWhole: boolean
  /** Whether the inputs of the job have ids. */
  readonly ids: boolean
  /** The options that the job has chosen. */
  readonly options: readonly string[] | undefined
  /** Part of the entity tag, different for each selection. */
  readonly word: string
}

/** Whether the last cell of a row is what its sender gave with it: an id, or the line of a file. */
const needsReference = ({ original, ids }: ResultSelection): boolean =>
  ids || original !== undefined

const invalidRequest = (param: string, message: string) =>
  new ApiException({ code: 'invalid_request', param, message })

/**
 * The selection of a validated query.
 * @throws ApiException for one that the results do not have.
 */
export function buildSelection (
  query: ResultsQuery, { service, ids, options, form }: {
    readonly service: ServiceSlug
    readonly ids: boolean
    readonly options?: readonly string[] | undefined
    readonly form: ResultForm
  }
): ResultSelection {
  const isJson = form === 'json' || form === 'jsonl'
  const listFields = isJson ? listJsonFields : listColumns
  const available = listFields(service, { ids, options })
  const isJoinedFile = !isJson && query.join !== undefined
  const { columns = isJoinedFile ? joinedColumns(available) : available } = query
  const foreign = columns.find(name => !available.includes(name))
  if (foreign !== undefined) {
    throw invalidRequest('columns',
      `columns has ${foreign}, which is not a column of ${service} as ${form}` +
      `${foreign === ID_COLUMN ? ', as no input of the job has an id' : ''}. It can have: ` +
      `${available.join(', ')}.`)
  }
  if (query.duplicates === 'mailbox' && !available.includes('normalized')) {
    throw invalidRequest('duplicates',
      `duplicates=mailbox is for e-mail addresses, and the job is of ${service}. Send ` +
      'duplicates=drop.')
  }
  if (query.duplicates === 'mailbox' && query.provisional !== undefined) {
    throw invalidRequest('duplicates',
      'duplicates=mailbox is for jobs that have ended: which row of a mailbox is the first is ' +
      'not known before. Send duplicates=drop, or leave provisional out.')
  }
  const wanted = { ...query, country: query.country?.map(code => code.toUpperCase()) }
  const keep = createRowFilter(service, wanted)
  const { duplicates, join, types } = query
  const filters = FILTER_COLUMNS.map(name => wanted[name] ?? null)
  const key = [columns, duplicates, join, types, ...filters]
  return {
    keep,
    columns,
    ids,
    options,
    types,
    isWhole: keep === undefined && query.columns === undefined,
    word: createHash('sha256').update(JSON.stringify(key)).digest('hex').slice(0, 16),
  }
}

/**
 * Converts the cells of a row to its fields as JSON, without the braces: blank cells are null,
 * except for the submitted input. The id is the cell after those of the service. With the
 * customer's columns, the last cell of a row is their line.
 */
export function createRowText (
  service: ServiceSlug, { columns, original, types }: RowFields
): (cells: readonly string[]) => string {
  const fields = columns.map(name => createFieldText(service, { name, types }))
  if (original !== undefined) {
    const toOriginal = createOriginalJson(original)
    fields.push(cells => `"original":${toOriginal(cells.at(-1) ?? '')}`)
  }
  return cells => {
    let text = ''
    for (const field of fields) text += text === '' ? field(cells) : `,${field(cells)}`
    return text
  }
}

/** The name and value of a column as JSON. Most columns have few values, so their text is kept. */
function createFieldText (
  service: ServiceSlug, column: Column
): (cells: readonly string[]) => string {
  const { name } = column
  const fields = listRowFields(service, { ids: true })
  const [at, sourceAt] = [fields.indexOf(name), fields.indexOf('source')]
  // Only the checks of a row depend on its source, if none are stored.
  const isChecks = name === 'checks'
  const texts = new Map<string, string>()
  return cells => {
    const source = isChecks ? cells[sourceAt] : undefined
    const cell = cells[at] ?? ''
    const key = cell === '' ? source ?? '' : cell
    const before = texts.get(key)
    if (before !== undefined) return before
    const text = `"${name}":${JSON.stringify(toValue(column, cell, source))}`
    if (texts.size < MAX_TEXTS) texts.set(key, text)
    return text
  }
}

/** Per column and answer. */
const MAX_TEXTS = 1_000

type Column = { readonly name: string, readonly types: ResultsQuery['types'] }

function toValue (
  { name, types }: Column, text = '', source: string | undefined
): ResultRow[string] {
  if (name === 'checks') return parseRowChecks(source, text)
  if (text === '' && name !== 'input') return null
  if (types === 'text') return NUMBER_COLUMNS.has(name) ? Number(text) : text
  return parseCell(name, text)
}

/** The answer to a cursor that cannot be checked while the blocks of its job are counted again. */
const RECOUNTED: ApiError = {
  code: 'temporarily_unavailable',
  message: 'The rows of this job are being counted again after a fault. Send the request again ' +
    'after the seconds in Retry-After.',
  retryAfterSeconds: 5,
}

/** Answers with the rows that are complete and come after the cursor of the request. */
export async function sendProvisional (
  deps: IngestDeps, answering: Answering
): Promise<FastifyReply> {
  const { request, job, manifest, selection } = answering
  const { after: text } = request.query as ResultsQuery
  const blocks = countedBlocks(manifest)
  const after = text === undefined ? cursorAfter(blocks, 0) : decodeResultCursor(text)
  if (after === undefined) {
    throw invalidRequest('after',
      'after is not valid. Send the cursor of a line or of Next-Cursor unchanged.')
  }
  const fit = checkCursor(job, blocks, after)
  if (fit !== 'fits') {
    throw new ApiException(fit === 'moved' ? { code: 'cursor_moved' } : RECOUNTED)
  }
  const { rows, next, isComplete } = await deps.provisionalRows({ job, blocks, after }, {
    keep: selection.keep, withReference: needsReference(selection),
  })
  const lines = provisionalLines(job, rows, selection)
  return await sendPieces(answering, {
    type: CONTENT_TYPES.jsonl,
    headers: {
      'next-cursor': encodeResultCursor(next),
      'results-complete': String(isComplete),
      vary: 'Accept, Accept-Encoding',
    },
    pieces: job.ended ? lines : withPauses(deps, job, lines),
  })
}

/** A reader gets a tenth of the time while the job runs, which may use the same cores. */
const PAUSE_PER_WORK = 9
/** A pause costs a read of the job from Redis. */
const MIN_PAUSE_MS = 50
/** Clients and proxies close connections that are silent for long. */
const MAX_PAUSE_MS = 5_000

/**
 * The pieces of rows of a running job, with pauses before the second and later ones. The end of the
 * job ends a pause, and there are none after it.
 */
async function * withPauses (
  { waitForJob }: IngestDeps, { tenant, id }: Job,
  pieces: AsyncIterable<string>
): AsyncIterable<string> {
  const isDone = ({ ended }: Job) => ended
  let isRunning = true
  let owedMs = 0
  let startedAtMs = performance.now()
  for await (const piece of pieces) {
    const workMs = performance.now() - startedAtMs
    if (isRunning && owedMs >= MIN_PAUSE_MS) {
      const timeoutMs = Math.min(owedMs, MAX_PAUSE_MS)
      const latest = await waitForJob({ tenant, job: id, isDone, timeoutMs })
      isRunning = latest?.ended === false
      owedMs = 0
    }
    owedMs += PAUSE_PER_WORK * workMs
    yield piece
    startedAtMs = performance.now()
  }
}

/** The rows as JSON Lines, in pieces of whole lines, each with the cursor after it. */
async function * provisionalLines (
  { service, tenant, ended }: Job, batches: AsyncIterable<ProvisionalRows>,
  selection: ResultSelection
): AsyncIterable<string> {
  const toText = createRowText(service, selection)
  for await (const { rows, window } of batches) {
    yield * textPieces(tenant, [rows], cells => {
      const row = toText(cells)
      const cursor = encodeResultCursor({ ...window, row: Number(cells[0]) })
      return `{${row}${row === '' ? '' : ','}"provisional":${!ended},"cursor":"${cursor}"}\n`
    })
  }
}
