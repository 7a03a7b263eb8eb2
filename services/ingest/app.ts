import Fastify, {
  type FastifyBaseLogger, type FastifyError, type FastifyInstance, type FastifyReply,
  type FastifyRequest, LogController,
} from 'fastify'
import type { FastifySchemaValidationError } from 'fastify/types/schema.js'
import { LRUCache } from 'lru-cache'
import type { Socket } from 'node:net'
import { MAX_INPUTS } from '../../schemas/api/create-job.ts'
import {
  type AccessEvent, type AccessLog, recordRequests,
} from '../accounts/access-log/access-log.ts'
import { WORKSPACE_KEY } from '../accounts/api-keys.ts'
import { OrganizationErasedError } from '../accounts/organization-keys.ts'
import { acceptCompleteBodies, acceptJson } from './body.ts'
import type { Settings } from './config.ts'
import type { IngestDeps } from './deps.ts'
import {
  type ApiError, ApiException, type ErrorCode, SHOWN_CHARACTERS, httpStatus,
} from './errors.ts'
import { acceptFiles } from './file.ts'
import { JOB_ID } from './find-jobs.ts'
import {
  checkRequestSmuggling, guardRoutes, publicLimitError, setCommonHeaders, shedLoad,
} from './guard.ts'
import { readQueryFields } from './request.ts'
import { announceDeprecations, EVENT_STREAM, sendError, sendRaw } from './response.ts'
import { createRoutes } from './routes.ts'
import { LostResultsError } from '../jobs/results/results.ts'
import { NotSubmittedError } from '../jobs/submit.ts'
import { isOutageOrFatal } from '../runtime/platform/errors.ts'
import {
  CONNECTION_DEFAULTS, type ConnectionSettings, frameworkLimits, PublicLimit, readClientAddresses,
} from '../runtime/platform/http-server.ts'
import { newId } from '../runtime/platform/ids.ts'
import { createLogThrottle } from '../runtime/platform/log.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import { clientAddress, type Networks, parseNetworks } from '../runtime/platform/networks.ts'
import { guardConnections, SMALL_BODY_BYTES } from '../runtime/platform/peer-guards.ts'
import {
  failSpan, isTracing, type Span, SpanKind, toSpanLinks, startSpan, withSpan, withTrace,
} from '../runtime/platform/tracing.ts'

const newRequestId = () => newId('req', Date.now())

/** Far above the length of a job id. */
const MAX_PARAMETER_CHARACTERS = 200

type Options = {
  readonly deps: IngestDeps
  readonly settings: Settings
  readonly log?: FastifyBaseLogger
  readonly connection?: ConnectionSettings
}

/**
 * The HTTP application without a socket: tests inject requests, `main` listens. Disables defaults
 * of Fastify that would change or drop parts of a request.
 */
export function createApp (
  { deps, settings, log, connection = CONNECTION_DEFAULTS }: Options
): FastifyInstance {
  const proxies = parseNetworks(settings.trustedProxies, 'TRUSTED_PROXIES')
  const limit = new PublicLimit(connection)
  const app = Fastify({
    ...(log === undefined ? {} : { loggerInstance: log }),
    ...frameworkLimits(connection),
    // Not logged: a client may put anything into a query.
    logController: new LogController({
      disableRequestLogging: true, requestIdLogLabel: 'requestId',
    }),
    bodyLimit: SMALL_BODY_BYTES,
    routerOptions: { maxParamLength: MAX_PARAMETER_CHARACTERS, ignoreTrailingSlash: true },
    exposeHeadRoutes: true,
    requestIdHeader: false,
    genReqId: newRequestId,
    return503OnClosing: false,
    ajv: {
      customOptions: {
        coerceTypes: false,
        removeAdditional: false,
        useDefaults: false,
        allErrors: false,
        // The error messages use the schema that was violated.
        verbose: true,
      },
    },
    frameworkErrors: createBadPathAnswer(limit, proxies),
    clientErrorHandler: answerBadData,
  })
  guardConnections(app.server, connection, proxies)
  readClientAddresses(app, proxies)
  // Events for which Node would send no body or no response: unknown expectations are ignored, as
  // the standard allows, and CONNECT is a method that no path supports.
  app.server.on('checkExpectation', (...exchange) => { app.server.emit('request', ...exchange) })
  app.server.on('connect', (_request, socket) => {
    sendRaw(socket, 'method_not_allowed', newRequestId())
  })
  acceptCompleteBodies(app)
  acceptJson(app)
  acceptFiles(app)
  answerFailures(app)
  checkRequestSmuggling(app, connection.MAX_REQUESTS_PER_CONNECTION)
  traceRequests(app)
  guardRoutes(app, deps, { ...settings, limit })
  recordApiRequests(app, deps.accessLog)
  shedLoad(app, deps)
  announceDeprecations(app)
  readQueryFields(app)
  // The framework closes only connections that are idle when the server stops: others would delay
  // the stop until they time out.
  let isStopping = false
  app.addHook('preClose', async () => { isStopping = true })
  app.addHook('onSend', async (_request, reply) => {
    if (isStopping) reply.header('connection', 'close')
  })
  for (const route of createRoutes(deps, settings)) app.route(route)
  return app
}

