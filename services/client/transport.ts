import { setTimeout as delay } from 'node:timers/promises'
import { parseRetryAfter } from '../../schemas/http/retry-after.ts'

export type TransportOptions = {
  /** Base URL of the service, ending in `/api/v1`. */
  readonly baseUrl: string
  readonly apiKey: string
  /** Retries of a request that failed temporarily. 0 disables retries. */
  readonly retries?: number
  /** Time limit of one attempt until its response begins. */
  readonly timeoutMs?: number
  /** Tests replace fetch, sleep and the random number (0 to below 1). */
  readonly fetch?: typeof globalThis.fetch
  readonly pause?: (milliseconds: number) => Promise<unknown>
  readonly random?: () => number
}

type Call = {
  readonly method?: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as JSON; bytes are sent as they are, with the Content-Type of `headers`. */
  readonly body?: unknown
  /** False for requests that must not run twice: a lost response is an error, without a retry. */
  readonly repeatable?: boolean
  /** Ends the request, or its response. */
  readonly signal?: AbortSignal
}

export type Transport = (path: string, call?: Call) => Promise<Response>

const RETRIES = 5
const TIMEOUT_MS = 60_000
const FIRST_BACKOFF_MS = 200
const MAX_BACKOFF_MS = 10_000
/** A caller decides about longer waits: the limit of changes of contact lists may ask for a day. */
const MAX_RETRY_AFTER_MS = 60_000

/** Statuses of a temporary failure without any effect. */
const REJECTED = [408, 429, 503]
/** Statuses of a temporary failure. Behind 502 and 504 of a proxy the request may have run. */
const TEMPORARY = [...REJECTED, 502, 504]

/**
 * Sends requests with one API key. Resolves with a successful response and throws `ApiError` for
 * every other one, and `ConnectionError` or `TimeoutError` without a response. Throws TypeError for
 * a base URL with a password. Retries temporary failures: waits at least `Retry-After` plus a
 * random part of a backoff that doubles with each attempt (full jitter), so that clients do not
 * retry in step. Throws a refusal that asks for more than a minute.
 */
export function createTransport (options: TransportOptions): Transport {
  const { retries = RETRIES, pause = delay, random = Math.random } = options
  if (URL.canParse(options.baseUrl)) {
    const { username, password, origin } = new URL(options.baseUrl)
    // The address is in messages, and `fetch` refuses, and quotes, one with a password.
    if (username !== '' || password !== '') {
      throw new TypeError(
        `baseUrl ${origin} must not contain a user or password: the key is apiKey`)
    }
  }
  return async (path, call = {}) => {
    for (let attempt = 0; ; attempt++) {
      try {
        return await sendOnce(options, path, call)
      } catch (error) {
        if (attempt >= retries || !isRetriable(error, call)) throw error
        const retryAfterMs = error instanceof ApiError ? (error.retryAfterSeconds ?? 0) * 1_000 : 0
        if (retryAfterMs > MAX_RETRY_AFTER_MS) throw error
        const backoffMs = random() * Math.min(FIRST_BACKOFF_MS * 2 ** attempt, MAX_BACKOFF_MS)
        await pause(retryAfterMs + backoffMs)
      }
    }
  }
}

async function sendOnce (options: TransportOptions, path: string, call: Call): Promise<Response> {
  const { baseUrl, apiKey, timeoutMs = TIMEOUT_MS, fetch = globalThis.fetch } = options
  const { method = 'GET', headers = {}, body, signal } = call
  const isBytes = body instanceof Uint8Array
  const content = isBytes ? body as Uint8Array<ArrayBuffer> : JSON.stringify(body)
  const timeout = new AbortController()
  const timer = setTimeout(
    () => { timeout.abort(new TimeoutError(baseUrl, timeoutMs)) }, timeoutMs)
  try {
    const response = await fetch(`${baseUrl}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${apiKey}`,
        ...(body === undefined || isBytes ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      body: content,
      signal: signal === undefined ? timeout.signal : AbortSignal.any([timeout.signal, signal]),
    })
    if (!response.ok) throw new ApiError(response, await response.text())
    clearTimeout(timer)
    if (!isJson(response)) return response
    // Whole, so that a body which breaks off is an attempt as well.
    return new Response(await response.text(),
      { status: response.status, headers: response.headers })
  } catch (error) {
    throw isBrokenConnection(error) ? new ConnectionError(baseUrl, error) : error
  } finally {
    clearTimeout(timer)
  }
}

