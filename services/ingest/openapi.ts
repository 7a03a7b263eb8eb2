import type { RouteOptions } from 'fastify'
import { ENTRY_KINDS } from '../../schemas/api/contact-lists.ts'
import {
  BalanceEventSchema, EVENT_TYPES, type EventBody, type EventType, JobEventSchema,
} from '../../schemas/api/webhooks.ts'
import { FileOptionsSchema, PreviewOptionsSchema, WORKBOOK_TYPE } from '../../schemas/api/file.ts'
import { EXAMPLE_JOBS } from '../../schemas/api/job.ts'
import { API_VERSION } from '../../schemas/api/parts.ts'
import { type Scope, scopesThatAllow } from '../accounts/api-keys.ts'
import { describeError, errorBody, type ErrorCode, ERRORS, httpStatus } from './errors.ts'
import { SANDBOX_REFUSALS } from './routes/create-job.ts'
import { deriveEventId } from '../webhooks/event.ts'

const TAGS = [
  { name: 'Jobs', description: 'Batches of contacts to verify.' },
  { name: 'Quotes', description: 'The price of a job, and what its file has, without a job.' },
  {
    name: 'Contact lists',
    description: 'Contacts that are never checked: allowed, blocked or suppressed.',
  },
  {
    name: 'Webhook endpoints',
    description: 'Addresses that receive the events of all jobs of an organization.',
  },
  { name: 'Account', description: 'Balance, transactions, usage and services.' },
  { name: 'Documents', description: 'Available without a key.' },
  {
    name: 'Events',
    description: 'Signed notifications: the end of a job goes to its `webhook_url`, and every ' +
      'event to the webhook endpoints that are subscribed to it. Events may arrive in any order. ' +
      'A receiver\n\n' +
      '- reads the raw body, and verifies the signature over its bytes: ' +
      '`X-Service-Signature: t=<unix seconds>,v1=<hex>`, where `v1` is the HMAC-SHA256 of ' +
      '`<t>.<body>` and the key is the whole `whsec_...` text; during a rotation there is one ' +
      '`v1` per secret, and one match is enough\n' +
      '- rejects events more than 300 seconds old, and compares in constant time\n' +
      '- answers 2xx within 15 seconds, and processes the event afterwards\n' +
      '- expects an event more than once: its `id` is the same each time',
  },
] as const

/**
 * The outcomes of inputs with a test key. A test compares them with the sandbox provider.
 */
const TEST_INPUTS = `| input with a test key | outcome |
|---|---|
| phone ending in \`0001\` | the number is in no assigned range |
| phone ending in \`0002\` | the line was disconnected recently |
| phone ending in \`0003\` | the check has no verdict |
| phone ending in \`0004\` | valid, answered after two seconds |
| phone ending in \`0005\` | the check is unavailable: retried for 15 minutes, then unknown |
| phone ending in \`0006\` | the check times out: retried for 15 minutes, then unknown |
| phone ending in \`0007\` | valid and ported; for messengers \`invalid\`, not registered |
| phone ending in \`0008\` | valid; \`unknown\`, \`option_not_answered\`, for a job with options |
| e-mail \`invalid@...\` | the mailbox does not exist |
| e-mail \`risky@...\` | the domain accepts mail for any name |
| e-mail \`unknown@...\` | the check has no verdict |
| e-mail \`slow@...\` | valid, answered after two seconds |
| e-mail \`unavailable@...\` | the check is unavailable: retried for 15 minutes, then unknown |
| e-mail \`timeout@...\` | the check times out: retried for 15 minutes, then unknown |
| e-mail \`disposable@...\` | a disposable address |
| e-mail \`role@...\` | a role address, not a person |
| any other valid contact | valid |
| phone \`${SANDBOX_REFUSALS.phone.input}\` | ${SANDBOX_REFUSALS.phone.means} |
| e-mail \`${SANDBOX_REFUSALS.email.input}...\` | ${SANDBOX_REFUSALS.email.means} |`

