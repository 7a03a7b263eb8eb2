import { scopesThatAllow, type Scope } from '../../accounts/api-keys.ts'
import swagger from '@fastify/swagger'
import Fastify, { type FastifySchema, type RouteOptions } from 'fastify'
import { API_VERSION } from '../../../schemas/api/root.ts'
import {
  BalanceEventSchema, EVENT_TYPES, JobEventSchema, type EventType,
} from '../../../schemas/api/event.ts'
import { DEPRECATIONS } from '../deprecations.ts'
import { ERRORS, statusOf, type ErrorCode } from '../errors.ts'
import {
  withDeepObjects, withListParameters, withSharedHeaders, withSharedSchemas, type OpenApiDocument,
  type Operation, type Paths,
} from './document.ts'
import { withExamples, withoutExamples } from './examples.ts'
import { ERROR_TABLE, INTRODUCTION, TAGS } from './texts.ts'

/**
 * Describes routes as OpenAPI 3.1. Registers them with a separate application that never listens,
 * so that the document always matches the routes.
 */
export async function describeRoutes (
  routes: readonly RouteOptions[], deprecations = DEPRECATIONS
): Promise<OpenApiDocument> {
  const app = Fastify({ exposeHeadRoutes: false })
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Verification Jobs',
        version: API_VERSION,
        description: `${INTRODUCTION}${ERROR_TABLE}`,
      },
      servers: [{ url: '/', description: 'This service.' }],
      tags: [...TAGS],
      components: {
        securitySchemes: {
          apiKey: { type: 'http', scheme: 'bearer', description: 'An API key of the workspace.' },
        },
      },
    },
    transform: ({ schema, url, route }) => ({ schema: describedSchema(schema, route), url }),
  })
  for (const route of routes) {
    const name = `${[route.method].flat()[0]} ${route.url}`
    const deprecated = deprecations[name] === undefined ? {} : { deprecated: true }
    app.route({ ...route, schema: { ...route.schema, ...deprecated } })
  }
  await app.ready()
  const webhooks: Paths =
    Object.fromEntries(EVENT_TYPES.map(type => [type, { post: operationOf(type) }]))
  const described = { ...app.swagger(), webhooks: withoutExamples(webhooks) }
  await app.close()
  // Drops the properties of schemas that are not JSON.
  const document = JSON.parse(JSON.stringify(described)) as OpenApiDocument
  const completed = withSharedHeaders(withListParameters(withDeepObjects(document)))
  return withExamples(completed, routes)
}

/** The document as JSON, with schemas that have a title in its components. */
export function openapiText (document: OpenApiDocument, indent = 0): string {
  return `${JSON.stringify(withSharedSchemas(document), null, indent)}\n`
}

/** The schema of a route for the generator; its responses follow from the route's config. */
function describedSchema (schema: FastifySchema | undefined, route: RouteOptions): FastifySchema {
  const { scope, headers } = route.config ?? {}
  const scopes = scope === undefined ? [] : [scope].flat()
  return withoutExamples({
    ...schema,
    security: scope === undefined ? [] : [{ apiKey: [] }],
    ...(headers === undefined ? {} : { headers }),
    ...(scope === undefined ? {} : { description: withScopes(schema?.description, scopes) }),
    response: answersOf(route),
  })
}

function withScopes (description: string | undefined, scopes: readonly Scope[]): string {
  const names = scopes.map(scope =>
    scopesThatAllow(scope).map(name => `\`${name}\``).join(' or ')).join(' and ')
  const noun = scopes.length === 1 ? 'scope' : 'scopes'
  return `${description === undefined ? '' : `${description} `}Needs the ${noun} ${names}.`
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Error codes of this operation; common codes are added. */
    readonly errors?: readonly ErrorCode[]
    /** Schema of the request headers that the handler reads. */
    readonly headers?: object
    /** Headers of successful answers beside those of every answer, by status. */
    readonly sends?: Readonly<Record<number, readonly AnswerHeader[]>>
  }
}

type Answers = Readonly<Record<string, object>>

