import { parse } from 'csv-parse'
import { randomInt } from 'node:crypto'
import { pipeline, Readable } from 'node:stream'
import { isDeepStrictEqual } from 'node:util'
import { type Entry, fromBufferPromise, type ZipFile } from 'yauzl'
import { isArchive } from '../../../schemas/files/csv-format.ts'
import { readWorkbook } from '../../../schemas/files/workbook.ts'
import { parseRetryAfter } from '../../../schemas/http/retry-after.ts'
import { OPTION_NAMES, optionDate, optionName } from '../../jobs/options.ts'
import { columnsOf } from '../../jobs/results/columns.ts'
import { eventLoop } from '../../runtime/platform/event-loop.ts'
import { failpoint } from '../../runtime/platform/failpoint.ts'
import { readBody } from '../../runtime/platform/peer-guards.ts'
import type { ServiceSlug } from '../../topology.ts'
import {
  type CheckOptions, NO_ANSWER, NOT_YET, type Provider, type ProviderAnswer, ProviderError,
  type ProviderFailure, type ProviderRow, type ProviderVerdict, type Submissions, UNCLEAR,
  type VendorSubmission,
} from '../provider.ts'
import {
  type BatchVendor, type HttpCall, type HttpVendor, PLACEHOLDER, type PLACEHOLDERS, VENDOR_COLUMNS,
  vendorWordsOf,
} from './http-vendor.ts'

/** Provider ids of described vendors start here; those of built-in providers are lower. */
const FIRST_HTTP_ID = 100

/** A larger response, uncompressed, has no answers. */
const MAX_RESPONSE_BYTES = 4 * 1_024 * 1_024
const FREE_RESPONSE_BYTES = 256 * 1_024
const MAX_RESPONSE_BYTES_PER_ROW = 8_192

/** The maximum size of the response to a call with so many rows, uncompressed. */
const maxResponseBytes = (rows: number): number =>
  Math.min(MAX_RESPONSE_BYTES, FREE_RESPONSE_BYTES + MAX_RESPONSE_BYTES_PER_ROW * rows)

/** A response with deeper nesting has no answers: parsed, it takes many times its bytes. */
const MAX_JSON_DEPTH = 64
/** A larger response is parsed in a slot of the event loop. */
const MAX_UNSCHEDULED_BYTES = 65_536

const MAX_REFERENCE = 2 ** 47

/**
 * A vendor with a JSON API that the configuration describes. Each call has new references for its
 * rows, so an answer to another call matches no row. Failures contain no text of the vendor.
 * Redirects are not followed: contacts go only to the configured host.
 */
export function createVendorProvider (vendor: HttpVendor): Provider {
  const { services, maxRows = 1, options = {}, timeoutMs, concurrency, rate, batch } = vendor
  const id = FIRST_HTTP_ID + vendor.id
  const check: Provider['check'] = batch === undefined
    ? (rows, options) => checkAtOnce(vendor, rows, options)
    : (rows, options) => checkByTask({ ...vendor, batch }, { rows, options, provider: id })
  return {
    id,
    services,
    maxRows,
    options: OPTION_NAMES.filter(name => Object.hasOwn(options, name)),
    limits: {
      ...(timeoutMs === undefined ? {} : { timeoutMs, attemptTimeoutMs: timeoutMs }),
      ...(concurrency === undefined ? {} : { concurrency }),
      ...(rate === undefined ? {} : { rate }),
      ...(batch?.rate === undefined ? {} : { pollRate: batch.rate }),
    },
    ...(batch === undefined ? {} : { takesBatches: true }),
    check,
  }
}

async function checkAtOnce (
  vendor: HttpVendor, rows: readonly ProviderRow[], { service, options, signal }: CheckOptions
): Promise<readonly ProviderAnswer[]> {
  const first = randomInt(MAX_REFERENCE)
  const requested = rows.map((row, index) => ({ ...row, reference: first + index }))
  const subject = { requested, service, options }
  const { body } = await exchange(vendor, prepareSubmission(vendor, subject), signal)
  const answers = body === undefined ? [] : await readAnswers(vendor, body, subject)
  if (answers.length === 0) throw new ProviderError('bad_response')
  return answers
}

const POLL_MS = 15_000
const DEADLINE_MS = 3_600_000
const MAX_TASK = 256