const INTRODUCTION = `Verifies phone numbers and e-mail addresses in batches.

A job holds 1 to 100,000 inputs. The answer is 202 once its maximum price is quoted and
reserved; the job continues in the background. Money is always an integer of USD micros: 1 USD is
1,000,000. Invalid rows, duplicates, rows from the cache and rows without a verdict are
free.

## Authentication

Requests need HTTPS, and under \`/api/v1\` the header \`Authorization: Bearer <API_KEY>\`. Create
keys on the workspace page, which shows each key once: \`vj_live_...\` checks and pays,
\`vj_test_...\` does neither. A key has scopes, and each operation names the one that it needs. It
can be limited to networks, and expire. Keep keys on servers, never in a page or an app. The
examples of this page read the key and the address of this service from the shell:

    export BASE=https://api.example.com/api/v1
    export KEY=vj_test_...

and in TypeScript from a client, which also retries requests:

    import { createClient } from 'verification-jobs'
    const client = createClient({ baseUrl: process.env.BASE, apiKey: process.env.KEY })

## Requests and answers

Bodies are JSON in UTF-8 of at most 34 MiB; unknown fields are rejected, and types are not
converted. The body of a job or a quote can also be a file, see below, and it can be compressed:
\`Content-Encoding: gzip\` or \`zstd\`. Limits count decompressed bytes. A body must arrive within a
minute; a body over 64 KiB that is slower than 16 KiB a second, or too slow for that minute, is
rejected with 408. Clients must ignore unknown fields. HEAD is available wherever GET is, and
OPTIONS returns the methods of a path. A trailing slash is the same resource.

## Files

A CSV file, in UTF-8 or Windows-1252, or an Excel workbook (.xlsx) is sent as part \`file\` of
\`multipart/form-data\`, with its options as fields, or as the body, as \`text/csv\` or
\`application/vnd.openxmlformats-officedocument.spreadsheetml.sheet\`, with its options in the
query. \`column\` selects the contacts, \`sheet\` the sheet of a workbook; delimiter and header
line are detected. The request means the same as JSON with the cells of that column as \`inputs\`.
All columns are kept, encrypted under the key of the job, and \`?join=original\` on its results
returns them.

## Limits

For each organization, live and test together: POST 100 at once and 1,000 a minute, GET 200 a
second. Each is a token bucket that starts full and refills evenly. A full bucket of 1,000 that
refills with 1,000 a minute admits up to 2,000 requests in its first minute, and 1,000 in each
minute after it; the other bucket admits 100 of them at once and 100 more each second. At full
speed the 1,000 last about 11 seconds, then 16 or 17 requests a second are admitted. In each mode
10 jobs that check live are active at a time. Under load some requests wait for their
preflight, and all are answered. Every response to a key has the state of the limit closest to
exhaustion in \`RateLimit-*\`, and the seconds to wait in \`Retry-After\`, 0 for none.

Requests without a valid key are limited for each address: above that they get 429 until the
seconds in \`Retry-After\` have passed, and requests with a valid key are answered. Pipelined
requests of a connection are handled one after another. A client that does not read its response
for half a minute is disconnected.

## Counters of a job

Each row of a job is counted in one place, whatever the state of the job:

    totalRows = cacheHits + freshRecords + invalidRecords + duplicateRecords
              + unknownRecords + cancelledRecords + pendingRecords

The counters say how rows ended, as the column \`source\` of the results does: \`cacheHits\` are the
rows of \`cache\`, \`freshRecords\` of \`live\`, \`invalidRecords\` of \`preflight\`,
\`duplicateRecords\` of \`duplicate\`, and \`unknownRecords + cancelledRecords\` of \`none\`. A row
without a verdict is not in \`freshRecords\`: its job was cancelled, the checks were down until the
deadline, or they could not tell. When the job ends, \`pendingRecords\` is 0 and
\`successRecords + failedRecords = totalRows\`: \`successRecords\` is \`cacheHits + freshRecords\`
and the duplicates of those rows. \`invalidRows\` and \`duplicateRows\` are those of the preflight.
\`cacheHits + freshRecords + invalidRows + duplicateRows = totalRows\` holds at the end of a job in
which every other row got a verdict.

\`verdicts\` and \`reasons\` count the rows by the columns \`status\` and \`reason\` of the
results, also while the job runs. A duplicate counts together with its original, so both add up to
\`successRecords + failedRecords\`.

## Repeating a request

POST /api/v1/jobs takes an \`Idempotency-Key\`, a UUID of version 4. For 24 hours the same request
with it is answered with the same job and \`Idempotent-Replayed: true\`; another request with it is
rejected. Repeat a request that was answered with 503, or not at all, with the same key.

## Test keys

A test key has its own data and balance, counts towards the limits of its organization, and pays
nothing. No contact is reached: the input decides its outcome.

${TEST_INPUTS}

## Errors

`

/** The error table in Markdown. */
const ERROR_TABLE = [
  'An error is answered as `{"error": {"type", "code", "message", "param"?, "request_id"}}`.',
  '',
  '| status | code | type | message |',
  '|---|---|---|---|',
  ...Object.entries(ERRORS).map(([code, [status, type, message]]) =>
    `| ${status} | \`${code}\` | ${type} | ${message} |`),
  '',
].join('\n')