const LOG_INTERVAL_MS = 60_000

/** Why a request was refused before anything of it was stored. */
const NOT_SUBMITTED: ApiError = {
  code: 'temporarily_unavailable',
  message: 'The service cannot take jobs now. This request created no job, and nothing was ' +
    'reserved or charged. Send it again after the seconds in Retry-After, with the same ' +
    'Idempotency-Key.',
  retryAfterSeconds: 5,
}

/** Turns every failure of the application into an error response; details are only logged. */
function answerFailures (app: FastifyInstance): void {
  const isDue = createLogThrottle(LOG_INTERVAL_MS)
  app.setErrorHandler<FastifyError>((error, request, reply) => {
    if (!(error instanceof NotSubmittedError)) return sendError(reply, readFault(error, request))
    // Every request fails for the same cause, which says what to do.
    if (isDue(String(error.cause))) request.log.error({ err: error }, 'jobs and quotes are refused')
    return sendError(reply, NOT_SUBMITTED)
  })
  app.setNotFoundHandler((_request, reply) => sendError(reply, { code: 'not_found' }))
}

/** The codes of Fastify errors. */
const FRAMEWORK_CODES: Readonly<Record<string, ErrorCode>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: 'body_too_large',
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'unsupported_media_type',
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: 'invalid_request',
  FST_ERR_CTP_EMPTY_JSON_BODY: 'invalid_json',
  FST_ERR_CTP_INVALID_JSON_BODY: 'invalid_json',
  FST_ERR_BAD_URL: 'not_found',
  FST_ERR_MAX_PARAM_LENGTH: 'not_found',
}

/** Creates the response to a request with an invalid path, for which no hook has run. */
function createBadPathAnswer (limit: PublicLimit, proxies: Networks) {
  return (error: FastifyError, request: FastifyRequest, reply: FastifyReply): void => {
    setCommonHeaders(reply)
    const waitSeconds = limit.take(clientAddress(request.raw, proxies))
    if (waitSeconds > 0) {
      sendError(reply.header('connection', 'close'), publicLimitError(waitSeconds))
    } else sendError(reply, { code: FRAMEWORK_CODES[error.code] ?? 'invalid_request' })
  }
}

/**
 * Responds directly on the socket to data that is not HTTP, is too slow, or has too large headers.
 */
function answerBadData ({ code = '' }: Error & { readonly code?: string }, socket: Socket): void {
  // A client that reset the connection gets no response.
  if (code === 'ECONNRESET' || !socket.writable) socket.destroy()
  else sendRaw(socket, SOCKET_CODES[code] ?? 'invalid_request', newRequestId())
}

/** The codes of Node errors before there is a request. */
const SOCKET_CODES: Readonly<Record<string, ErrorCode>> = {
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
  HPE_HEADER_OVERFLOW: 'headers_too_large',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 'body_too_large',
}

/** The message for results that were deleted early, or whose key was lost. */
const CONTENTS_LOST = 'The contents of this job cannot be read any more. A job that failed ' +
  'because of it was not charged.'

