import type { RouteOptions } from 'fastify'
import { ERRORS, statusOf, type ErrorCode } from '../errors.ts'
import { commonHeaders, errorHeaders, successHeaders, type Headers } from './headers.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Error codes of this operation; common codes are added. */
    readonly errors?: readonly ErrorCode[]
    /** Schema of the request headers that the handler reads. */
    readonly headers?: object
  }
}

type Answers = Readonly<Record<string, object>>

const EVERYWHERE: readonly ErrorCode[] = [
  'https_required', 'request_timeout', 'headers_too_large', 'internal', 'temporarily_unavailable',
]
const WITH_KEY: readonly ErrorCode[] = [
  'missing_key', 'invalid_key', 'expired_key', 'revoked_key', 'insufficient_scope',
  'rate_limited',
]
const WITH_BODY: readonly ErrorCode[] = [
  'invalid_json', 'invalid_encoding', 'invalid_request', 'body_too_large',
  'unsupported_media_type',
]

/** All error codes of an operation, in the order of the error table. */
export function errorsOf (route: RouteOptions): readonly ErrorCode[] {
  const { scope, produces, takesBody, errors = [] } = route.config ?? {}
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

/** The responses of an operation: successes, and errors by status. */
export function answersOf (route: RouteOptions): Answers {
  const { produces = 'application/json' } = route.config ?? {}
  const headers = commonHeaders(route)
  const types = [produces].flat()
  const own = (route.schema?.response ?? {}) as Readonly<Record<string, object>>
  const successes = Object.entries(own).filter(([status]) => /^[23]\d\d$/.test(status))
  const described = successes.length > 0 ? successes : [['200', plainOf(types)] as const]
  const answers = described.map(([status, schema]) => [status, {
    description: DESCRIPTIONS[status] ?? 'Success',
    headers: { ...headers, ...successHeaders(Number(status), route) },
    ...contentOf(schema, types),
  }] as const)
  return Object.fromEntries([...answers, ...faultsOf(errorsOf(route), headers)])
}

const DESCRIPTIONS: Readonly<Record<string, string>> = {
  200: 'The answer.',
  202: 'Accepted.',
  302: 'Redirects browsers.',
  304: 'The results match If-None-Match.',
}

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
    headers: { ...headers, ...errorHeaders(some) },
    content: { 'application/json': { schema: faultSchema(some) } },
  }] as const)
}

/** Additional members of some errors. */
const MORE: Partial<Record<ErrorCode, Readonly<Record<string, object>>>> = {
  unknown_service: { services: { type: 'array', items: { type: 'string' } } },
  insufficient_balance: {
    requiredMicros: { type: 'integer', minimum: 0, description: 'The maximum price of the job.' },
    availableMicros: { type: 'integer', minimum: 0, description: 'The available balance.' },
  },
  not_acceptable: { available: { type: 'array', items: { type: 'string' } } },
  job_not_completed: { status: { type: 'string', description: 'The status of the job.' } },
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
          param: { type: 'string', description: 'The invalid field.' },
          request_id: { type: 'string' },
          ...Object.assign({}, ...codes.map(code => MORE[code] ?? {})),
        },
      },
    },
  }
}