/**
 * A vendor that takes many rows as one task and has its answers later. It gets rows once, with
 * their intention recorded before and their task after; with a submission it is asked for its
 * answers. A vendor that may have rows without us knowing its task is asked for it, by our
 * reference, or gets the same reference again, or, if it offers neither, is not called again: its
 * rows end without a verdict.
 */
async function checkByTask (
  vendor: BatchVendor,
  { rows, options, provider }: {
    readonly rows: readonly ProviderRow[]
    readonly options: CheckOptions
    readonly provider: number
  }
): Promise<Answers> {
  const { submission, submissions, isLast, service, signal } = options
  if (submissions === undefined) throw new ProviderError('unavailable')
  // Answers are matched by contact, as references would have to be kept.
  const requested = rows.map((row) => ({ ...row, reference: row.row }))
  const task = { vendor, subject: { requested, service }, submissions, signal }
  if (submission !== undefined) return await collect(task, submission)
  if (isLast === true) throw new ProviderError('timeout')
  const { pollMs = POLL_MS, deadlineMs = DEADLINE_MS } = vendor.batch
  const terms = { provider, pollMs, deadlineMs: submissions.now() + deadlineMs }
  const intended = await submissions.begin(rows.map(({ row }) => row), terms)
  failpoint('verify.intended')
  await send(task, intended)
  return notYet(task)
}

/** Rows that a vendor has as one task, or is to have. */
type BatchTask = {
  readonly vendor: BatchVendor
  readonly subject: Requested
  readonly submissions: Submissions
  readonly signal: AbortSignal
}

type Answers = readonly ProviderAnswer[]

const answersWith = ({ subject }: BatchTask, verdict: ProviderVerdict): Answers =>
  subject.requested.map(({ row }) => ({ row, verdict }))
const notYet = ({ subject }: BatchTask): Answers =>
  subject.requested.map(({ row }) => ({ row, verdict: NOT_YET, retry: true }))

/** A vendor that fails so has not accepted the rows, and they may be submitted anywhere. */
const NOT_ACCEPTED: ReadonlySet<ProviderFailure> = new Set([
  'rejected_input', 'auth', 'rate_limited', 'unavailable',
])

/** Submits rows; records and returns the id of the task, or records that there is none. */
async function send (task: BatchTask, submission: VendorSubmission): Promise<string> {
  const { vendor, subject, submissions, signal } = task
  const { reference } = submission
  try {
    const prepared = prepareSubmission(vendor, { ...subject, reference })
    const { body } = await exchange(vendor, prepared, signal)
    failpoint('verify.submitted')
    const id = readTaskId(body, vendor.batch.task)
    if (id === undefined) throw new ProviderError('bad_response')
    await submissions.accept(submission, id)
    failpoint('verify.recorded')
    return id
  } catch (error) {
    const isRefused = error instanceof ProviderError && NOT_ACCEPTED.has(error.failure)
    if (isRefused) await submissions.drop(submission)
    throw error
  }
}

async function collect (task: BatchTask, submission: VendorSubmission): Promise<Answers> {
  const { vendor, submissions, signal } = task
  const id = submission.task ?? await recoverTask(task, submission)
  if (id === undefined) return answersWith(task, NO_ANSWER)
  const subject = { ...task.subject, reference: submission.reference, task: id }
  const { status } = vendor.batch
  const { body } = await exchange(vendor, prepare(status, vendor, subject), signal)
  const state = wordFor(status.values, textOf(at(body, status.pointer))) ?? 'running'
  if (state === 'failed') return answersWith(task, NO_ANSWER)
  if (state === 'running') {
    const isOver = submissions.now() >= submission.deadlineMs
    return isOver ? answersWith(task, NOT_YET) : notYet(task)
  }
  const results = await readResults(task, body, subject)
  const answers = results === undefined ? [] : await readAnswers(vendor, results, subject)
  if (answers.length === 0) throw new ProviderError('bad_response')
  return answers
}

/** The id of a task that the vendor may have accepted; undefined if nobody can tell. */
async function recoverTask (
  task: BatchTask, submission: VendorSubmission
): Promise<string | undefined> {
  const { vendor, submissions, signal } = task
  const { find, idempotent } = vendor.batch
  const { reference } = submission
  if (find !== undefined) {
    const prepared = prepare(find, vendor, { ...task.subject, reference })
    const { body } = await exchange(vendor, { ...prepared, maxBytes: MAX_RESPONSE_BYTES }, signal)
    const list = at(body, find.rows)
    if (!Array.isArray(list)) throw new ProviderError('bad_response')
    const entry = list.find((it) => textOf(at(it, find.reference)) === reference)
    const id = readTaskId(entry, find.task)
    if (id !== undefined) {
      await submissions.accept(submission, id)
      return id
    }
  }
  const isRepeatable = find !== undefined || idempotent === true
  return isRepeatable ? await send(task, submission) : undefined
}