function readFault (error: FastifyError, request: FastifyRequest): ApiError {
  if (error instanceof ApiException) return error.fault
  // The key was valid when the request arrived.
  if (error instanceof OrganizationErasedError) return { code: 'revoked_key' }
  if (error.validation !== undefined) {
    return validationError(error.validation, error.validationContext as RequestPart | undefined)
  }
  const code = FRAMEWORK_CODES[error.code]
  if (code !== undefined) return { code }
  // A client that disconnects during the body is not a failure of the service.
  if (error.code === 'ECONNRESET' && request.raw.readableAborted) return { code: 'request_timeout' }
  const fault: ApiError = error instanceof LostResultsError
    ? { code: 'results_expired', message: CONTENTS_LOST }
    : { code: isOutageOrFatal(error) ? 'temporarily_unavailable' : 'internal' }
  const { method, params, routeOptions: { url: route } } = request
  const { id } = (params ?? {}) as { readonly id?: string }
  request.log.error({
    err: error,
    method,
    route,
    status: httpStatus(fault.code),
    code: fault.code,
    // Any other text of a client is not logged.
    ...id !== undefined && JOB_ID.test(id) && { job: id },
  }, 'request failed')
  return fault
}

/** The validated part of a request, as named by Fastify. */
type RequestPart = 'body' | 'querystring' | 'params' | 'headers'

/** A validation error with the schema that was violated. */
type Mismatch = FastifySchemaValidationError & {
  readonly parentSchema?: Readonly<Record<string, unknown>>
  readonly propertyName?: string
}

/** Error codes of certain fields and keywords. */
const CODES: Readonly<Record<string, ErrorCode>> = {
  'service enum': 'unknown_service',
  'inputs maxItems': 'too_many_inputs',
  'countryCode pattern': 'invalid_country_code',
  'webhook_url maxLength': 'invalid_webhook_url',
  'webhook_url pattern': 'invalid_webhook_url',
  'url maxLength': 'invalid_webhook_url',
  'url pattern': 'invalid_webhook_url',
}

/** Codes whose message in the table is better than one from a schema. */
const TABLE_MESSAGE: ReadonlySet<ErrorCode> = new Set(['too_many_inputs', 'invalid_country_code'])

const PLACES: Readonly<Record<RequestPart, string>> = {
  body: 'The body', querystring: 'The query', params: 'The path', headers: 'The headers',
}

/** The error for a request that violates its schema; only the first violation is reported. */
function validationError (
  errors: readonly Mismatch[], place: RequestPart = 'body'
): ApiError {
  const error = firstMismatch(errors)
  if (error === undefined) return { code: 'invalid_request' }
  const path = findParam(error)
  // An item of a list in the query belongs to one parameter.
  const param = place === 'querystring' ? path.replace(/\[\d+\]$/, '') : path
  const code = (place === 'body' ? CODES[`${param} ${error.keyword}`] : undefined) ??
    'invalid_request'
  const shown = param === '' ? {} : { param }
  if (code === 'too_many_inputs' && error.params['limit'] !== MAX_INPUTS) {
    const message = `This request has at most ${Number(error.params['limit'])} inputs. Split it, ` +
      `or send it to POST /api/v1/jobs, which takes up to ${MAX_INPUTS.toLocaleString('en-US')}.`
    return { code, ...shown, message }
  }
  if (TABLE_MESSAGE.has(code)) return { code, ...shown }
  const message = `${path === '' ? PLACES[place] : path} ${describeMismatch(error, place)}`
  if (code !== 'unknown_service') return { code, ...shown, message }
  const services = error.params['allowedValues'] as readonly string[]
  return { code, ...shown, message, more: { services } }
}

/**
 * The first violation. Of a value that may be a text or an object, an object violates the second
 * schema, and any other value the choice itself.
 */
function firstMismatch (errors: readonly Mismatch[]): Mismatch | undefined {
  const choice = errors.at(-1)
  if (choice?.keyword !== 'anyOf') return errors[0]
  const inner = errors.at(-2)
  const isOtherType = inner?.keyword === 'type' && inner.instancePath === choice.instancePath
  return isOtherType ? choice : inner
}

