import { pipeline, Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { createHash } from 'node:crypto'
import {
  DEFAULT_ROWS, FILTER_COLUMNS, LIST_PARAMETERS, type ResultRow, type ResultsPage,
  type ResultsQuery,
} from '../../schemas/api/results.ts'
import type { Rows } from '../results/results.ts'
import { createRowFilter, type RowFilter } from '../results/row-filter.ts'
import type { ServiceSlug } from '../topology.ts'
import { type ApiError, ApiException } from './errors.ts'
import type { FoundResults } from './find-job.ts'
import {
  accepts, cachingHeaders, type Coding, codingFor, compressed, createCompressor, isUnchanged,
  preferred,
} from './negotiation.ts'
import type { IngestDeps } from './ports.ts'
import { sendError } from './response.ts'
import { columnsOf, rowChecksOf, rowFieldsOf } from '../results/columns.ts'
import { createOriginalRow, joinedColumns } from '../results/original.ts'

/** Formats of the results by media type; the first one is the default. */
export const RESULT_TYPES = {
  csv: 'text/csv', json: 'application/json', jsonl: 'application/x-ndjson',
} as const

export type ResultForm = keyof typeof RESULT_TYPES

/** Query fields that only one format supports. */
const ONLY_IN = {
  safe: 'csv', limit: 'json', cursor: 'json',
} as const satisfies Partial<Record<keyof ResultsQuery, ResultForm>>

/**
 * The format of a request: by its query, which the Accept header must not exclude, or else by the
 * header.
 * @throws ApiException `not_acceptable`.
 */
export function resultForm (query: ResultsQuery, accept: string | undefined): ResultForm {
  const forms = Object.keys(RESULT_TYPES) as ResultForm[]
  const form = query.format ?? forms.find(name =>
    RESULT_TYPES[name] === preferred(accept, Object.values(RESULT_TYPES)))
  if (form !== undefined && accepts(accept, RESULT_TYPES[form])) return form
  const available = query.format === undefined
    ? Object.values(RESULT_TYPES)
    : [RESULT_TYPES[query.format]]
  throw new ApiException({ code: 'not_acceptable', more: { available } })
}

/** The query fields that a format does not support, so that none is silently ignored. */
export function formError (query: ResultsQuery, form: ResultForm): ApiError | undefined {
  const names = Object.keys(ONLY_IN) as (keyof typeof ONLY_IN)[]
  const foreign = names.find(name => query[name] !== undefined && ONLY_IN[name] !== form)
  if (foreign === undefined) return undefined
  return {
    code: 'invalid_request',
    param: foreign,
    message: `${foreign} is for the form ${ONLY_IN[foreign]} only. Leave it out, or send ` +
      `format=${ONLY_IN[foreign]}.`,
  }
}

const CONTENT_TYPES = {
  csv: 'text/csv; charset=utf-8; header=present', jsonl: 'application/x-ndjson; charset=utf-8',
} as const

type Piece = string | Uint8Array

type FileExchange = {
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  readonly form: 'csv' | 'jsonl'
  /** CSV only: escapes cells that a spreadsheet would execute. */
  readonly safe: boolean
  readonly selection: ResultSelection
}

/** Answers with the result file as it is read, compressed when asked, or with 304. */
export async function sendResults (
  deps: IngestDeps, { job, manifest }: FoundResults, exchange: FileExchange
): Promise<FastifyReply> {
  const { request, reply, form, safe, selection } = exchange
  const coding = codingFor(request.headers['accept-encoding'])
  const isDefault = form === 'csv' && selection.isWhole && selection.original === undefined
  const forms = [
    ...(isDefault ? [] : [form, selection.word]), ...(safe ? ['safe'] : []),
    ...(coding === undefined ? [] : [coding]),
  ]
  const caching = cachingHeaders(manifest, forms)
  if (isUnchanged(request, reply, caching)) return reply.send()
  const rows = request.method === 'HEAD'
    ? Readable.from([])
    : await fileStream(deps, { job, manifest }, exchange)
  reply.headers({
    ...caching,
    'content-type': CONTENT_TYPES[form],
    'content-disposition': `attachment; filename="${job.id}.${form}"`,
    ...(coding === undefined ? {} : { 'content-encoding': coding }),
  })
  const isPlain = coding === undefined || request.method === 'HEAD'
  return reply.send(isPlain ? rows : zipped(rows, coding))
}

async function fileStream (
  deps: IngestDeps, { job, manifest }: FoundResults, { form, safe, selection }: FileExchange
): Promise<Readable> {
  const { keep, columns, isWhole, original } = selection
  if (form === 'jsonl') {
    const rows = deps.rows(job, manifest, { withReference: original !== undefined })
    return await startedStream(jsonLines(job.service, rows, selection), 1)
  }
  const options = isWhole ? { safe, original } : { safe, original, keep, columns }
  // The first piece is the header line, for which no row is read.
  return await startedStream(deps.csvStream(job, manifest, options), 2)
}

/**
 * Fetches the first pieces before any header is sent, so that a failing store gives a clean error.
 * A later failure truncates the response, which the client detects by its framing.
 */
async function startedStream (pieces: AsyncIterable<Piece>, count: number): Promise<Readable> {
  const iterator = pieces[Symbol.asyncIterator]()
  const first: Piece[] = []
  for (let at = 0; at < count; at++) {
    const next = await iterator.next()
    if (next.done === true) break
    first.push(next.value)
  }
  async function * all () {
    try {
      yield * first
      for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) {
        yield next.value
      }
    } finally {
      // Closes the stream of the store if the client has disconnected.
      await iterator.return?.()
    }
  }
  return Readable.from(all(), { objectMode: false })
}

