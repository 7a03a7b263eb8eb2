import { randomInt } from 'node:crypto'
import {
  ProviderError, type CheckOptions, type Provider, type ProviderAnswer, type ProviderFailure,
  type ProviderRow,
} from '../provider.ts'
import { failureIn, readAnswers } from './http-mapping.ts'
import { prepareCall } from './http-request.ts'
import type { HttpVendor } from './http-vendor.ts'

/** Numbers of described vendors in operators' metrics start here; those below are built in. */
export const FIRST_HTTP_ID = 100

/** An answer larger than this, unpacked, is none. */
const MAX_ANSWER_BYTES = 4 * 1_024 * 1_024
const MAX_REFERENCE = 2 ** 47

/**
 * A vendor whose JSON interface is described by configuration. Rows go out under references made
 * for the one call, so that an answer to any other call names no row. Failures carry nothing of
 * what the vendor said; redirects are not followed, as contacts go to the described host alone.
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
  const asked = rows.map((row, index) => ({ ...row, reference: first + index }))
  const { url, init } = prepareCall(vendor, asked, service)
  const response = await call(url, { ...init, redirect: 'manual', signal })
  const body = await bodyOf(response, signal)
  const failure = failureIn(vendor, body, response.ok) ?? failureOf(vendor, response)
  if (failure !== undefined) throw new ProviderError(failure, retryAfterMs(response))
  const answers = body === undefined ? [] : readAnswers(vendor, body, { asked, service })
  if (answers.length === 0) throw new ProviderError('bad_response')
  return answers
}

/** Failures before anything reached the vendor, so that another try costs nothing. */
const NOT_TAKEN: ReadonlySet<unknown> = new Set([
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
    throw new ProviderError(NOT_TAKEN.has(code) ? 'unavailable' : 'bad_response')
  }
}

/** The JSON value of the answer, undefined when it is none; never more than fits. */
async function bodyOf (response: Response, signal: AbortSignal): Promise<unknown> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  try {
    for await (const chunk of response.body ?? []) {
      bytes += chunk.length
      if (bytes > MAX_ANSWER_BYTES) return undefined
      chunks.push(chunk)
    }
    return JSON.parse(Buffer.concat(chunks).toString('utf8')) as unknown
  } catch {
    if (signal.aborted) throw new ProviderError('timeout')
    return undefined
  }
}

/** What statuses usually mean; 500 may have been charged for, so it is not asked again at once. */
const USUAL: Readonly<Record<string, ProviderFailure>> = {
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
  return ok ? undefined : USUAL[status] ?? 'bad_response'
}

/** From a header in seconds or as a date (RFC 9110, 10.2.3). */
function retryAfterMs ({ headers }: Response): number | undefined {
  const text = headers.get('retry-after')?.trim() ?? ''
  if (/^\d{1,6}$/.test(text)) return Number(text) * 1_000
  const ms = Date.parse(text) - Date.now()
  return ms > 0 ? ms : undefined
}