/** Describes routes as OpenAPI 3.1. */
export function describeRoutes (routes: readonly RouteOptions[]): OpenApiDocument {
  const byPath = Map.groupBy(routes, ({ url }) => url.replaceAll(/:(\w+)/g, '{$1}'))
  const places = [...byPath].flatMap(([path, some]) => some.map(route => ({ path, route })))
  const faults = (Object.keys(ERRORS) as ErrorCode[]).map(code =>
    [code, { value: errorBody({ code, ...describeError(code).example }, REQUEST_ID) }] as const)
  return {
    openapi: '3.1.0',
    info: {
      title: 'Verification Jobs',
      version: API_VERSION,
      description: `${INTRODUCTION}${ERROR_TABLE}`,
    },
    components: {
      securitySchemes: {
        apiKey: { type: 'http', scheme: 'bearer', description: 'An API key of the workspace.' },
      },
      schemas: {},
      headers: { ...COMMON_HEADERS, ...LIMIT_HEADERS, ...ANSWER_HEADERS },
      examples: Object.fromEntries(faults),
    },
    paths: mapValues(Object.fromEntries(byPath), (some, path) => Object.fromEntries(
      some.map(route => [methodName(route), describeOperation({ path, route }, places)]))),
    servers: [{ url: '/', description: 'This service.' }],
    tags: TAGS,
    webhooks: Object.fromEntries(EVENT_TYPES.map(type => [type, { post: describeEvent(type) }])),
  }
}

/** The document as JSON, with schemas that have a title in its components. */
export function openapiText (document: OpenApiDocument, indent = 0): string {
  return `${JSON.stringify(withSharedSchemas(document), null, indent)}\n`
}

/** How an operation is called; `client` and the ids are defined in the introduction. */
export type CallSample = {
  /** Names of the examples of the body's schema, in their order; further ones are left out. */
  readonly bodies?: readonly string[]
  readonly query?: string
  /** Additional options of curl. */
  readonly curl?: readonly string[]
  /** Lines of TypeScript, if a client has a method; `body` is the literal of the first example. */
  readonly client?: (body: string) => readonly string[]
}

/** A route and its path in the document. */
type Place = { readonly path: string, readonly route: RouteOptions }

const methodName = ({ method }: RouteOptions) => String(method).toLowerCase()

function describeOperation (place: Place, places: readonly Place[]): Operation {
  const { schema = {}, config = {} } = place.route
  const { scope, takesFile } = config
  const description = [schema.description, scope && describeScopes([scope].flat())]
    .filter(text => text !== undefined).join(' ')
  const parameters = [
    ...describeParameters('query', schema.querystring),
    ...describeParameters('path', schema.params),
    ...describeParameters('header', config.headers),
  ]
  return {
    operationId: schema.operationId,
    summary: schema.summary,
    tags: schema.tags,
    ...description !== '' && { description },
    ...schema.body !== undefined && { requestBody: describeBody(place.route) },
    ...parameters.length > 0 && { parameters },
    ...config.deprecation !== undefined && { deprecated: true },
    security: scope === undefined ? [] : [{ apiKey: [] }],
    responses: describeAnswers(place.route, listLinks(place, places)),
    ...scope !== undefined && { 'x-codeSamples': listSamples(place) },
    ...takesFile === 'preview' && PREVIEW,
    ...takesFile === 'entries' && { requestBody: LIST_FILE },
  }
}

function describeScopes (scopes: readonly Scope[]): string {
  const names = scopes.map(needed =>
    scopesThatAllow(needed).map(name => `\`${name}\``).join(' or '))
  return `Needs the ${scopes.length === 1 ? 'scope' : 'scopes'} ${names.join(' and ')}.`
}

/**
 * Describes parameters as they are read: the items of lists in a query are separated by commas,
 * and objects are sent as `name[key]=value`.
 */
function describeParameters (location: 'query' | 'path' | 'header', schema: unknown): Parameter[] {
  const { properties = {}, required = [] } = (schema ?? {}) as Schema
  return Object.entries(properties).map(([name, { description, ...property }]) => ({
    schema: showSchema(property),
    in: location,
    name,
    required: required.includes(name),
    ...description !== undefined && { description },
    ...property.type === 'object' && { style: 'deepObject', explode: true },
    ...property.type === 'array' && location === 'query' && { explode: false },
    ...property.examples !== undefined && { example: property.examples[0] },
  }))
}

