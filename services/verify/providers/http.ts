import { randomInt } from 'node:crypto'
import type { ServiceSlug } from '../../topology.ts'
import {
  ProviderError, type CheckOptions, type Provider, type ProviderAnswer, type ProviderFailure,
  type ProviderRow,
} from '../provider.ts'
import { failureIn, readAnswers, type RequestedRow } from './http-answer.ts'
import type { HttpAuth, HttpVendor } from './http-vendor.ts'

/** Provider ids of described vendors start here; those of built-in providers are lower. */
const FIRST_HTTP_ID = 100

/** A larger response, uncompressed, has no answers. */
const MAX_RESPONSE_BYTES = 4 * 1_024 * 1_024
const MAX_REFERENCE = 2 ** 47

/**
 * A vendor with a JSON API that the configuration describes. Each call has new references for its
 * rows, so an answer to another call matches no row. Failures contain no text of the vendor.
 * Redirects are not followed: contacts go only to the configured host.
 */
export function createHttpProvider (vendor: HttpVendor): Provider {
  const { id, services, maxRows = 1, timeoutMs, concurrency, rate } = vendor
  return {
    id: FIRST_HTTP_ID + id,
    services,
    maxRows,
    limits: {
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
      ...(concurrency === undefined ? {} : { concurrency }),
      ...(rate === undefined ? {} : { rate }),
    },
    check: (rows, options) => check(vendor, rows, options),
  }
}

async function check (
  vendor: HttpVendor, rows: readonly ProviderRow[], { service, signal }: CheckOptions
): Promise<readonly ProviderAnswer[]> {
  const first = randomInt(MAX_REFERENCE)
  const requested = rows.map((row, index) => ({ ...row, reference: first + index }))
  const { url, init } = prepareCall(vendor, requested, service)
  const response = await call(url, { ...init, redirect: 'manual', signal })
  const body = await bodyOf(response, signal)
  const failure = failureIn(vendor, body, response.ok) ?? failureOf(vendor, response)
  if (failure !== undefined) throw new ProviderError(failure, retryAfterMs(response))
  const answers = body === undefined ? [] : readAnswers(vendor, body, { requested, service })
  if (answers.length === 0) throw new ProviderError('bad_response')
  return answers
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

/** The JSON value of the response; undefined if it is no JSON or too large. */
async function bodyOf (response: Response, signal: AbortSignal): Promise<unknown> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  try {
    for await (const chunk of response.body ?? []) {
      bytes += chunk.length
      if (bytes > MAX_RESPONSE_BYTES) return undefined
      chunks.push(chunk)
    }
    return JSON.parse(Buffer.concat(chunks).toString('utf8')) as unknown
  } catch {
    if (signal.aborted) throw new ProviderError('timeout')
    return undefined
  }
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

/** The Retry-After header in ms: seconds or a date (RFC 9110, 10.2.3); undefined otherwise. */
function retryAfterMs ({ headers }: Response): number | undefined {
  const text = headers.get('retry-after')?.trim() ?? ''
  if (/^\d{1,6}$/.test(text)) return Number(text) * 1_000
  const ms = Date.parse(text) - Date.now()
  return ms > 0 ? ms : undefined
}

type PreparedCall = { readonly url: string, readonly init: RequestInit }

/** The placeholders in the texts of a request. */
export const PLACEHOLDERS = [
  'contact', 'digits', 'contacts', 'row', 'rowNumber', 'rows', 'service',
] as const

type Scope = Readonly<Record<typeof PLACEHOLDERS[number], unknown>>

/** Matches every `{name}` in a text. */
export const PLACEHOLDER = /\{([A-Za-z]+)\}/g

/** The request of a call. */
export function prepareCall (
  vendor: HttpVendor, requested: readonly RequestedRow[], service: ServiceSlug
): PreparedCall {
  const { request = {}, method, auth } = vendor
  const scope = scopeOf(vendor, requested, service)
  const url = new URL(fillText(vendor.url, scope, encodeURIComponent))
  for (const [name, value] of Object.entries(request.query ?? {})) {
    url.searchParams.set(name, fillText(value, scope))
  }
  if (auth.kind === 'query') url.searchParams.set(auth.name, auth.value)
  const headers = new Headers({ accept: 'application/json', ...authHeaders(auth) })
  for (const [name, value] of Object.entries(request.headers ?? {})) headers.set(name, value)
  if (request.body === undefined) return { url: url.href, init: { method, headers } }
  headers.set('content-type', 'application/json')
  const body = JSON.stringify(fill(request.body, scope))
  return { url: url.href, init: { method, headers, body } }
}

function scopeOf (
  vendor: HttpVendor, requested: readonly RequestedRow[], service: ServiceSlug
): Scope {
  const word = vendor.request?.services?.[service] ?? service
  const template = vendor.request?.row
  const scopes = requested.map(({ canonical, reference }) => ({
    contact: canonical,
    digits: canonical.replace(/^\+/, ''),
    row: String(reference),
    rowNumber: reference,
    service: word,
    contacts: [canonical],
    rows: [],
  }))
  return {
    ...scopes[0] ?? { contact: '', digits: '', row: '', rowNumber: 0, service: word },
    contacts: requested.map(({ canonical }) => canonical),
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

function authHeaders (auth: HttpAuth): Record<string, string> {
  if (auth.kind === 'bearer') return { authorization: `Bearer ${auth.token}` }
  if (auth.kind === 'header') return { [auth.name]: auth.value }
  if (auth.kind !== 'basic') return {}
  const pair = Buffer.from(`${auth.username}:${auth.password}`).toString('base64')
  return { authorization: `Basic ${pair}` }
}