function readTaskId (body: unknown, pointer: string): string | undefined {
  const id = textOf(at(body, pointer))
  return id === undefined || id === '' || id.length > MAX_TASK ? undefined : id
}

/** The results of a task that has ended: a JSON value, or the rows of a table. */
async function readResults (
  { vendor, signal }: BatchTask, status: unknown, subject: Subject
): Promise<unknown> {
  const { result } = vendor.batch
  if (result === undefined) return status
  const prepared = result.link === undefined
    ? prepare({ ...result, url: result.url ?? '' }, vendor, subject)
    : prepareDownload(vendor, textOf(at(status, result.link)), subject)
  const { bytes, body } = await exchange(vendor, prepared, signal)
  if (result.format !== 'table') return body
  if (bytes === undefined) return undefined
  const columns = tableColumns(vendor, subject.service)
  const maxRows = maxEntries(subject.requested.length)
  return await readTable(bytes, { columns, maxRows, signal })
}

/**
 * The download from an address of the vendor's answer, which must be one of the described hosts:
 * an answer must not make this process call anything else. It gets no key of the vendor.
 */
function prepareDownload (
  vendor: BatchVendor, link: string | undefined, { requested }: Subject
): PreparedCall {
  const url = URL.parse(link ?? '')
  const { hostname, origin } = new URL(vendor.url)
  const isDescribed = url !== null && [hostname, ...vendor.batch.result?.hosts ?? []]
    .some((host) => host.startsWith('.') ? url.hostname.endsWith(host) : url.hostname === host)
  const isSafe = url?.protocol === 'https:' || url?.origin === origin
  if (url === null || !isDescribed || !isSafe) throw new ProviderError('bad_response')
  return { url: url.href, init: { method: 'GET' }, maxBytes: maxResponseBytes(requested.length) }
}

/**
 * The bytes of the response to a call, undefined if they are too large, and their JSON value,
 * undefined if they are none. Rejects with a `ProviderError` if the status or the error field is
 * one of a failure.
 */
async function exchange (
  vendor: HttpVendor, { url, init, maxBytes }: PreparedCall, signal: AbortSignal
): Promise<{ readonly bytes: Buffer | undefined, readonly body: unknown }> {
  const response = await call(url, { ...init, redirect: 'manual', signal })
  const bytes = await readBytes(response, maxBytes, signal)
  const body = await parseJson(bytes)
  throwIfFailed(vendor, response, body)
  return { bytes, body }
}

function throwIfFailed (vendor: HttpVendor, response: Response, body: unknown): void {
  const { ok, status } = response
  const { statuses } = vendor.errors ?? {}
  const failure = failureIn(vendor, body, ok) ??
    statuses?.[status] ?? statuses?.[`${Math.floor(status / 100)}xx`] ??
    (ok ? undefined : FAILURE_BY_STATUS[status] ?? 'bad_response')
  if (failure !== undefined) {
    const retryAfterMs = parseRetryAfter(response.headers.get('retry-after'), Date.now())
    throw new ProviderError(failure, retryAfterMs)
  }
}

/** Errors before the vendor received anything, so that a retry is free. */
const NOT_SENT: ReadonlySet<unknown> = new Set([
  'ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
])

async function call (url: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(url, init)
  } catch (error) {
    const cause = error instanceof Error ? error.cause : undefined
    const code = cause instanceof Error && 'code' in cause ? cause.code : undefined
    if (init.signal?.aborted) throw new ProviderError('timeout')
    throw new ProviderError(NOT_SENT.has(code) ? 'unavailable' : 'bad_response')
  }
}

/** The body of the response; undefined if it is cut off or too large. */
async function readBytes (
  response: Response, maxBytes: number, signal: AbortSignal
): Promise<Buffer | undefined> {
  try {
    return await readBody(response, maxBytes)
  } catch {
    if (signal.aborted) throw new ProviderError('timeout')
    return undefined
  }
}