/** JSON with the examples that the route names, and files where it takes them. */
function describeBody ({ schema, config }: RouteOptions): Operation['requestBody'] {
  const { examples: bodies = [], ...json } = schema?.body as Schema
  const names = config?.sample?.bodies ?? []
  const examples = Object.fromEntries(names.map((name, n) => [name, { value: bodies[n] }]))
  const isQuote = schema?.operationId === 'createQuote'
  return {
    required: true,
    content: {
      'application/json': { schema: showSchema(json), ...names.length > 0 && { examples } },
      ...config?.takesFile === 'contacts' && buildContent({
        title: isQuote ? 'QuoteForm' : 'JobForm',
        required: ['file', 'service'],
        properties: { file: FILE_PART, ...isQuote ? quoteOptions : jobOptions },
        patternProperties: { '^metadata\\[.{1,40}\\]$': { type: 'string', maxLength: 500 } },
      }, { file: FILE, ...PHONES }),
    },
  }
}

type Links = Readonly<Record<string, object>>

/** Links the answer of an operation to all others that take an id of it in their path. */
function listLinks ({ route }: Place, places: readonly Place[]): Links {
  const findParameters = (path: string) =>
    [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name)
  return Object.fromEntries(Object.entries(route.config?.yields ?? {})
    .flatMap(([prefix, pointer]) => {
      const names = findParameters(prefix)
      const parameters = Object.fromEntries(names.map((name, index) => [name,
        index === names.length - 1 ? `$response.body#${pointer}` : `$request.path.${name}`]))
      return places
        .filter(({ path, route: other }) => path.startsWith(prefix) && other !== route &&
          findParameters(path).length === names.length)
        .map(({ route: { schema: { operationId = '' } = {} } }) =>
          [operationId, { operationId, parameters }] as const)
    }))
}

/**
 * Ways to call an operation that needs a key: BASE is the address that ends in /api/v1, and KEY
 * an API key.
 */
function listSamples ({ path, route }: Place): readonly CodeSample[] {
  const { schema, config: { sample = {}, takesFile } = {} } = route
  const { bodies = [], query = '', curl = [], client } = sample
  const body = bodies.length > 0 ? (schema?.body as Schema).examples?.[0] : undefined
  const method = methodName(route)
  // Of curl: GET, or POST if there is a body.
  const isDefault = method === 'get' || (method === 'post' && body !== undefined)
  const base = path.replace('/api/v1', '$BASE')
  const address = base.replaceAll(/\{(\w+)\}/g, (_, name: string) => chooseVariable(path, name))
  const key = '-H "Authorization: Bearer $KEY"'
  const lines = [
    `curl ${isDefault ? '' : `-X ${method.toUpperCase()} `}"${address}${query}"`,
    key,
    ...curl,
    ...(body === undefined
      ? []
      : ['-H \'Content-Type: application/json\'', `-d '${JSON.stringify(body, null, 2)}'`]),
  ]
  const file = [
    `curl "${base}"`, key, '-F file=@contacts.csv', '-F service=phone-validation',
    '-F column=phone',
  ]
  return [
    shellSample(lines.join(' \\\n  '), 'curl'),
    ...client === undefined ? [] : [typescriptSample(client(toLiteral(body)).join('\n'))],
    ...takesFile === 'contacts' ? [shellSample(file.join(' \\\n  '), 'curl with a file')] : [],
  ]
}

/** Shell variables for path parameters. */
const VARIABLES: Readonly<Record<string, string>> = { id: '$JOB', deliveryId: '$DELIVERY' }

const chooseVariable = (path: string, name: string): string =>
  path.startsWith('/api/v1/webhook-endpoints/') ? '$ENDPOINT' : VARIABLES[name] ?? name

/** A sample for a shell. */
const shellSample = (source: string, label: string): CodeSample =>
  ({ lang: 'Shell', label, source })
/** A sample in TypeScript. */
const typescriptSample = (source: string): CodeSample =>
  ({ lang: 'TypeScript', label: 'TypeScript', source })

/** A value as a TypeScript literal: names without quotes, strings in single quotes. */
function toLiteral (value: unknown): string {
  return (JSON.stringify(value, null, 2) ?? '')
    .replaceAll(/^( *)"(\w+)":/gm, '$1$2:').replaceAll('"', "'")
}

/** What is read of a JSON Schema. */
type Schema = {
  readonly type?: string | readonly string[]
  readonly description?: string
  readonly examples?: readonly unknown[]
  readonly const?: unknown
  readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  /** Of an answer with several forms. */
  readonly content?: Readonly<Record<string, { readonly schema: object }>>
}

