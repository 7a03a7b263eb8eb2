import { randomInt } from 'node:crypto'
import { parseRetryAfter } from '../../../schemas/http/retry-after.ts'
import {
  type ProviderRequest, NO_ANSWER, NOT_YET, type Provider, type ProviderAnswer, ProviderError,
  type ProviderFailure, type ProviderRow, type ProviderVerdict, type Submissions,
  type VendorSubmission,
} from '../provider.ts'
import { OPTION_NAMES, optionDate, optionName } from '../../jobs/options.ts'
import { failpoint } from '../../runtime/platform/failpoint.ts'
import { eventLoop } from '../../runtime/platform/limits.ts'
import { readBody } from '../../runtime/platform/peer-guards.ts'
import {
  at, failureIn, maxEntries, readAnswers, readTable, type Requested, tableColumns, toText, wordFor,
} from './http-answer.ts'
import {
  type BatchVendor, type HttpCall, type HttpVendor, PLACEHOLDER, type PLACEHOLDERS,
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
    ? (rows, request) => checkAtOnce(vendor, rows, request)
    : (rows, request) => checkByTask({ ...vendor, batch }, id, rows, request)
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
  vendor: HttpVendor, rows: readonly ProviderRow[], { service, options, signal }: ProviderRequest
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
  vendor: BatchVendor, provider: number, rows: readonly ProviderRow[], request: ProviderRequest
): Promise<Answers> {
  const { submission, submissions, isLast, service, signal } = request
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
  const state = wordFor(status.values, toText(at(body, status.pointer))) ?? 'running'
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
    const entry = list.find((it) => toText(at(it, find.reference)) === reference)
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
  const id = toText(at(body, pointer))
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
    : prepareDownload(vendor, toText(at(status, result.link)), subject)
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
  const scope = buildScope(vendor, subject)
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
    return { ...prepared, init: { ...init, body: buildForm(call.multipart, scope) } }
  }
  if (call.body === undefined) return { ...prepared, init }
  headers.set('content-type', 'application/json')
  return { ...prepared, init: { ...init, body: JSON.stringify(fill(call.body, scope)) } }
}

function buildForm (parts: NonNullable<HttpCall['multipart']>, scope: Scope): FormData {
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

function buildScope (
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