const EVERYWHERE: readonly ErrorCode[] = [
  'https_required', 'request_timeout', 'rate_limited', 'headers_too_large', 'internal',
  'temporarily_unavailable',
]
const WITH_KEY: readonly ErrorCode[] = [
  'missing_key', 'invalid_key', 'expired_key', 'revoked_key', 'insufficient_scope',
  'address_not_allowed',
]
/** A request that needs no body may have one all the same. */
const WITH_BODY: readonly ErrorCode[] = [
  'invalid_json', 'invalid_encoding', 'invalid_request', 'body_too_large',
  'unsupported_media_type',
]

/** All error codes of an operation, in the order of the error table. */
function errorsOf (route: RouteOptions): readonly ErrorCode[] {
  const { scope, produces, errors = [] } = route.config ?? {}
  const wanted = new Set<ErrorCode>([
    ...EVERYWHERE,
    ...errors,
    ...(scope === undefined ? [] : WITH_KEY),
    ...(produces === undefined ? [] : ['not_acceptable'] as const),
    ...(route.method === 'GET' ? [] : WITH_BODY),
    ...(route.schema?.querystring === undefined ? [] : ['invalid_request'] as const),
    ...(route.schema?.params === undefined ? [] : ['not_found'] as const),
  ])
  return (Object.keys(ERRORS) as ErrorCode[]).filter(code => wanted.has(code))
}

/** The responses of an operation: successes, and errors by status. */
function answersOf (route: RouteOptions): Answers {
  const { produces = 'application/json' } = route.config ?? {}
  const headers = {
    ...COMMON_HEADERS,
    ...(route.config?.scope === undefined ? {} : LIMIT_HEADERS),
    ...(route.schema?.deprecated === true ? DEPRECATION_HEADERS : {}),
  }
  const types = [produces].flat()
  const own = (route.schema?.response ?? {}) as Readonly<Record<string, object>>
  const successes = Object.entries(own).filter(([status]) => /^[23]\d\d$/.test(status))
  const described = successes.length > 0 ? successes : [['200', plainOf(types)] as const]
  const answers = described.map(([status, schema]) => [status, {
    description: DESCRIPTIONS[status] ?? 'Success',
    headers: { ...headers, ...answerHeaders(route.config?.sends?.[Number(status)]) },
    ...('content' in schema || ('type' in schema && schema.type === 'null')
      ? schema
      : { content: Object.fromEntries(types.map(type => [type, { schema }])) }),
  }] as const)
  return Object.fromEntries([...answers, ...faultsOf(errorsOf(route), headers)])
}

const DESCRIPTIONS: Readonly<Record<string, string>> = {
  200: 'The answer.',
  201: 'Created.',
  202: 'Accepted.',
  302: 'Redirects browsers.',
  304: 'The results match If-None-Match.',
}

const plainOf = (types: readonly string[]) =>
  ({ type: types[0] === 'application/json' ? 'object' : 'string' })

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