/** The first example of a schema, else one composed of those of its parts, if it has all. */
function buildExample (schema: Schema): unknown {
  const { examples, items, properties, required = [] } = schema
  if (examples !== undefined) return examples[0]
  if (items !== undefined) {
    const item = buildExample(items)
    return item === undefined ? undefined : [item]
  }
  if (properties === undefined) return schema.const
  const members = mapValues(properties, buildExample)
  return required.some(name => members[name] === undefined) ? undefined : members
}

/** A schema without the examples of it and its parts: they are shown beside it. */
function withoutExamples<T> (schema: T): T {
  if (Array.isArray(schema)) return schema.map(withoutExamples) as T
  if (typeof schema !== 'object' || schema === null) return schema
  return Object.fromEntries(Object.entries(schema)
    .filter(([name, value]) => name !== 'examples' || !Array.isArray(value))
    .map(([name, value]) => [name, withoutExamples(value)])) as T
}

/** A schema without examples, and with constants as enums, which more generators know. */
function showSchema (schema: object): object {
  const withEnums = (part: unknown): unknown => {
    if (!isObject(part)) return Array.isArray(part) ? part.map(withEnums) : part
    const { const: constant, ...others } = mapValues(part, withEnums)
    return constant === undefined ? others : { ...others, enum: [constant] }
  }
  return withEnums(withoutExamples(schema)) as object
}

const EVERYWHERE: readonly ErrorCode[] = [
  'https_required', 'not_acceptable', 'invalid_request', 'request_timeout', 'rate_limited',
  'headers_too_large', 'internal', 'temporarily_unavailable',
]
const WITH_KEY: readonly ErrorCode[] = [
  'missing_key', 'invalid_key', 'expired_key', 'revoked_key', 'insufficient_scope',
  'address_not_allowed',
]
/** A request that needs no body may have one all the same. */
const WITH_BODY: readonly ErrorCode[] = [
  'invalid_json', 'invalid_encoding', 'body_too_large', 'unsupported_media_type',
]

/** All error codes of an operation, in the order of the error table. */
function listErrors (route: RouteOptions): readonly ErrorCode[] {
  const { scope, errors = [] } = route.config ?? {}
  const wanted = new Set<ErrorCode>([
    ...EVERYWHERE,
    ...errors,
    ...(scope === undefined ? [] : WITH_KEY),
    ...(route.method === 'GET' ? [] : WITH_BODY),
    ...(route.schema?.params === undefined ? [] : ['not_found'] as const),
  ])
  return (Object.keys(ERRORS) as ErrorCode[]).filter(code => wanted.has(code))
}

/** The responses of an operation: successes, and errors by status. */
function describeAnswers (route: RouteOptions, links: Links): Operation['responses'] {
  const { produces = 'application/json', scope, deprecation, sends } = route.config ?? {}
  const headers = {
    ...refer(Object.keys(COMMON_HEADERS)),
    ...scope !== undefined && refer(Object.keys(LIMIT_HEADERS)),
    ...deprecation !== undefined && DEPRECATION_HEADERS,
  }
  const types = [produces].flat()
  const plain = { 200: { type: types[0] === 'application/json' ? 'object' : 'string' } }
  const successes = mapValues((route.schema?.response ?? plain) as Readonly<Record<string, Schema>>,
    (schema, status) => {
      const content = schema.content ??
        (schema.type === 'null' ? undefined : Object.fromEntries(types.map(it => [it, { schema }])))
      return {
        description: DESCRIPTIONS[status] ?? 'Success',
        headers: { ...headers, ...refer(sends?.[Number(status)] ?? []) },
        ...content && { content: mapValues(content, describeMedia) },
        ...status.startsWith('2') && Object.keys(links).length > 0 && { links },
      }
    })
  return { ...successes, ...describeFaults(listErrors(route), headers) }
}

/** A form of a successful answer, with its example. */
function describeMedia ({ schema }: { readonly schema: object }): Content[string] {
  const example = buildExample(schema)
  return { schema: showSchema(schema), ...example !== undefined && { example } }
}

const DESCRIPTIONS: Readonly<Record<string, string>> = {
  200: 'The answer.',
  201: 'Created.',
  202: 'Accepted.',
  302: 'Redirects browsers.',
  304: 'The results match If-None-Match.',
}

function describeFaults (
  codes: readonly ErrorCode[], headers: Readonly<Record<string, object>>
): Operation['responses'] {
  const byStatus = Map.groupBy(codes, httpStatus)
  return Object.fromEntries([...byStatus].map(([status, some]) => [status, {
    description: some.map(code => `\`${code}\`: ${ERRORS[code][2]}`).join('\n\n'),
    headers: { ...headers, ...errorHeaders(some) },
    content: {
      'application/json': {
        schema: faultSchema(some),
        examples: Object.fromEntries(some.map(code =>
          [code, { $ref: `#/components/examples/${code}` }])),
      },
    },
  }]))
}

