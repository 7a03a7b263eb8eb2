import type { Socket } from 'node:net'
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { OrganizationErasedError } from '../accounts/organization-key-store.ts'
import { publicLimitError } from './guard.ts'
import { NOT_SUBMITTED, sendRaw, sendError } from './response.ts'
import { ApiException, statusOf, type ErrorCode, type ApiError } from './errors.ts'
import { JOB_ID } from './find-job.ts'
import { NotSubmittedError } from '../jobs/submit.ts'
import type { PublicLimit } from '../runtime/platform/http-server.ts'
import { createLogThrottle } from '../runtime/platform/log.ts'
import { clientAddress, type Networks } from '../runtime/platform/networks.ts'
import { API_VERSION } from '../../schemas/api/root.ts'
import { LostResultsError } from '../jobs/results/read-chunks.ts'
import type { IngestDeps } from './ports.ts'
import { validationError, type RequestPart } from './validation.ts'

const LOG_INTERVAL_MS = 60_000

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

/** The message for results that were deleted early, or whose key was lost. */
const CONTENTS_LOST = 'The contents of this job cannot be read any more. A job that failed ' +
  'because of it was not charged.'

/** The codes of Node errors before there is a request. */
const SOCKET_CODES: Readonly<Record<string, ErrorCode>> = {
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
  HPE_HEADER_OVERFLOW: 'headers_too_large',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 'body_too_large',
}

/** Turns every failure of the application into an error response; details are only logged. */
export function answerFailures (app: FastifyInstance, deps: IngestDeps): void {
  const isDue = createLogThrottle(LOG_INTERVAL_MS)
  app.setErrorHandler<FastifyError>((error, request, reply) => {
    if (!(error instanceof NotSubmittedError)) {
      return sendError(reply, faultOf(error, request, deps))
    }
    // Every request fails for the same cause, which says what to do.
    if (isDue(String(error.cause))) request.log.error({ err: error }, 'jobs and quotes are refused')
    return sendError(reply, NOT_SUBMITTED)
  })
  app.setNotFoundHandler((_request, reply) => sendError(reply, { code: 'not_found' }))
}

/** Creates the response to a request with an invalid path, for which no hook has run. */
export function createBadPathAnswer (limit: PublicLimit, proxies: Networks) {
  return (error: FastifyError, request: FastifyRequest, reply: FastifyReply): void => {
    reply.headers({ 'x-request-id': request.id, 'api-version': API_VERSION })
    const waitSeconds = limit.take(clientAddress(request.raw, proxies))
    if (waitSeconds > 0) sendError(reply, publicLimitError(waitSeconds))
    else sendError(reply, { code: FRAMEWORK_CODES[error.code] ?? 'invalid_request' })
  }
}

/**
 * Responds directly on the socket to data that is not HTTP, is too slow, or has too large headers.
 */
export function createSocketFailure (newRequestId: () => string) {
  return (error: Error & { code?: string }, socket: Socket): void => {
    // A client that reset the connection gets no response.
    if (error.code === 'ECONNRESET' || !socket.writable) socket.destroy()
    else sendRaw(socket, SOCKET_CODES[error.code ?? ''] ?? 'invalid_request', newRequestId())
  }
}

/**
 * Handles events for which Node would send no body or no response: unknown expectations are
 * ignored, as the standard allows, and CONNECT is a method that no path supports.
 */
export function answerUnhandled (app: FastifyInstance, newRequestId: () => string): void {
  app.server.on('checkExpectation', (...exchange) => { app.server.emit('request', ...exchange) })
  app.server.on('connect', (_request, socket) => {
    sendRaw(socket, 'method_not_allowed', newRequestId())
  })
}

/** The job id in the path as a log field; any other text of a client is not logged. */
function jobField ({ params }: FastifyRequest): { job?: string } {
  const { id } = (params ?? {}) as { readonly id?: string }
  return id !== undefined && JOB_ID.test(id) ? { job: id } : {}
}

function faultOf (error: FastifyError, request: FastifyRequest, deps: IngestDeps): ApiError {
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
  const fault = unexpectedFaultOf(error, deps)
  const { method, routeOptions: { url: route } } = request
  const response = { status: statusOf(fault.code), code: fault.code }
  request.log.error({ err: error, method, route, ...response, ...jobField(request) },
    'request failed')
  return fault
}

function unexpectedFaultOf (error: FastifyError, deps: IngestDeps): ApiError {
  if (error instanceof LostResultsError) return { code: 'results_expired', message: CONTENTS_LOST }
  return { code: deps.isInfrastructure(error) ? 'temporarily_unavailable' : 'internal' }
}
