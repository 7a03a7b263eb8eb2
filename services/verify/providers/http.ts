import { randomInt } from 'node:crypto'
import {
  ProviderError, type CheckOptions, type Provider, type ProviderAnswer, type ProviderFailure,
  type ProviderRow,
} from '../provider.ts'
import { failureIn, readAnswers } from './http-answer.ts'
import { prepareCall, type PreparedCall } from './http-request.ts'
import type { HttpVendor } from './http-vendor.ts'

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
  const answers = body === undefined ? [] : readAnswers(vendor, body, { requested, service })
  if (answers.length === 0) throw new ProviderError('bad_response')
  return answers
}

/**
 * The JSON value of the response to a call; undefined if it is no JSON or too large. Rejects with a
 * `ProviderError` if the status or the error field is one of a failure.
 */
export async function exchange (
  vendor: HttpVendor, { url, init }: PreparedCall, signal: AbortSignal
): Promise<unknown> {
  const response = await call(url, { ...init, redirect: 'manual', signal })
  const body = jsonOf(await bytesOf(response, signal))
  throwIfFailed(vendor, response, body)
  return body
}

/** Like `exchange`, for a file: a JSON value counts only for its error field. */
export async function download (
  vendor: HttpVendor, { url, init }: PreparedCall, signal: AbortSignal
): Promise<Buffer | undefined> {
  const response = await call(url, { ...init, redirect: 'manual', signal })
  const bytes = await bytesOf(response, signal)
  throwIfFailed(vendor, response, jsonOf(bytes))
  return bytes
}

function throwIfFailed (vendor: HttpVendor, response: Response, body: unknown): void {
  const failure = failureIn(vendor, body, response.ok) ?? failureOf(vendor, response)
  if (failure !== undefined) throw new ProviderError(failure, retryAfterMs(response))
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
async function bytesOf (response: Response, signal: AbortSignal): Promise<Buffer | undefined> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  try {
    for await (const chunk of response.body ?? []) {
      bytes += chunk.length
      if (bytes > MAX_RESPONSE_BYTES) return undefined
      chunks.push(chunk)
    }
    return Buffer.concat(chunks)
  } catch {
    if (signal.aborted) throw new ProviderError('timeout')
    return undefined
  }
}

function jsonOf (bytes: Buffer | undefined): unknown {
  try {
    return bytes === undefined ? undefined : JSON.parse(bytes.toString('utf8')) as unknown
  } catch {
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