const isJson = ({ headers }: Response) =>
  headers.get('content-type')?.startsWith('application/json') === true

/** `fetch` reports a failed connection as a TypeError. */
function isRetriable (error: unknown, { repeatable = true }: Call): boolean {
  if (error instanceof ApiError) return (repeatable ? TEMPORARY : REJECTED).includes(error.status)
  if (error instanceof ConnectionError && !error.isTemporary) return false
  return repeatable && (error instanceof TypeError || error instanceof TimeoutError)
}

/** Parses the JSON body of a response. Trusts the API description for its type. */
export async function readJson<T> (response: Promise<Response>): Promise<T> {
  return await (await response).json() as T
}

/** No response began within the time limit of an attempt. */
class TimeoutError extends Error {
  override readonly name = 'TimeoutError'
  constructor (baseUrl: string, timeoutMs: number) {
    super(`no response from ${baseUrl} within ${timeoutMs} ms. Check the address, and whether a ` +
      'firewall or proxy is in the way.')
  }
}

/** Why a connection fails, by the code of the system, and what to do. */
const CONNECTION_FAULTS: readonly (readonly [RegExp, string])[] = [
  [/^ECONNREFUSED$/, 'nothing listens there. Check the port, or start the service; "npm start" ' +
    'starts a local stack.'],
  [/^(ENOTFOUND|EAI_AGAIN)$/, 'its name cannot be resolved. Check the spelling and the network.'],
  [/TIMEOUT|^ETIMEDOUT$|UNREACH/,
    'it does not answer. Check the address, and whether a firewall or proxy is in the way.'],
  [/^(EPROTO|ERR_SSL_WRONG_VERSION_NUMBER|ERR_SSL_PACKET_LENGTH_TOO_LONG)$/,
    'it does not speak TLS. Check the port, and https:// in the address.'],
  [/ALTNAME/, 'its certificate is for another name. Use the name of the certificate.'],
  [/CERT|^UNABLE_TO_|^ERR_SSL/, 'its certificate is not trusted. Check the address and the date; ' +
    'for a certificate of your own set NODE_EXTRA_CA_CERTS to the file of its authority.'],
]
const CONNECTION_LOST = 'the connection was lost. Try again.'

/** No response, because there was no connection or it broke. */
export class ConnectionError extends TypeError {
  override readonly name = 'ConnectionError'
  /** As the system names the fault: ECONNREFUSED. */
  readonly code: string
  /** False for a fault that lasts until it is corrected: a certificate. */
  readonly isTemporary: boolean

  constructor (baseUrl: string, cause: unknown) {
    const code = codeIn(cause)
    const advice = CONNECTION_FAULTS.find(([pattern]) => pattern.test(code))?.[1] ?? CONNECTION_LOST
    super(`${baseUrl} is unreachable${code === '' ? '' : ` (${code})`}: ${advice}`, { cause })
    this.code = code
    this.isTemporary = !/CERT|ALTNAME|^UNABLE_TO_|^ERR_SSL|^EPROTO$/.test(code)
  }
}

/** The code of the innermost error that has one. */
function codeIn (error: unknown): string {
  if (!(error instanceof Error)) return ''
  const inner = codeIn(error.cause)
  return inner === '' && 'code' in error ? String(error.code) : inner
}

/** An unsuccessful response, with the error code of the API. */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly status: number
  readonly code: string
  /** The invalid field, where the service names one. */
  readonly param: string | undefined
  /** Identifies the request in a support case. */
  readonly requestId: string | undefined
  readonly retryAfterSeconds: number | undefined
  /** Integers that a code adds: `requiredMicros` and `availableMicros` with 402. */
  readonly amounts: Readonly<Record<string, number>>

  constructor (response: Response, body: string) {
    const { code, message, param, request_id: requestId, ...more } = parseError(body)
    super(`${response.status} ${code}: ${message}`)
    this.status = response.status
    this.code = code
    this.param = param
    this.requestId = requestId ?? response.headers.get('x-request-id') ?? undefined
    this.amounts = Object.fromEntries(Object.entries(more).filter(isAmount))
    const waitMs = parseRetryAfter(response.headers.get('retry-after'), Date.now())
    this.retryAfterSeconds = waitMs === undefined ? undefined : Math.ceil(waitMs / 1_000)
  }
}