/** Additional headers of error responses with these codes, all of one status. */
function errorHeaders (codes: readonly ErrorCode[]): Readonly<Record<string, object>> {
  if (codes.some(code => httpStatus(code) === 401)) return refer(['WWW-Authenticate'])
  const isWait = codes.some(code =>
    [429, 503].includes(httpStatus(code)) || code === 'job_not_completed')
  return isWait ? { 'Retry-After': header('integer', 'Seconds to wait, at least 1.') } : {}
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
          ...Object.assign({}, ...codes.map(code => describeError(code).more)),
        },
      },
    },
  }
}

export type AnswerHeader = keyof typeof ANSWER_HEADERS

const refer = (names: readonly string[]) =>
  Object.fromEntries(names.map(name => [name, { $ref: `#/components/headers/${name}` }]))
const header = (type: string, description: string) => ({ schema: { type }, description })

const COMMON_HEADERS = {
  'X-Request-Id': header('string', 'Id of this request; quote it to support.'),
  'API-Version': header('string', 'Version of the API, a date.'),
}

const LIMIT_HEADERS = {
  'RateLimit-Limit': header('integer', 'The limit that is closest to exhaustion.'),
  'RateLimit-Remaining': header('integer', 'Remaining requests of that limit.'),
  'RateLimit-Reset': header('integer', 'Seconds until that limit is full again.'),
  'RateLimit-Policy': header('string', 'All limits: requests;w=seconds.'),
  'Retry-After': header('integer', 'Seconds to wait; 0 if not throttled.'),
}

/** Headers that some answers have, see `sends` of a route. */
const ANSWER_HEADERS = {
  Location: header('string', 'Path of the next resource.'),
  'Idempotent-Replayed': header('string', 'true if this repeats the answer to an earlier request.'),
  'WWW-Authenticate': header('string', 'Bearer'),
  ETag: header('string', 'Identifies these results; send it as If-None-Match.'),
  Vary: header('string', 'Request headers that the answer depends on.'),
  'Content-Encoding': header('string', 'zstd or gzip, by Accept-Encoding.'),
  'Content-Disposition': header('string', 'Name of the file, for all forms but JSON.'),
  'Next-Cursor': header(
    'string', 'With provisional=true: the cursor after all rows of this answer, for after.'
  ),
  'Results-Complete': header(
    'string', 'With provisional=true: true if the job has ended, and no further row follows.'
  ),
}
const DEPRECATION_HEADERS = {
  Deprecation: header('string', 'When this was deprecated, @seconds.'),
  Sunset: header('string', 'When it stops working.'),
  Link: header('string', 'What to use instead.'),
}

const HEADERS = [
  ['X-Service-Signature', 't=<unix seconds>,v1=<hex HMAC-SHA256 of "{t}.{raw body}">: one v1 per ' +
    'active secret. Reject times more than 300 seconds away, and compare in constant time.'],
  ['webhook-id', 'The id of the event, see Standard Webhooks.'],
  ['webhook-timestamp', 'Unix seconds of this attempt.'],
  ['webhook-signature', 'v1,<base64 HMAC-SHA256>, one per active secret, and v1a,<base64 ' +
    'Ed25519> by the key of `GET /api/v1/webhook-keys`, see Standard Webhooks.'],
] as const

const { completed: ended, cancelling: running } = EXAMPLE_JOBS
const uncharged = { chargedMicros: 0, completedAt: null } as const
const END = 'the job has ended'

type DescribedEvent = {
  readonly summary: string
  readonly note?: string
  /** What an example reports. */
  readonly data: EventBody['data']
}

const EVENTS: Readonly<Record<EventType, DescribedEvent>> = {
  'job.completed': { summary: END, data: ended },
  'job.failed': { summary: END, data: { ...ended, status: 'failed' } },
  'job.cancelled': { summary: END, data: { ...ended, status: 'cancelled' } },
  'job.accepted': {
    summary: 'the job is accepted, and its price is reserved',
    note: ' It may arrive before the answer to the request that created the job: the labels in ' +
      '`metadata` tell which request that was.',
    data: {
      ...ended,
      ...uncharged,
      status: 'queued',
      freshRecords: 0,
      successRecords: 0,
      failedRecords: 0,
      invalidRecords: 0,
      duplicateRecords: 0,
      pendingRecords: 4,
      progressPercent: 0,
    },
  },
  'job.progress': {
    summary: 'another tenth of the rows of the job is finished',
    note: ' The job is as it was when the attempt was made. Progress that is out of date is not ' +
      'sent, so a slow receiver gets the latest only, and none after the job has ended.',
    data: { ...running, ...uncharged, status: 'verifying' },
  },
  'balance.low': {
    summary: 'a reservation took the available balance below the threshold',
    note: ' Once, until the balance is above the threshold again. The threshold is a setting of ' +
      'the workspace.',
    data: {
      thresholdMicros: 1_000_000, availableMicros: 996_000, currency: 'USD', jobId: ended.id,
    },
  },
}

