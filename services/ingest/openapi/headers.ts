import type { RouteOptions } from 'fastify'
import { statusOf, type ErrorCode } from '../errors.ts'

export type Headers = Readonly<Record<string, {
  readonly type: string
  readonly description: string
}>>

const COMMON_HEADERS: Headers = {
  'X-Request-Id': { type: 'string', description: 'Names this answer; tell it to support.' },
  'API-Version': { type: 'string', description: 'The date of the version of the interface.' },
}

const LIMIT_HEADERS: Headers = {
  'RateLimit-Limit': { type: 'integer', description: 'Of the limit that is nearest.' },
  'RateLimit-Remaining': { type: 'integer', description: 'Requests left of it.' },
  'RateLimit-Reset': { type: 'integer', description: 'Seconds until it is whole again.' },
  'RateLimit-Policy': { type: 'string', description: 'All limits: requests;w=seconds.' },
  'Retry-After': { type: 'integer', description: 'Seconds to wait; 0 when not throttled.' },
}

const LOCATION: Headers = {
  Location: { type: 'string', description: 'Where to go on, relative to the host.' },
}
const CREATION_HEADERS: Headers = {
  ...LOCATION,
  'Idempotent-Replayed': {
    type: 'string', description: 'true when this repeats the answer to an earlier request.',
  },
}
const RESULT_HEADERS: Headers = {
  ETag: { type: 'string', description: 'Names these results; send it as If-None-Match.' },
  Vary: { type: 'string', description: 'Request headers that the answer depends on.' },
}
const FILE_HEADERS: Headers = {
  ...RESULT_HEADERS,
  'Content-Encoding': { type: 'string', description: 'zstd or gzip, as Accept-Encoding asks for.' },
  'Content-Disposition': { type: 'string', description: 'The name of the file of CSV or JSONL.' },
}
const UNAUTHORIZED_HEADERS: Headers = {
  'WWW-Authenticate': { type: 'string', description: 'Bearer' },
}
const DEPRECATION_HEADERS: Headers = {
  Deprecation: { type: 'string', description: 'Since when this should not be used, @seconds.' },
  Sunset: { type: 'string', description: 'When it stops to work.' },
  Link: { type: 'string', description: 'What to use instead.' },
}

/** Headers that a success of this operation has beside those of all answers. */
export function successHeaders (status: number, route: RouteOptions): Headers {
  switch (`${String(route.schema?.operationId)} ${status}`) {
    case 'createJob 202': return CREATION_HEADERS
    case 'getResults 200': return FILE_HEADERS
    case 'getResults 304': return RESULT_HEADERS
    case 'getRoot 302': return LOCATION
    default: return {}
  }
}

/** Headers of every answer of this operation. */
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

/** Headers that errors of these codes, all of one status, have beside those of all answers. */
export function errorHeaders (codes: readonly ErrorCode[]): Headers {
  if (codes.some(code => statusOf(code) === 401)) return UNAUTHORIZED_HEADERS
  if (!codes.some(code => WAITS.has(code))) return {}
  return { 'Retry-After': { type: 'integer', description: 'Seconds to wait, at least 1.' } }
}
