import { setTimeout as delay } from 'node:timers/promises'
import { ApiError } from './api-error.ts'

export type TransportOptions = {
  /** Service base address, ending in `/api/v1`. */
  readonly baseUrl: string
  readonly apiKey: string
  /** Further tries of a request that could not be served; 0 turns them off. */
  readonly retries?: number
  /** How long one try may take until its answer begins. */
  readonly timeoutMs?: number
  /** Replaced by tests: what sends, what waits, and a number from 0 to below 1. */
  readonly fetch?: typeof globalThis.fetch
  readonly pause?: (milliseconds: number) => Promise<unknown>
  readonly random?: () => number
}

export type Call = {
  readonly method?: 'GET' | 'POST'
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as JSON. */
  readonly body?: unknown
  /** False for what must not be done twice: then a lost answer is an error, not a second try. */
  readonly repeatable?: boolean
}

export type Transport = (path: string, call?: Call) => Promise<Response>

const RETRIES = 5
const TIMEOUT_MS = 60_000
const FIRST_STEP_MS = 200
const LONGEST_STEP_MS = 10_000

/** Answers that say: not now. Behind those of a proxy the request may have been served. */
const REFUSED = [408, 429, 503]
const NOT_NOW = [...REFUSED, 502, 504]

/**
 * Sends requests of one key. Resolves with a success and throws `ApiError` for every other answer;
 * what failed for now is tried again: at least `Retry-After` later, and with a random wait below a
 * step that doubles each time (full jitter), so that many clients do not come back together.
 */
export function createTransport (options: TransportOptions): Transport {
  const { retries = RETRIES, pause = delay, random = Math.random } = options
  return async (path, call = {}) => {
    for (let attempt = 0; ; attempt++) {
      try {
        return await once(options, path, call)
      } catch (error) {
        if (attempt >= retries || !isPassing(error, call)) throw error
        await pause(waitMs(error, attempt, random))
      }
    }
  }
}

async function once (options: TransportOptions, path: string, call: Call): Promise<Response> {
  const { baseUrl, apiKey, timeoutMs = TIMEOUT_MS, fetch = globalThis.fetch } = options
  const { method = 'GET', headers = {}, body } = call
  const late = new AbortController()
  const timer = setTimeout(() => late.abort(new TimeoutError(timeoutMs)), timeoutMs)
  try {
    const response = await fetch(`${baseUrl}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${apiKey}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: late.signal,
    })
    if (!response.ok) throw new ApiError(response, await response.text())
    return response
  } finally {
    clearTimeout(timer)
  }
}

/** No answer began in time. */
export class TimeoutError extends Error {
  override readonly name = 'TimeoutError'
  constructor (timeoutMs: number) {
    super(`no answer within ${timeoutMs} ms`)
  }
}

/** Whatever is no answer at all is a connection that failed, which `fetch` tells as a TypeError. */
function isPassing (error: unknown, { repeatable = true }: Call): boolean {
  if (error instanceof ApiError) return (repeatable ? NOT_NOW : REFUSED).includes(error.status)
  return repeatable && (error instanceof TypeError || error instanceof TimeoutError)
}

function waitMs (error: unknown, attempt: number, random: () => number): number {
  const askedMs = error instanceof ApiError ? (error.retryAfterSeconds ?? 0) * 1_000 : 0
  return askedMs + random() * Math.min(FIRST_STEP_MS * 2 ** attempt, LONGEST_STEP_MS)
}

/** The JSON of an answer, believed to be what the interface describes. */
export async function bodyOf<T> (answer: Promise<Response>): Promise<T> {
  return await (await answer).json() as T
}
