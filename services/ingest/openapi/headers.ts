import type { RouteOptions } from 'fastify'
import { statusOf, type ErrorCode } from '../errors.ts'

export type Headers = Readonly<Record<string, {
  readonly type: string
  readonly description: string
}>>

const COMMON_HEADERS: Headers = {
  'X-Request-Id': { type: 'string', description: 'Id of this request; quote it to support.' },
  'API-Version': { type: 'string', description: 'Version of the API, a date.' },
}

const LIMIT_HEADERS: Headers = {
  'RateLimit-Limit': { type: 'integer', description: 'The limit that is closest to exhaustion.' },
  'RateLimit-Remaining': { type: 'integer', description: 'Remaining requests of that limit.' },
  'RateLimit-Reset': { type: 'integer', description: 'Seconds until that limit is full again.' },
  'RateLimit-Policy': { type: 'string', description: 'All limits: requests;w=seconds.' },
  'Retry-After': { type: 'integer', description: 'Seconds to wait; 0 if not throttled.' },
}

const LOCATION: Headers = {
  Location: { type: 'string', description: 'Path of the next resource.' },
}
const CREATION_HEADERS: Headers = {
  ...LOCATION,
  'Idempotent-Replayed': {
    type: 'string', description: 'true if this repeats the answer to an earlier request.',
  },
}
const RESULT_HEADERS: Headers = {
  ETag: { type: 'string', description: 'Identifies these results; send it as If-None-Match.' },
  Vary: { type: 'string', description: 'Request headers that the answer depends on.' },
}
const FILE_HEADERS: Headers = {
  ...RESULT_HEADERS,
  'Content-Encoding': { type: 'string', description: 'zstd or gzip, by Accept-Encoding.' },
  'Content-Disposition': { type: 'string', description: 'File name of CSV or JSON Lines.' },
}
const UNAUTHORIZED_HEADERS: Headers = {
  'WWW-Authenticate': { type: 'string', description: 'Bearer' },
}
const DEPRECATION_HEADERS: Headers = {
  Deprecation: { type: 'string', description: 'When this was deprecated, @seconds.' },
  Sunset: { type: 'string', description: 'When it stops working.' },
  Link: { type: 'string', description: 'What to use instead.' },
}

/** Additional headers of a successful response. */
export function successHeaders (status: number, route: RouteOptions): Headers {
  switch (`${String(route.schema?.operationId)} ${status}`) {
    case 'createJob 202': return CREATION_HEADERS
    case 'getResults 200': return FILE_HEADERS
    case 'getResults 304': return RESULT_HEADERS
    case 'getRoot 302': return LOCATION
    default: return {}
  }
}

/** Headers of all responses of an operation. */
export function commonHeaders (route: RouteOptions): Headers {
  return {
    ...COMMON_HEADERS,
    ...(route.config?.scope === undefined ? {} : LIMIT_HEADERS),
    ...(route.schema?.deprecated === true ? DEPRECATION_HEADERS : {}),
  }
}

const WAITS: ReadonlySet<ErrorCode> = new Set([
  'rate_limited', 'concurrent_jobs_limit', 'temporarily_unavailable', 'too_many_preflights',
  'wallet_unavailable', 'job_not_completed',
])

/** Additional headers of error responses with these codes, all of one status. */
export function errorHeaders (codes: readonly ErrorCode[]): Headers {
  if (codes.some(code => statusOf(code) === 401)) return UNAUTHORIZED_HEADERS
  if (!codes.some(code => WAITS.has(code))) return {}
  return { 'Retry-After': { type: 'integer', description: 'Seconds to wait, at least 1.' } }
}