/** What is wrong and what to do, as the rest of a sentence that begins with the field. */
function describeMismatch (error: Mismatch, place: RequestPart): string {
  const { keyword, params, parentSchema = {} } = error
  if (error.propertyName !== undefined) {
    return `has a key of more than ${String(params['limit'])} characters. Shorten it.`
  }
  switch (keyword) {
    case 'additionalProperties': {
      const names = Object.keys((parentSchema['properties'] ?? {}) as object)
      const what = place === 'querystring' ? 'parameter' : 'field'
      const list = names.length === 0 ? '' : ` Leave it out; there are: ${names.join(', ')}.`
      return `is not a ${what} of this request.${list}`
    }
    case 'required': return 'is missing. Send it.'
    case 'type':
      // A query holds texts only, so one that is no text was sent several times.
      if (place === 'querystring' && params['type'] === 'string') {
        return 'was sent more than once. Send it once.'
      }
      if (place === 'querystring' && params['type'] === 'object') {
        return `is sent with a name in brackets: ${findParam(error)}[name]=value.`
      }
      return `must be ${typeText(error)}.`
    case 'anyOf': {
      const types = (parentSchema['anyOf'] as readonly { readonly type: string }[])
        .map(({ type }) => TYPES[type] ?? type)
      return `must be ${types.join(', or ')}.`
    }
    case 'enum': return `must be one of: ${(params['allowedValues'] as unknown[]).join(', ')}.`
    case 'const': return `must be ${JSON.stringify(params['allowedValue'])}, or be left out.`
    case 'minimum':
    case 'maximum': return `must be ${typeText(error)}.`
    default: {
      // The description says what the field is, where no keyword says what to do.
      const { description } = parentSchema
      const hint = typeof description === 'string' ? ` It is: ${description}` : ''
      return sizeText(error) ?? `is not valid.${hint}`
    }
  }
}

/** Sentences on what is too much or too little. */
function sizeText ({ keyword, params }: Mismatch): string | undefined {
  const limit = Number(params['limit'])
  const count = limit.toLocaleString('en-US')
  switch (keyword) {
    case 'minItems': return `is empty. Send at least ${count}.`
    case 'maxItems': return `has too many items. Send at most ${count}.`
    case 'minLength': return limit === 1
      ? 'is empty. Send a text, or leave it out.'
      : `is too short. It must have at least ${count} characters.`
    case 'maxLength': return `is too long. It can have at most ${count} characters.`
    case 'uniqueItems': return 'has a value twice. Send each once.'
    case 'minProperties': return 'is empty. Send at least one field.'
    case 'maxProperties': return `has too many entries. Send at most ${count}.`
    default: return undefined
  }
}

const TYPES: Readonly<Record<string, string>> = {
  string: 'a text in quotes',
  boolean: 'true or false, without quotes',
  array: 'a list in square brackets',
  object: 'a JSON object in braces',
}

/** The type that a value must have, with its bounds. */
function typeText ({ params, parentSchema = {} }: Mismatch): string {
  const type = String(parentSchema['type'] ?? params['type'])
  const { minimum, maximum } = parentSchema
  if (type !== 'integer') return TYPES[type] ?? type
  const from = minimum === undefined ? '' : ` from ${Number(minimum).toLocaleString('en-US')}`
  const to = maximum === undefined ? '' : ` to ${Number(maximum).toLocaleString('en-US')}`
  return `a whole number${from}${to}`
}

/** `/inputs/3` is shown as `inputs[3]`, `/metadata/team` as `metadata.team`. */
function findParam (error: Mismatch): string {
  const { additionalProperty, missingProperty } = error.params as Record<string, string | undefined>
  const property = additionalProperty ?? missingProperty
  const steps = error.instancePath.split('/').slice(1).map(step =>
    step.replaceAll('~1', '/').replaceAll('~0', '~'))
  if (property !== undefined) steps.push(property)
  const path = steps.reduce((before, step) =>
    before === '' ? step : /^\d+$/.test(step) ? `${before}[${step}]` : `${before}.${step}`, '')
  return path.slice(0, SHOWN_CHARACTERS)
}