async function parseJson (bytes: Buffer | undefined): Promise<unknown> {
  if (bytes === undefined) return undefined
  if (bytes.length > MAX_UNSCHEDULED_BYTES) await eventLoop.yield('bulk')
  try {
    return isDeep(bytes) ? undefined : JSON.parse(bytes.toString('utf8')) as unknown
  } catch {
    return undefined
  }
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const OPENING = 0x7b
const CLOSING = 0x7d
/** Turns a bracket into the brace of its side. */
const TO_BRACE = 0x20

/** Whether a JSON text is nested too deeply; any result for a text that is no JSON. */
function isDeep (bytes: Buffer): boolean {
  let depth = 0
  let isInString = false
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] ?? 0
    if (byte === QUOTE) isInString = !isInString
    else if (isInString) at += byte === BACKSLASH ? 1 : 0
    else if ((byte | TO_BRACE) === OPENING) depth += 1
    else if ((byte | TO_BRACE) === CLOSING) depth -= 1
    if (depth > MAX_JSON_DEPTH) return true
  }
  return false
}

/** The default failures of statuses. 500 is not retried: the vendor may have charged for it. */
const FAILURE_BY_STATUS: Readonly<Record<string, ProviderFailure>> = {
  400: 'rejected_input',
  401: 'auth',
  402: 'auth',
  403: 'auth',
  408: 'timeout',
  413: 'rejected_input',
  422: 'rejected_input',
  429: 'rate_limited',
  502: 'unavailable',
  503: 'unavailable',
  504: 'timeout',
}

type PreparedCall = {
  readonly url: string
  readonly init: RequestInit
  /** Of the response, uncompressed. */
  readonly maxBytes: number
}

type Scope = Readonly<Record<typeof PLACEHOLDERS[number], unknown>>

/** What a call is about: its rows, and for a batch the names that we and the vendor give to it. */
type Subject = Requested & { readonly reference?: string, readonly task?: string }

/** The request that sends rows. */
function prepareSubmission (vendor: HttpVendor, subject: Subject): PreparedCall {
  const { url, method, request = {} } = vendor
  const query = queryWith(vendor, subject.options)
  return prepare({ ...request, ...query && { query }, url, method }, vendor, subject)
}

/** The query of a request with what the chosen options add to it. */
function queryWith (
  { request = {}, options = {} }: HttpVendor, chosen: readonly string[] = []
): Readonly<Record<string, string>> | undefined {
  if (chosen.length === 0) return request.query
  const query: Record<string, string> = { ...request.query }
  for (const [name, text] of chosen.flatMap(option =>
    Object.entries(options[optionName(option)]?.query ?? {}))) {
    query[name] = query[name] === undefined ? text : `${query[name]},${text}`
  }
  return query
}

/** Any call to the vendor, with its authentication. */
function prepare (call: HttpCall, vendor: HttpVendor, subject: Subject): PreparedCall {
  const { auth } = vendor
  const scope = scopeOf(vendor, subject)
  const url = new URL(fillText(call.url, scope, encodeURIComponent))
  for (const [name, value] of Object.entries(call.query ?? {})) {
    url.searchParams.set(name, fillText(value, scope))
  }
  const headers = new Headers({ accept: 'application/json' })
  if (auth.kind === 'query') url.searchParams.set(auth.name, auth.value)
  if (auth.kind === 'header') headers.set(auth.name, auth.value)
  if (auth.kind === 'bearer') headers.set('authorization', `Bearer ${auth.token}`)
  if (auth.kind === 'basic') {
    const pair = Buffer.from(`${auth.username}:${auth.password}`).toString('base64')
    headers.set('authorization', `Basic ${pair}`)
  }
  for (const [name, value] of Object.entries(call.headers ?? {})) {
    headers.set(name, fillText(value, scope))
  }
  const init = { method: call.method ?? 'GET', headers }
  const prepared = { url: url.href, maxBytes: maxResponseBytes(subject.requested.length) }
  if (call.multipart !== undefined) {
    return { ...prepared, init: { ...init, body: formOf(call.multipart, scope) } }
  }
  if (call.body === undefined) return { ...prepared, init }
  headers.set('content-type', 'application/json')
  return { ...prepared, init: { ...init, body: JSON.stringify(fill(call.body, scope)) } }
}

function formOf (parts: NonNullable<HttpCall['multipart']>, scope: Scope): FormData {
  const form = new FormData()
  for (const [name, part] of Object.entries(parts)) {
    if (typeof part === 'string') form.set(name, fillText(part, scope))
    else {
      const content = new Blob([fillText(part.text, scope)], { type: part.type })
      form.set(name, content, fillText(part.name, scope))
    }
  }
  return form
}