function zipped (rows: Readable, coding: Coding): Readable {
  const compressor = createCompressor(coding)
  // A failure of one stream closes both; the reply gets the error of this one.
  pipeline(rows, compressor, () => {})
  return compressor
}

type PageExchange = Pick<FileExchange, 'request' | 'reply' | 'selection'>

/** Sends a page of rows as JSON, after the cursor and by the filters of the request. */
export async function sendResultsPage (
  deps: Pick<IngestDeps, 'page'>, { job, manifest }: FoundResults,
  { request, reply, selection }: PageExchange
): Promise<FastifyReply> {
  const query = request.query as ResultsQuery
  const afterRow = query.cursor === undefined ? 0 : afterRowOf(query.cursor)
  if (afterRow === undefined) {
    return sendError(reply, {
      code: 'invalid_request',
      param: 'cursor',
      message: 'cursor is not valid. Send the next_cursor of the previous page unchanged.',
    })
  }
  const coding = codingFor(request.headers['accept-encoding'])
  const { limit = DEFAULT_ROWS } = query
  const caching = cachingHeaders(manifest, [
    'json', selection.word, `${limit}-${afterRow}`, ...(coding === undefined ? [] : [coding]),
  ])
  if (isUnchanged(request, reply, caching)) return reply.send()
  const wanted = { limit, afterRow, selection }
  const text = JSON.stringify(await pageOf(deps, { job, manifest }, wanted))
  reply.headers(caching).type('application/json; charset=utf-8')
  if (coding === undefined) return reply.send(text)
  return reply.header('content-encoding', coding).send(await compressed(coding, text))
}

type Wanted = {
  readonly limit: number
  readonly afterRow: number
  readonly selection: ResultSelection
}

async function pageOf (
  deps: Pick<IngestDeps, 'page'>, { job, manifest }: FoundResults,
  { limit, afterRow, selection }: Wanted
): Promise<ResultsPage> {
  const { keep } = selection
  const page = await deps.page(job, manifest, {
    afterRow, limit, ...keep && { keep }, ...selection.original && { withReference: true },
  })
  const next = page.nextAfterRow
  return {
    data: page.rows.map(createRowShape(job.service, selection)),
    has_more: next !== undefined,
    next_cursor: next === undefined ? null : cursorOf(next),
  }
}

const CURSOR = /^v1:(0|[1-9]\d{0,8})$/

type LineOptions = ShapeOptions & { readonly keep?: RowFilter | undefined }

/** The rows as JSON Lines, one piece per batch. */
export async function * jsonLines (
  service: ServiceSlug, rows: AsyncIterable<Rows>,
  { keep = () => true, ...shown }: LineOptions = {}
): AsyncIterable<string> {
  const shape = createRowShape(service, shown)
  for await (const some of rows) {
    const lines = some.filter(keep).map(cells => `${JSON.stringify(shape(cells))}\n`)
    if (lines.length > 0) yield lines.join('')
  }
}

