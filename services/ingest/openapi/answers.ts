import type { FastifyContextConfig, RouteOptions } from 'fastify'
import { ERRORS, statusOf, type ErrorCode } from '../errors.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Codes of the error table that this operation alone can answer; the others follow. */
    readonly errors?: readonly ErrorCode[]
    /** Headers of the request that are described, and read by the handler. */
    readonly headers?: object
  }
}

type Headers = Readonly<Record<string, { readonly type: string, readonly description: string }>>
type Answers = Readonly<Record<string, object>>

const EVERYWHERE: readonly ErrorCode[] = [
  'request_timeout', 'headers_too_large', 'internal', 'temporarily_unavailable',
]
const WITH_KEY: readonly ErrorCode[] = [
  'missing_key', 'invalid_key', 'expired_key', 'revoked_key', 'insufficient_scope',
  'https_required', 'rate_limited',
]
const WITH_BODY: readonly ErrorCode[] = [
  'invalid_json', 'invalid_encoding', 'invalid_request', 'body_too_large',
  'unsupported_media_type',
]

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

/** Headers that one status has beside those of all answers. */
const STATUS_HEADERS: Readonly<Record<number, Headers>> = {
  202: {
    Location: { type: 'string', description: 'The path of the new job.' },
    'Idempotent-Replayed': {
      type: 'string', description: 'true when this repeats the answer to an earlier request.',
    },
  },
  401: { 'WWW-Authenticate': { type: 'string', description: 'Bearer' } },
}

/** All codes an operation can answer, in the order of the table. */
export function errorsOf (route: RouteOptions): readonly ErrorCode[] {
  const { scope, produces, takesBody, errors = [] } = configOf(route)
  const wanted = new Set<ErrorCode>([
    ...EVERYWHERE,
    ...errors,
    ...(scope === undefined ? [] : WITH_KEY),
    ...(produces === undefined ? [] : ['not_acceptable'] as const),
    ...(takesBody === true ? WITH_BODY : []),
    ...(route.schema?.querystring === undefined ? [] : ['invalid_request'] as const),
    ...(route.schema?.params === undefined ? [] : ['not_found'] as const),
  ])
  return (Object.keys(ERRORS) as ErrorCode[]).filter(code => wanted.has(code))
}

/** The described answers of an operation: its successes, and every error by status. */
export function answersOf (route: RouteOptions): Answers {
  const { scope, produces = 'application/json' } = configOf(route)
  const headers = { ...COMMON_HEADERS, ...(scope === undefined ? {} : LIMIT_HEADERS) }
  const types = [produces].flat()
  const own = (route.schema?.response ?? {}) as Readonly<Record<string, object>>
  const successes = Object.entries(own).filter(([status]) => /^[23]\d\d$/.test(status))
  const described = successes.length > 0 ? successes : [['200', plainOf(types)] as const]
  const isCreation = route.method === 'POST' && route.url === '/api/v1/jobs'
  const answers = described.map(([status, schema]) => [status, {
    description: DESCRIPTIONS[status] ?? 'Success',
    headers: { ...headers, ...(status === '202' && isCreation ? STATUS_HEADERS[202] : {}) },
    ...contentOf(schema, types),
  }] as const)
  return Object.fromEntries([...answers, ...faultsOf(errorsOf(route), headers)])
}

const DESCRIPTIONS: Readonly<Record<string, string>> = {
  200: 'The answer.', 202: 'Accepted.', 304: 'The results are those of If-None-Match.',
}

const configOf = (route: RouteOptions): Partial<FastifyContextConfig> => route.config ?? {}

const plainOf = (types: readonly string[]) =>
  ({ type: types[0] === 'application/json' ? 'object' : 'string' })

function contentOf (schema: object, types: readonly string[]): object {
  if ('content' in schema || ('type' in schema && schema.type === 'null')) return schema
  return { content: Object.fromEntries(types.map(type => [type, { schema }])) }
}

function faultsOf (codes: readonly ErrorCode[], headers: Headers) {
  const byStatus = Map.groupBy(codes, statusOf)
  return [...byStatus].map(([status, some]) => [String(status), {
    description: some.map(code => `\`${code}\`: ${ERRORS[code][2]}`).join('\n\n'),
    headers: { ...headers, ...STATUS_HEADERS[status], ...retryOf(status) },
    content: { 'application/json': { schema: faultSchema(some) } },
  }] as const)
}

function retryOf (status: number): Headers {
  const waits = status === 429 || status === 503 || status === 409
  if (!waits) return {}
  return { 'Retry-After': { type: 'integer', description: 'Seconds to wait, at least 1.' } }
}

function faultSchema (codes: readonly ErrorCode[]): object {
  return {
    type: 'object',
    required: ['error'],
    properties: {
      error: {
        type: 'object',
        required: ['type', 'code', 'message', 'request_id'],
        properties: {
          type: { enum: [...new Set(codes.map(code => ERRORS[code][1]))] },
          code: { enum: [...codes] },
          message: { type: 'string' },
          param: { type: 'string', description: 'The field at fault.' },
          request_id: { type: 'string' },
        },
      },
    },
  }
}