/** Refusals that the service decides with the Idempotency-Key. */
const DECIDED: readonly string[] = ['insufficient_balance', 'concurrent_jobs_limit']

/**
 * True for an error that guarantees that no request with this Idempotency-Key has created a job.
 * Any other refusal, such as that of an API key or by a rate limit, says nothing about an earlier
 * request, whose response was lost.
 */
export function createdNoJob (error: unknown): boolean {
  return error instanceof ApiError && DECIDED.includes(error.code)
}

type ErrorObject = {
  readonly code: string
  readonly message: string
  readonly param?: string
  readonly request_id?: string
}

const isAmount = (field: readonly [string, unknown]): field is [string, number] =>
  Number.isSafeInteger(field[1])

/** A proxy may respond with a body of any kind. */
function parseError (body: string): ErrorObject {
  try {
    const { error } = JSON.parse(body) as { readonly error: ErrorObject }
    return { ...error, code: error.code ?? 'unknown' }
  } catch {
    return { code: 'unknown', message: body.slice(0, 200) }
  }
}

export type RetryOptions = {
  /** Receives the reason once, before the first wait. */
  readonly say: (line: string) => void
  readonly pause?: (milliseconds: number) => Promise<unknown>
  readonly now?: () => number
}

const BROKEN_CONNECTION = /^(fetch failed|terminated)$/
const FIRST_WAIT_MS = 1_000
const MAX_WAIT_MS = 15_000
const MAX_OUTAGE_MS = 15 * 60_000
/** Jobs of other programs of the organization may run for hours, but they do end. */
const MAX_SLOT_WAIT_MS = 12 * 3_600_000

/**
 * Retries an idempotent action until it succeeds: for 15 minutes while the service is unavailable,
 * for 12 hours while the organization is at its limit of concurrent jobs. Then throws the last
 * error. Throws every other error immediately.
 */
export async function retryWhileUnavailable<T> (
  action: () => Promise<T>, { say, pause = delay, now = Date.now }: RetryOptions
): Promise<T> {
  let waitMs = FIRST_WAIT_MS
  let firstFailedAtMs: number | undefined
  for (;;) {
    try {
      return await action()
    } catch (error) {
      const maxMs = maxRetryMs(error)
      if (firstFailedAtMs === undefined && maxMs > 0) say(retryReason(error))
      firstFailedAtMs ??= now()
      if (now() - firstFailedAtMs >= maxMs) throw error
      await pause(waitMs)
      waitMs = Math.min(waitMs * 2, MAX_WAIT_MS)
    }
  }
}

function maxRetryMs (error: unknown): number {
  if (error instanceof ApiError) {
    if (error.code === 'concurrent_jobs_limit') return MAX_SLOT_WAIT_MS
    return TEMPORARY.includes(error.status) ? MAX_OUTAGE_MS : 0
  }
  if (error instanceof ConnectionError && !error.isTemporary) return 0
  return isLostConnection(error) ? MAX_OUTAGE_MS : 0
}

/** True for a failed or interrupted connection, also in the middle of a response. */
export function isLostConnection (error: unknown): error is Error {
  if (error instanceof TimeoutError || error instanceof ConnectionError) return true
  return isBrokenConnection(error)
}

/** `fetch` throws a TypeError for it, as bugs do. */
function isBrokenConnection (error: unknown): error is TypeError {
  return error instanceof TypeError && BROKEN_CONNECTION.test(error.message)
}

function retryReason (error: unknown): string {
  if (error instanceof ConnectionError) return `${error.message} Retrying.`
  if (!(error instanceof ApiError)) return 'The service does not respond; retrying.'
  return error.code === 'concurrent_jobs_limit'
    ? 'The organization is at its limit of concurrent jobs; waiting for one to end.'
    : `The service is unavailable (${error.status} ${error.code}); retrying.`
}