/** Schemas of one or two codes get a name that says which. */
function faultSchema (codes: readonly ErrorCode[]): object {
  const names = codes.map(code => code.replaceAll(/(?:^|_)(\w)/g, (_, letter: string) =>
    letter.toUpperCase()))
  return {
    ...(names.length > 2 ? {} : { title: `${names.join('Or')}Error` }),
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

type AnswerHeader = keyof typeof ANSWER_HEADERS

type Headers = Readonly<Record<string, {
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

/** Headers that some answers have, see `sends` of a route. */
const ANSWER_HEADERS = {
  Location: { type: 'string', description: 'Path of the next resource.' },
  'Idempotent-Replayed': {
    type: 'string', description: 'true if this repeats the answer to an earlier request.',
  },
  ETag: { type: 'string', description: 'Identifies these results; send it as If-None-Match.' },
  Vary: { type: 'string', description: 'Request headers that the answer depends on.' },
  'Content-Encoding': { type: 'string', description: 'zstd or gzip, by Accept-Encoding.' },
  'Content-Disposition': { type: 'string', description: 'File name of CSV or JSON Lines.' },
  'Next-Cursor': {
    type: 'string',
    description: 'With provisional=true: the cursor after all rows of this answer, for after.',
  },
  'Results-Complete': {
    type: 'string',
    description: 'With provisional=true: true if the job has ended, and no further row follows.',
  },
} as const satisfies Headers
const UNAUTHORIZED_HEADERS: Headers = {
  'WWW-Authenticate': { type: 'string', description: 'Bearer' },
}
const DEPRECATION_HEADERS: Headers = {
  Deprecation: { type: 'string', description: 'When this was deprecated, @seconds.' },
  Sunset: { type: 'string', description: 'When it stops working.' },
  Link: { type: 'string', description: 'What to use instead.' },
}

const answerHeaders = (names: readonly AnswerHeader[] = []): Headers =>
  Object.fromEntries(names.map(name => [name, ANSWER_HEADERS[name]]))

/** Headers of all responses of an operation. */
const WAITS: ReadonlySet<ErrorCode> = new Set([
  'rate_limited', 'concurrent_jobs_limit', 'temporarily_unavailable', 'too_many_preflights',
  'wallet_unavailable', 'job_not_completed', 'too_many_streams',
])

/** Additional headers of error responses with these codes, all of one status. */
function errorHeaders (codes: readonly ErrorCode[]): Headers {
  if (codes.some(code => statusOf(code) === 401)) return UNAUTHORIZED_HEADERS
  if (!codes.some(code => WAITS.has(code))) return {}
  return { 'Retry-After': { type: 'integer', description: 'Seconds to wait, at least 1.' } }
}

const HEADERS = [
  ['X-Service-Signature', 't=<unix seconds>,v1=<hex HMAC-SHA256 of "{t}.{raw body}">: one v1 per ' +
    'active secret. Reject times more than 300 seconds away, and compare in constant time.'],
  ['webhook-id', 'The id of the event, see Standard Webhooks.'],
  ['webhook-timestamp', 'Unix seconds of this attempt.'],
  ['webhook-signature', 'v1,<base64 HMAC-SHA256>, one per active secret, and v1a,<base64 ' +
    'Ed25519> by the key of `GET /api/v1/webhook-keys`, see Standard Webhooks.'],
] as const

const NOTES: Partial<Record<EventType, string>> = {
  'job.progress': ' The job is as it was when the attempt was made. Progress that is out of date ' +
    'is not sent, so a slow receiver gets the latest only, and none after the job has ended.',
  'balance.low': ' Once, until the balance is above the threshold again. The threshold is a ' +
    'setting of the workspace.',
}

const END = 'the job has ended'
const SUMMARIES: Readonly<Record<EventType, string>> = {
  'job.completed': END,
  'job.failed': END,
  'job.cancelled': END,
  'job.accepted': 'the job is accepted, and its price is reserved',
  'job.progress': 'another tenth of the rows of the job is finished',
  'balance.low': 'a reservation took the available balance below the threshold',
}

/** The operation of a webhook event. */
function operationOf (type: EventType): Operation {
  const schema = type === 'balance.low' ? BalanceEventSchema : JobEventSchema
  const isOfEnd = SUMMARIES[type] === END
  const names = type.split('.').map(word => `${word.charAt(0).toUpperCase()}${word.slice(1)}`)
  return {
    operationId: `event.${type}`,
    summary: `${type}: ${SUMMARIES[type]}`,
    description: `A POST to ${isOfEnd ? 'webhook_url and ' : ''}each webhook endpoint that is ` +
      'subscribed, retried until it is answered with a 2xx within 15 seconds: ten attempts in ' +
      'about 76 hours. Redirects are failures, 410 ends the attempts. The same event may arrive ' +
      `more than once.${NOTES[type] ?? ''}`,
    tags: ['Events'],
    parameters: HEADERS.map(([name, description]) => ({
      name, in: 'header', required: true, description, schema: { type: 'string' },
    })),
    requestBody: {
      required: true,
      content: {
        'application/json': {
          schema: {
            title: `${names.join('')}Event`,
            ...schema,
            properties: { ...schema.properties, type: { const: type } },
          },
        },
      },
    },
    responses: {
      '2XX': { description: 'Received.' },
      410: { description: 'The address accepts no more events: no retries follow.' },
    },
  }
}