const PROGRESS_TENTH = 5

/** How a receiver verifies an event; the same for all events. */
const RECEIVING = `import { verifyWebhook } from 'verification-jobs'

// The raw body: the signature is over its bytes.
const verified = verifyWebhook({ headers: request.headers, body, secret: 'whsec_...' })
if (!verified.ok) response.writeHead(400).end()
else if (await isNew(verified.event.id)) await enqueue(verified.event)`

/** The signature without the client, for other languages. */
const SIGNING = `# X-Service-Signature: t=$TIMESTAMP,v1=$SIGNATURE
printf '%s.%s' "$TIMESTAMP" "$BODY" | openssl dgst -sha256 -hmac "$SECRET" -r`

/** Describes a webhook event. */
function describeEvent (type: EventType): Operation {
  const { summary, note = '', data } = EVENTS[type]
  const schema = type === 'balance.low' ? BalanceEventSchema : JobEventSchema
  const names = type.split('.').map(word => `${word.charAt(0).toUpperCase()}${word.slice(1)}`)
  const id = deriveEventId(ended.id, type, type === 'job.progress' ? PROGRESS_TENTH : 0)
  const timestamp = ended.updatedAt
  return {
    operationId: `event.${type}`,
    summary: `${type}: ${summary}`,
    description: `A POST to ${summary === END ? 'webhook_url and ' : ''}each webhook endpoint ` +
      'that is subscribed, retried until it is answered with a 2xx within 15 seconds: ten ' +
      'attempts in about 76 hours. Redirects are failures, 410 ends the attempts. The same event ' +
      `may arrive more than once.${note}`,
    tags: ['Events'],
    parameters: HEADERS.map(([name, description]) => ({
      name, in: 'header', required: true, description, schema: { type: 'string' },
    })),
    requestBody: {
      required: true,
      content: {
        'application/json': {
          schema: withoutExamples({
            title: `${names.join('')}Event`,
            ...schema,
            properties: { ...schema.properties, type: { const: type } },
          }),
          example: { api_version: API_VERSION, livemode: true, timestamp, id, type, data },
        },
      },
    },
    responses: {
      '2XX': { description: 'Received.' },
      410: { description: 'The address accepts no more events: no retries follow.' },
    },
    'x-codeSamples': [typescriptSample(RECEIVING), shellSample(SIGNING, 'by hand')],
  }
}

const { metadata: _labels, sample: _sample, ...jobOptions } = FileOptionsSchema.properties
const { metadata: _metadata, ...quoteOptions } = FileOptionsSchema.properties

const FILE = 'name,phone\r\nAnn,+12127365000\r\n'
const PHONES = { service: 'phone-validation', column: 'phone' }

const FILE_PART = {
  type: 'string',
  contentMediaType: 'text/csv',
  description: 'A CSV file or a workbook (.xlsx), whose part needs no file name.',
}

/** The bodies of a file beside that of JSON. */
const buildContent = (form: object, example: object): Content => ({
  'text/csv': {
    schema: {
      type: 'string',
      description: 'A CSV file in UTF-8, of at most 500 columns with 32 KiB of names, 64 KiB ' +
        'a line and 100,000 rows below its header. Its options are in the query.',
    },
    examples: { phones: { value: FILE } },
  },
  [WORKBOOK_TYPE]: {
    schema: {
      type: 'string',
      contentMediaType: WORKBOOK_TYPE,
      description: 'An Excel workbook (.xlsx), of which one sheet is read as a CSV file of its ' +
        'rows would be. It may inflate to 256 MiB.',
    },
  },
  'multipart/form-data': {
    schema: { type: 'object', ...form, additionalProperties: false },
    examples: { phones: { value: example } },
  },
})

const ENTRIES = 'entry,list\r\nexample.org,suppress\r\n+4930*,block\r\n'