/** Fields of bodies that an entry repeats; an address of a webhook may be secret. */
const FIELDS = ['events', 'enabled']

/** How long the entry of a page of results covers later pages, for the same key and job. */
const PAGES_MS = 3_600_000
const MAX_DOWNLOADS = 10_000

/**
 * Records the requests of API keys in the access log. A later page of results needs no entry of its
 * own after that of another page; the cursor alone proves nothing, as a client can make one up.
 */
function recordApiRequests (app: FastifyInstance, log: AccessLog): void {
  const downloads = new LRUCache<string, true>({ max: MAX_DOWNLOADS, ttl: PAGES_MS })
  const downloadName = ({ actor, target }: AccessEvent) => `${actor.id} ${target}`
  recordRequests(app, {
    log: {
      ...log,
      append: async event => {
        const id = await log.append(event)
        const isDownload = event.action === 'results.downloaded' && event.outcome === 'done'
        if (isDownload) downloads.set(downloadName(event), true)
        return id
      },
    },
    isExempt: ({ query }, event) => event.action === 'results.downloaded' &&
      ['cursor', 'after'].some(name => Object.hasOwn(query as object, name)) &&
      downloads.has(downloadName(event)),
    isRefusal: error => error instanceof ApiException && error.fault.code === 'insufficient_scope',
    requesterOf: ({ caller, body }: FastifyRequest) => {
      // The workspace page records the person behind its own requests.
      if (caller === undefined || caller.keyId === WORKSPACE_KEY) return undefined
      const { org: organization, keyId: id, mode } = caller
      const fields = Object.entries(typeof body === 'object' && body !== null ? body : {})
        .filter(([name]) => FIELDS.includes(name))
        .map(([name, value]) => [name, String(value)] as const)
      return {
        organization,
        actor: { kind: 'key', id },
        details: { mode, ...Object.fromEntries(fields) },
      }
    },
  })
}

/**
 * Counts every response by its route: raw URLs would create a series per job. Requests without a
 * route are counted as `none`.
 */
export function countRequests (app: FastifyInstance, metrics: Metrics): void {
  app.addHook('onResponse', async (request, reply) => {
    const { method } = request
    const route = request.routeOptions.url ?? 'none'
    metrics.count('http_requests_total', { method, route, status: String(reply.statusCode) })
    // A stream of events lasts as long as its job.
    if (request.routeOptions.config.produces === EVENT_STREAM) return
    metrics.observe('http_request_seconds', { method, route }, reply.elapsedTime / 1_000)
  })
}

/**
 * A span for every request to the interface, named by its route, because a URL may contain
 * anything. Each starts a new trace. The trace of the client is only a link: otherwise clients
 * would control sampling and could join traces of others.
 */
function traceRequests (app: FastifyInstance): void {
  if (!isTracing()) return
  const spans = new WeakMap<FastifyRequest, Span>()
  app.addHook('onRequest', (request, _reply, done) => {
    const { routeOptions: { config, url: route = 'none' }, method, headers } = request
    const { traceparent } = headers
    if (config.scope !== undefined) {
      spans.set(request, withTrace({}, () => startSpan({
        name: `${method} ${route}`,
        kind: SpanKind.SERVER,
        links: toSpanLinks(typeof traceparent === 'string' ? [{ traceparent }] : []),
        attributes: { 'http.request.method': method, 'http.route': route, request: request.id },
      })))
    }
    done()
  })
  // From here on only: body chunks arrive outside of the context of earlier hooks.
  app.addHook('preHandler', (request, _reply, done) => {
    const span = spans.get(request)
    if (span === undefined) done()
    else withSpan(span, done)
  })
  app.addHook('onResponse', (request, { statusCode }, done) => {
    const span = spans.get(request)
    span?.setAttribute('http.response.status_code', statusCode)
    const { caller } = request
    if (caller !== undefined) span?.setAttribute('tenant', caller.tenant)
    if (span !== undefined && statusCode >= 500) failSpan(span, String(statusCode))
    span?.end()
    done()
  })
}
