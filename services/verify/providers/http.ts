import { randomInt } from 'node:crypto'
import { parseRetryAfter } from '../../../schemas/http/retry-after.ts'
import {
  type CheckOptions, type Provider, type ProviderAnswer, ProviderError, type ProviderFailure,
  type ProviderRow,
} from '../provider.ts'
import { yieldToEventLoop } from '../../runtime/platform/event-loop.ts'
import { readBody } from '../../runtime/platform/response-body.ts'
import { failureIn, readAnswers, type RequestedRow } from './http-answer.ts'
import type { HttpAuth, HttpCall, HttpVendor } from './http-vendor.ts'
import type { ServiceSlug } from '../../topology.ts'

/** Provider ids of described vendors start here; those of built-in providers are lower. */
const FIRST_HTTP_ID = 100

/** A larger response, uncompressed, has no answers. */
export const MAX_RESPONSE_BYTES = 4 * 1_024 * 1_024
const FREE_RESPONSE_BYTES = 256 * 1_024
const MAX_RESPONSE_BYTES_PER_ROW = 8_192

/** The maximum size of the response to a call with so many rows, uncompressed. */
export const maxResponseBytes = (rows: number): number =>
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
export function createHttpProvider (vendor: HttpVendor): Provider {
  return { ...commonOf(vendor), check: (rows, options) => check(vendor, rows, options) }
}

/** What the description says of the provider, however it is called. */
export function commonOf (vendor: HttpVendor): Omit<Provider, 'check'> {
  const { id, services, maxRows = 1, timeoutMs, concurrency, rate } = vendor
  return {
    id: FIRST_HTTP_ID + id,
    services,
    maxRows,
    limits: {
      ...(timeoutMs === undefined ? {} : { timeoutMs, attemptTimeoutMs: timeoutMs }),
      ...(concurrency === undefined ? {} : { concurrency }),
      ...(rate === undefined ? {} : { rate }),
    },
  }
}

async function check (
  vendor: HttpVendor, rows: readonly ProviderRow[], { service, signal }: CheckOptions
): Promise<readonly ProviderAnswer[]> {
  const first = randomInt(MAX_REFERENCE)
  const requested = rows.map((row, index) => ({ ...row, reference: first + index }))
  const body = await exchange(vendor, prepareCall(vendor, { requested, service }), signal)
  const answers = body === undefined
    ? []
    : await readAnswers(vendor, body, { requested, service })
  if (answers.length === 0) throw new ProviderError('bad_response')
  return answers
}

/**
 * The JSON value of the response to a call; undefined if it is no JSON or too large. Rejects with a
 * `ProviderError` if the status or the error field is one of a failure.
 */
export async function exchange (
  vendor: HttpVendor, { url, init, maxBytes }: PreparedCall, signal: AbortSignal
): Promise<unknown> {
  const response = await call(url, { ...init, redirect: 'manual', signal })
  const body = await parseJson(await readBytes(response, maxBytes, signal))
  throwIfFailed(vendor, response, body)
  return body
}

/** Like `exchange`, for a file: a JSON value counts only for its error field. */
export async function download (
  vendor: HttpVendor, { url, init, maxBytes }: PreparedCall, signal: AbortSignal
): Promise<Buffer | undefined> {
  const response = await call(url, { ...init, redirect: 'manual', signal })
  const bytes = await readBytes(response, maxBytes, signal)
  throwIfFailed(vendor, response, await parseJson(bytes))
  return bytes
}

function throwIfFailed (vendor: HttpVendor, response: Response, body: unknown): void {
  const failure = failureIn(vendor, body, response.ok) ?? failureOf(vendor, response)
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
  if (bytes.length > MAX_UNSCHEDULED_BYTES) await yieldToEventLoop('bulk')
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

function failureOf ({ errors }: HttpVendor, { ok, status }: Response): ProviderFailure | undefined {
  const { statuses } = errors ?? {}
  const described = statuses?.[status] ?? statuses?.[`${Math.floor(status / 100)}xx`]
  if (described !== undefined) return described
  return ok ? undefined : FAILURE_BY_STATUS[status] ?? 'bad_response'
}

export type PreparedCall = {
  readonly url: string
  readonly init: RequestInit
  /** Of the response, uncompressed. */
  readonly maxBytes: number
}

/** The placeholders in the texts of a request. */
export const PLACEHOLDERS = [
  'contact', 'digits', 'contacts', 'lines', 'row', 'rowNumber', 'rows', 'service', 'reference',
  'task',
] as const

type Scope = Readonly<Record<typeof PLACEHOLDERS[number], unknown>>

/** Matches every `{name}` in a text. */
export const PLACEHOLDER = /\{([A-Za-z]+)\}/g

/** What a call is about: its rows, and for a batch the names that we and the vendor give to it. */
export type Subject = {
  readonly requested: readonly RequestedRow[]
  readonly service: ServiceSlug
  readonly reference?: string
  readonly task?: string
}

/** The request of a call with rows. */
export function prepareCall (vendor: HttpVendor, subject: Subject): PreparedCall {
  const { url, method, request = {} } = vendor
  return prepare({ ...request, url, method }, vendor, subject)
}

/** Any call to the vendor, with its authentication. */
export function prepare (call: HttpCall, vendor: HttpVendor, subject: Subject): PreparedCall {
  const { auth } = vendor
  const scope = scopeOf(vendor, subject)
  const url = new URL(fillText(call.url, scope, encodeURIComponent))
  for (const [name, value] of Object.entries(call.query ?? {})) {
    url.searchParams.set(name, fillText(value, scope))
  }
  if (auth.kind === 'query') url.searchParams.set(auth.name, auth.value)
  const headers = new Headers({ accept: 'application/json', ...authHeaders(auth) })
  for (const [name, value] of Object.entries(call.headers ?? {})) {
    headers.set(name, fillText(value, scope))
  }
  const init = { method: call.method, headers }
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
  vendor: HttpVendor, { requested, service, reference = '', task = '' }: Subject
): Scope {
  const names = { service: vendor.request?.services?.[service] ?? service, reference, task }
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
    lines: contacts.map(csvCell).join('\n'),
    rows: template === undefined ? [] : scopes.map((scope) => fill(template, scope)),
  }
}

/** A contact as the only cell of a CSV line. */
function csvCell (contact: string): string {
  return /[",\s]/.test(contact) ? `"${contact.replaceAll('"', '""')}"` : contact
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

function authHeaders (auth: HttpAuth): Record<string, string> {
  if (auth.kind === 'bearer') return { authorization: `Bearer ${auth.token}` }
  if (auth.kind === 'header') return { [auth.name]: auth.value }
  if (auth.kind !== 'basic') return {}
  const pair = Buffer.from(`${auth.username}:${auth.password}`).toString('base64')
  return { authorization: `Basic ${pair}` }
}