const LIST_PART = {
  type: 'string',
  description: 'A CSV file in UTF-8 of at most 100,000 lines below its header, with the ' +
    'columns entry (as in JSON), list (allow, block, suppress, or remove) and perhaps kind ' +
    `(${ENTRY_KINDS.join(', ')}); or one column of entries without a name, with action in ` +
    'the query.',
}

/** The body with entries of contact lists. */
const LIST_FILE = {
  required: true,
  content: {
    'text/csv': { schema: LIST_PART, examples: { entries: { value: ENTRIES } } },
    'multipart/form-data': {
      schema: {
        title: 'ContactListForm',
        type: 'object',
        required: ['file'],
        properties: { file: { ...LIST_PART, contentMediaType: 'text/csv' } },
        additionalProperties: false,
      },
      examples: { entries: { value: { file: ENTRIES } } },
    },
  },
} as const

/** A file to look at. */
const PREVIEW = {
  parameters: Object.entries<object>(PreviewOptionsSchema.properties).map(([name, schema]) => ({
    name,
    in: 'query',
    required: false,
    description: 'What is known of the file already.',
    schema: { ...schema },
  })),
  requestBody: {
    required: true,
    content: buildContent({
      title: 'PreviewForm',
      required: ['file'],
      properties: { file: FILE_PART, ...PreviewOptionsSchema.properties },
    }, { file: FILE }),
  },
}

const REQUEST_ID = 'req_01jd3v8zj7m5n2k4q6r8s0t1w3'

/** The subset of OpenAPI 3.1 that is used here. */
export type OpenApiDocument = {
  readonly openapi: string
  readonly info: {
    readonly title: string
    readonly version: string
    readonly description?: string
  }
  readonly servers?: readonly object[]
  readonly tags?: readonly { readonly name: string, readonly description?: string }[]
  readonly paths: Paths
  readonly webhooks?: Paths
  readonly components: Readonly<Record<string, object>>
}

export type Paths = Readonly<Record<string, Readonly<Record<string, Operation>>>>

export type Operation = {
  readonly operationId?: string
  readonly summary?: string
  readonly description?: string
  readonly tags?: readonly string[]
  readonly deprecated?: boolean
  readonly security?: readonly object[]
  readonly parameters?: readonly Parameter[]
  readonly requestBody?: { readonly required?: boolean, readonly content: Content }
  readonly responses: Readonly<Record<string, OpenApiResponse>>
  readonly 'x-codeSamples'?: readonly CodeSample[]
}

/** An item of the extension `x-codeSamples`. */
export type CodeSample = {
  readonly lang: string
  readonly label: string
  readonly source: string
}

export type Parameter = {
  readonly name: string
  readonly in: string
  readonly required?: boolean
  readonly description?: string
  readonly style?: string
  readonly explode?: boolean
  readonly example?: unknown
  readonly schema: object
}

export type OpenApiResponse = {
  readonly description: string
  readonly headers?: Readonly<Record<string, object>>
  readonly content?: Content
  readonly links?: Readonly<Record<string, object>>
}

export type Content = Readonly<Record<string, {
  readonly schema: object
  readonly example?: unknown
  readonly examples?: Readonly<Record<string, object>>
}>>

/**
 * Moves schemas with a title to `components`, so that generated clients have one type with a name
 * for each. Throws if two different schemas have the same title.
 */
function withSharedSchemas (document: OpenApiDocument): OpenApiDocument {
  const schemas: Record<string, unknown> = {}
  const share = (schema: unknown): unknown => {
    if (!isObject(schema)) return Array.isArray(schema) ? schema.map(share) : schema
    const shared = mapValues(schema, share)
    const { title } = shared
    if (typeof title !== 'string') return shared
    if (JSON.stringify(schemas[title] ?? shared) !== JSON.stringify(shared)) {
      throw new Error(`two different schemas have the title ${title}: rename one of them`)
    }
    schemas[title] = shared
    return { $ref: `#/components/schemas/${title}` }
  }
  const walk = (node: unknown): unknown => {
    if (!isObject(node)) return Array.isArray(node) ? node.map(walk) : node
    return mapValues(node, (value, name) => name === 'schema' ? share(value) : walk(value))
  }
  const paths = walk(document.paths) as Paths
  const webhooks = walk(document.webhooks ?? {}) as Paths
  return { ...document, paths, webhooks, components: { ...document.components, schemas } }
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Maps the values of an object. */
function mapValues<T, U> (
  values: Readonly<Record<string, T>>, change: (value: T, name: string) => U
): Record<string, U> {
  return Object.fromEntries(Object.entries(values)
    .map(([name, value]) => [name, change(value, name)]))
}