function scopeOf (
  vendor: HttpVendor, { requested, service, options = [], reference = '', task = '' }: Subject
): Scope {
  const since = options.map(optionDate).find(date => date !== undefined)?.replaceAll('-', '') ?? ''
  const names = { service: vendor.request?.services?.[service] ?? service, since, reference, task }
  const template = vendor.request?.row
  const scopes = requested.map(({ canonical, reference: row }) => ({
    ...names,
    contact: canonical,
    digits: canonical.replace(/^\+/, ''),
    row: String(row),
    rowNumber: row,
    contacts: [canonical],
    lines: canonical,
    rows: [],
  }))
  const contacts = requested.map(({ canonical }) => canonical)
  return {
    ...scopes[0] ?? { ...names, contact: '', digits: '', row: '', rowNumber: 0 },
    contacts,
    // Each contact is the only cell of a CSV line.
    lines: contacts.map((contact) =>
      /[",\s]/.test(contact) ? `"${contact.replaceAll('"', '""')}"` : contact).join('\n'),
    rows: template === undefined ? [] : scopes.map((scope) => fill(template, scope)),
  }
}

/** A text that is a single placeholder becomes its value with its type; others become text. */
function fill (template: unknown, scope: Scope): unknown {
  if (typeof template === 'string') {
    const [whole, name = ''] = /^\{([A-Za-z]+)\}$/.exec(template) ?? []
    return whole === undefined ? fillText(template, scope) : scope[name as keyof Scope]
  }
  if (Array.isArray(template)) return template.map((item) => fill(item, scope))
  if (typeof template !== 'object' || template === null) return template
  return Object.fromEntries(
    Object.entries(template).map(([name, value]) => [name, fill(value, scope)]))
}

function fillText (text: string, scope: Scope, encode = (value: string) => value): string {
  return text.replace(PLACEHOLDER, (_, name: keyof Scope) => encode(String(scope[name])))
}

/** A row of a call; the vendor receives and repeats `reference` instead of the row number. */
type RequestedRow = {
  readonly row: number
  readonly canonical: string
  readonly reference: number
}

type Requested = Pick<CheckOptions, 'service' | 'options'> & {
  readonly requested: readonly RequestedRow[]
}

/** Entries of a response beyond two for each row. */
const SPARE_ENTRIES = 100

/** The maximum number of entries in the response to a call with so many rows. */
const maxEntries = (rows: number): number => 2 * rows + SPARE_ENTRIES

/** Entries that are read between two yields to the event loop. */
const SLICE_ENTRIES = 250

/**
 * The verdicts in a vendor's response; none if it has far more entries than rows. An answer is
 * matched to a row by reference or contact, never by position; if it has both, both must match the
 * same row. Answers without a row are ignored. A row with two different answers is unclear. Results
 * contain no free text of the vendor.
 */
export async function readAnswers (
  vendor: HttpVendor, body: unknown, { requested, service, options }: Requested
): Promise<readonly ProviderAnswer[]> {
  const { rows } = vendor.response
  const list = rows === undefined ? [body] : at(body, rows)
  const entries: readonly (readonly [key: string, value: unknown])[] = Array.isArray(list)
    ? list.map((row: unknown) => ['', row])
    : typeof list === 'object' && list !== null ? Object.entries(list) : []
  if (entries.length > maxEntries(requested.length)) return []
  const find = finderOf(vendor, requested)
  const read = verdictReader(vendor, { service, options })
  const verdicts = new Map<number, ProviderVerdict>()
  for (const [index, [key, entry]] of entries.entries()) {
    if (index % SLICE_ENTRIES === SLICE_ENTRIES - 1) await eventLoop.yield('bulk')
    const row = find(key, entry)
    if (row === undefined) continue
    const verdict = read(entry)
    const earlier = verdicts.get(row)
    const same = earlier === undefined || isDeepStrictEqual(earlier, verdict)
    verdicts.set(row, same ? verdict : UNCLEAR)
  }
  return [...verdicts].map(([row, verdict]) => ({ row, verdict }))
}

function finderOf ({ response: { match } }: HttpVendor, requested: readonly RequestedRow[]) {
  if (match === undefined) return () => requested[0]?.row
  const byReference = new Map(requested.map(({ row, reference }) => [String(reference), row]))
  const byContact = new Map(requested.map(({ row, canonical }) => [contactKey(canonical), row]))
  return (key: string, entry: unknown): number | undefined => {
    const references = [...textsAt(match.row, entry), ...match.key === 'row' ? [key] : []]
    const contacts = [...textsAt(match.contact, entry), ...match.key === 'contact' ? [key] : []]
    const rows = [
      ...references.map((text) => byReference.get(text ?? '')),
      ...contacts.map((text) => byContact.get(contactKey(text ?? ''))),
    ]
    return rows.every((row) => row === rows[0]) ? rows[0] : undefined
  }
}

const textsAt = (pointer: string | undefined, entry: unknown) =>
  pointer === undefined ? [] : [textOf(at(entry, pointer))]

/** Vendors format numbers with spaces, and with or without a plus sign or two zeros. */
function contactKey (contact: string): string {
  const text = contact.trim().toLowerCase()
  return text.includes('@') ? text : text.replace(/\D/g, '').replace(/^00/, '')
}

function verdictReader (vendor: HttpVendor, terms: Omit<Requested, 'requested'>) {
  const { verdict, reason = [] } = vendor.response
  const reasons = Array.isArray(reason) ? reason : [reason]
  const fieldsOf = fieldsReader(vendor, terms)
  // A vendor may name the field of a verdict after what was checked.
  const pointer = verdict.pointer.replaceAll('{service}', terms.service)
  return (entry: unknown): ProviderVerdict => {
    const text = textOf(at(entry, pointer))
    if (text === undefined) return NO_ANSWER
    const outcome = wordFor(verdict.values, text)
    if (outcome === undefined) return UNCLEAR
    const words = reasons.map(({ values, pointer: where }) =>
      wordFor(values, textOf(at(entry, where))))
    const why = words.find((word) => word !== undefined) ?? outcome.reason
    if (outcome.status === 'unknown') return { ...UNCLEAR, reason: why }
    const fields = fieldsOf(entry)
    const { status, confidence = DEFAULT_CONFIDENCE } = outcome
    return { status, reason: why, confidence, fields }
  }
}

/** The confidence of a vendor that does not state one, 0 to 100. */
const DEFAULT_CONFIDENCE = 90

function fieldsReader (
  vendor: HttpVendor, { service, options }: Omit<Requested, 'requested'>
) {
  const columns = columnsOf(service, { options })
  const words = vendorWordsOf(vendor)
  const described = Object.entries(vendor.response.fields ?? {})
    .filter(([column]) => columns.includes(column))
  return (entry: unknown): Record<string, string> => {
    const columns = described.flatMap(([column, { pointer, values }]) => {
      const text = textOf(at(entry, pointer))
      const word = values === undefined ? text : wordFor(values, text)
      const value = word === undefined ? undefined : VENDOR_COLUMNS[column]?.(word, words)
      return value === undefined ? [] : [[column, value] as const]
    })
    return Object.fromEntries(columns)
  }
}

/**
 * The failure that the error field of a response has. With `ok` false (no success status) only the
 * errors that the description names count; otherwise the status decides.
 */
export function failureIn (vendor: HttpVendor, body: unknown, ok: boolean):
ProviderFailure | undefined {
  const field = vendor.errors?.field
  const text = field === undefined ? undefined : textOf(at(body, field.pointer))
  if (field === undefined || text === undefined || field.fine?.includes(text)) return undefined
  const named = wordFor(field.values, text)
  return named ?? (ok ? field.otherwise ?? 'bad_response' : undefined)
}

/** The value that a map of a description has for a text of the vendor. */
function wordFor<T> (
  words: Readonly<Record<string, T>> | undefined, text: string | undefined
): T | undefined {
  return words !== undefined && text !== undefined && Object.hasOwn(words, text)
    ? words[text]
    : undefined
}

/** Scalars as text, like the keys of maps; undefined for null, lists and objects. */
function textOf (value: unknown): string | undefined {
  return ['string', 'number', 'boolean'].includes(typeof value) ? String(value) : undefined
}

/** The value at a JSON pointer (RFC 6901), undefined if there is none. */
export function at (value: unknown, pointer: string): unknown {
  let here = value
  for (const token of pointer.split('/').slice(1)) {
    const name = unescapeToken(token)
    if (typeof here !== 'object' || here === null || !Object.hasOwn(here, name)) return undefined
    here = (here as Readonly<Record<string, unknown>>)[name]
  }
  return here
}

const unescapeToken = (token: string) => token.replaceAll('~1', '/').replaceAll('~0', '~')

/** The columns of a table that the description of a vendor points at. */
function tableColumns (
  { response: { match, verdict, reason = [], fields = {} } }: HttpVendor, service: ServiceSlug
): ReadonlySet<string> {
  const pointers = [
    match?.row, match?.contact, verdict.pointer.replaceAll('{service}', service),
    ...[reason].flat().map(({ pointer }) => pointer),
    ...Object.values(fields).map(({ pointer }) => pointer),
  ]
  return new Set(pointers.flatMap((pointer) => {
    const [, token] = pointer?.split('/') ?? []
    return token === undefined ? [] : [unescapeToken(token)]
  }))
}

/** What a table is read for; everything else in it is skipped, and bounded. */
type TableQuery = {
  /** The names of the columns to read. */
  readonly columns: ReadonlySet<string>
  /** Of data: a table with more rows, or CSV with more blank lines, is refused. */
  readonly maxRows: number
  readonly signal: AbortSignal
}

type Row = Readonly<Record<string, string>>

/** All files of an archive together, uncompressed. */
const MAX_INFLATED_BYTES = 16 * 1_024 * 1_024
const MAX_INFLATED_BYTES_PER_ROW = 16_384
/** Inflated bytes per byte of an archive. Spreadsheets of vendors have some 20. */
const MAX_RATIO = 100
/** What an archive may inflate to whatever its rows and its size. */
const FREE_BYTES = 131_072
const MAX_FILES = 256
/** Of a line of CSV, and of a row of a sheet, which has its columns at their place. */
const MAX_COLUMNS = 1_024
const MAX_LINE_BYTES = 262_144
/** One slice of work takes a few milliseconds at most. */
const SLICE_BYTES = 16_384

/** The table is damaged, or exceeds a limit. The message has no text of the vendor. */
class TableError extends Error {
  override readonly name = 'TableError'
}

/**
 * Reads the rows of a table under the names of its first line: CSV, a workbook (the first visible
 * sheet), or an archive (ZIP) with one of them. A row has all columns of the query that the table
 * has. Undefined if it is none of these, damaged, or exceeds a limit. The cost follows the bytes: a
 * parser gets them in slices, between which other work runs, and stops at the first violation.
 * Rejects with the reason of `signal`.
 */
export async function readTable (
  bytes: Buffer, query: TableQuery
): Promise<readonly Row[] | undefined> {
  const rows = new TableRows(query)
  try {
    if (isArchive(bytes)) {
      await readArchive(bytes, { rows, query, budget: new InflatedBytes(bytes, query), level: 0 })
    } else await readCsv(slicesOf(bytes), rows, query)
    return rows.finish()
  } catch {
    query.signal.throwIfAborted()
    return undefined
  }
}

/** The rows so far; the first one names the columns. */
class TableRows {
  readonly #columns: ReadonlySet<string>
  readonly #maxRows: number
  readonly #rows: Row[] = []
  #lines = 0
  /** The columns to read, by their index. */
  #names: Map<number, string> | undefined

  constructor ({ columns, maxRows }: TableQuery) {
    this.#columns = columns
    this.#maxRows = maxRows
  }

  /** Counts lines before their rows are added, blank ones too. */
  countLines (more: number): void {
    this.#lines += more
    if (this.#lines > this.#maxRows + 1) throw new TableError('too many lines')
  }

  /** Adds a row; cells may be missing anywhere. */
  add (cells: readonly (string | undefined)[]): void {
    if (this.#names === undefined) this.#names = this.#readNames(cells)
    else {
      const row = Object.create(null) as Record<string, string>
      for (const [column, name] of this.#names) row[name] = (cells[column] ?? '').trim()
      this.#rows.push(row)
    }
  }

  finish (): readonly Row[] {
    if (this.#names === undefined) throw new TableError('no line')
    return this.#rows
  }

  /** Of two columns with a name, the last one counts. */
  #readNames (cells: readonly (string | undefined)[]): Map<number, string> {
    const byName = new Map<string, number>()
    cells.forEach((text, column) => {
      const name = text?.trim() ?? ''
      if (this.#columns.has(name)) byName.set(name, column)
    })
    return new Map([...byName].map(([name, column]) => [column, name]))
  }
}

/** The bytes that the files of one answer may still inflate to. */
class InflatedBytes {
  #left: number

  constructor ({ length }: Buffer, { maxRows }: TableQuery) {
    this.#left = Math.min(MAX_INFLATED_BYTES, FREE_BYTES + MAX_INFLATED_BYTES_PER_ROW * maxRows,
      FREE_BYTES + MAX_RATIO * length)
  }

  get left (): number { return this.#left }

  take (bytes: number): void {
    this.#left -= bytes
    if (this.#left < 0) throw new TableError('too large when inflated')
  }
}

async function * slicesOf (bytes: Buffer): AsyncGenerator<Buffer> {
  for (let from = 0; from < bytes.length; from += SLICE_BYTES) {
    yield bytes.subarray(from, from + SLICE_BYTES)
  }
}

const COMMA = 0x2c
const LINE_FEED = 0x0a
const CARRIAGE_RETURN = 0x0d

/** Checks the lines of CSV before the parser gets them: their number, length and columns. */
async function * checkLines (
  slices: AsyncIterable<Buffer>, rows: TableRows, signal: AbortSignal
): AsyncGenerator<Buffer> {
  let commas = 0
  let bytes = 0
  let before = 0
  for await (const slice of slices) {
    await eventLoop.yield('bulk')
    signal.throwIfAborted()
    let lines = 0
    for (const byte of slice) {
      bytes += 1
      if (byte === COMMA) commas += 1
      const isEnd = byte === CARRIAGE_RETURN || (byte === LINE_FEED && before !== CARRIAGE_RETURN)
      before = byte
      if (commas >= MAX_COLUMNS) throw new TableError('too many columns')
      if (bytes > MAX_LINE_BYTES) throw new TableError('a line is too long')
      if (!isEnd) continue
      lines += 1
      commas = 0
      bytes = 0
    }
    rows.countLines(lines)
    yield slice
  }
}

/** Line breaks within quotes count as lines too, of which a table of verdicts has none. */
async function readCsv (
  slices: AsyncIterable<Buffer>, rows: TableRows, { signal }: TableQuery
): Promise<void> {
  const parser = parse({ bom: true, skip_empty_lines: true, relax_column_count: true })
  const ignore = () => {}
  // An error of the source is thrown by the loop.
  pipeline(Readable.from(checkLines(slices, rows, signal)), parser, ignore)
  for await (const line of parser as AsyncIterable<readonly string[]>) {
    rows.add(line)
  }
}

type Reading = {
  readonly rows: TableRows
  readonly query: TableQuery
  readonly budget: InflatedBytes
  /** 1 within an archive. */
  readonly level: 0 | 1
}

async function readArchive (bytes: Buffer, reading: Reading): Promise<void> {
  const zip = await fromBufferPromise(bytes, { lazyEntries: true, autoClose: false })
  if (zip.entryCount > MAX_FILES) throw new TableError('too many files')
  const files = new Map<string, Entry>()
  for await (const entry of zip.eachEntry()) files.set(entry.fileName, entry)
  if (files.has('xl/workbook.xml')) return await readSheet(bytes, reading)
  const names = [...files.keys()]
  const name = names.find((path) => /\.(?:csv|txt|xlsx)$/i.test(path))
  const entry = files.get(name ?? '')
  if (name === undefined || entry === undefined) throw new TableError('no table')
  const slices = inflate(zip, entry, reading)
  const isSheet = name.toLowerCase().endsWith('.xlsx')
  if (!isSheet) return await readCsv(slices, reading.rows, reading.query)
  if (reading.level > 0) throw new TableError('an archive in an archive in an archive')
  const pieces: Buffer[] = []
  for await (const slice of slices) pieces.push(slice)
  await readArchive(Buffer.concat(pieces), { ...reading, level: 1 })
}

/** Reads the first visible sheet of a workbook. */
async function readSheet (
  bytes: Buffer, { rows, budget, query: { signal } }: Reading
): Promise<void> {
  await readWorkbook(bytes, {
    maxInflatedBytes: budget.left,
    pause: async () => {
      await eventLoop.yield('bulk')
      signal.throwIfAborted()
    },
  }, ({ cells }) => {
    if (cells.length > MAX_COLUMNS) throw new TableError('too many columns')
    rows.countLines(1)
    rows.add(cells)
  })
}

async function * inflate (
  zip: ZipFile, entry: Entry, { budget, query: { signal } }: Reading
): AsyncGenerator<Buffer> {
  if (entry.uncompressedSize > budget.left) throw new TableError('too large when inflated')
  for await (const chunk of await zip.openReadStreamPromise(entry)) {
    const bytes = chunk as Buffer
    budget.take(bytes.length)
    for await (const slice of slicesOf(bytes)) {
      await eventLoop.yield('bulk')
      signal.throwIfAborted()
      yield slice
    }
  }
}