/** The cursor after a row, opaque to clients. */
export function cursorOf (afterRow: number): string {
  return Buffer.from(`v1:${afterRow}`).toString('base64url')
}

/** The row before a cursor; undefined for an invalid cursor. */
export function afterRowOf (cursor: string): number | undefined {
  const row = CURSOR.exec(Buffer.from(cursor, 'base64url').toString('latin1'))?.[1]
  return row === undefined || cursorOf(Number(row)) !== cursor ? undefined : Number(row)
}

/** The rows and columns of a request. */
export type ResultSelection = {
  /** Undefined if all rows are wanted. */
  readonly keep: RowFilter | undefined
  readonly columns: readonly string[]
  /** Whether these are all rows and columns of the form. */
  readonly isWhole: boolean
  /** Names of the customer's columns, if they are joined. */
  readonly original?: readonly string[]
  /** Part of the entity tag, different for each selection. */
  readonly word: string
}

/**
 * A hook that splits the lists of a query at their commas before they are validated.
 * @throws ApiException `invalid_request` for a list that was sent more than once.
 */
export async function listsInQuery (request: FastifyRequest): Promise<void> {
  const query = { ...request.query as Record<string, unknown> }
  for (const name of LIST_PARAMETERS) {
    const value = query[name]
    if (value === undefined) continue
    if (typeof value !== 'string') {
      throw new ApiException({
        code: 'invalid_request',
        param: name,
        message: `${name} was sent more than once. Send it once, with commas between its values.`,
      })
    }
    query[name] = value.split(',')
  }
  request.query = query
}

/** The selection of a validated query, or the error for a column that the results do not have. */
export function selectionOf (
  query: ResultsQuery, service: ServiceSlug, form: 'csv' | 'json' | 'jsonl'
): ResultSelection | ApiError {
  const available = form === 'csv' ? columnsOf(service) : rowFieldsOf(service)
  const isJoinedFile = form === 'csv' && query.join !== undefined
  const { columns = isJoinedFile ? joinedColumns(available) : available } = query
  const foreign = columns.find(name => !available.includes(name))
  if (foreign !== undefined) {
    return {
      code: 'invalid_request',
      param: 'columns',
      message: `columns has ${foreign}, which is not a column of ${service} as ${form}. It can ` +
        `have: ${available.join(', ')}.`,
    }
  }
  const wanted = { ...query, country: query.country?.map(code => code.toUpperCase()) }
  const keep = createRowFilter(service, wanted)
  const { duplicates, join } = query
  const key = [columns, duplicates, join, ...FILTER_COLUMNS.map(name => wanted[name] ?? null)]
  return {
    keep,
    columns,
    isWhole: keep === undefined && query.columns === undefined,
    word: createHash('sha256').update(JSON.stringify(key)).digest('hex').slice(0, 16),
  }
}

type ShapeOptions = Partial<Pick<ResultSelection, 'columns' | 'original'>>

/**
 * Converts the cells of a row to an object with these columns: blank cells are null, except for the
 * submitted input. With the customer's columns, the last cell is their line.
 */
export function createRowShape (
  service: ServiceSlug, { columns = rowFieldsOf(service), original }: ShapeOptions = {}
): (cells: readonly string[]) => ResultRow {
  const fields = rowFieldsOf(service)
  const originalOf = original && createOriginalRow(original)
  const [sourceAt, checksAt] = [fields.indexOf('source'), fields.indexOf('checks')]
  const positions = columns.map(name => [name, fields.indexOf(name)] as const)
  return cells => Object.fromEntries([
    ...positions.map(([name, at]) => [name, at === checksAt
      ? rowChecksOf(cells[sourceAt], cells[checksAt])
      : valueOf(name, cells[at])]),
    ...originalOf === undefined ? [] : [['original', originalOf(cells[fields.length] ?? '')]],
  ])
}

const NUMBERS: ReadonlySet<string> = new Set(['row', 'confidence', 'duplicate_of'])

function valueOf (name: string, text = ''): string | number | null {
  if (text === '' && name !== 'input') return null
  return NUMBERS.has(name) ? Number(text) : text
}
