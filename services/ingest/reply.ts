import type { FastifyReply } from 'fastify'
import type { Submitted } from '../jobs/submit.ts'
import { addSpanAttributes } from '../platform/tracing.ts'
import { errorBody, statusOf, type ApiError } from './errors.ts'
import { acceptedBody, jobPath } from './response.ts'

/** The Retry-After of a 503 or 429 without a better estimate. */
export const RETRY_AFTER_SECONDS = 2

/** Sends an error response: status, headers and body by the table of errors. */
export function sendError (reply: FastifyReply, fault: ApiError): FastifyReply {
  const status = statusOf(fault.code)
  if (status === 401) reply.header('www-authenticate', 'Bearer')
  if (status === 429 || status === 503 || fault.retryAfterSeconds !== undefined) {
    const seconds = Math.max(1, Math.ceil(fault.retryAfterSeconds ?? RETRY_AFTER_SECONDS))
    reply.header('retry-after', String(seconds))
  }
  return reply.code(status)
    .headers(fault.headers ?? {})
    .type('application/json; charset=utf-8')
    .send(JSON.stringify(errorBody(fault, reply.request.id)))
}

/** Sends the response for an accepted job, and adds the job to its span and logs. */
export function sendAccepted (
  reply: FastifyReply, { job, replayed }: Extract<Submitted, { kind: 'accepted' }>
): FastifyReply {
  const { request } = reply
  addSpanAttributes({ job: job.id, rows: job.preflight.totalRows })
  request.log = request.log.child({ tenant: job.tenant, job: job.id })
  request.log.info({ replayed }, 'job accepted')
  if (replayed) reply.header('idempotent-replayed', 'true')
  return reply.code(202)
    .header('location', jobPath(job.id))
    .type('application/json; charset=utf-8')
    .send(JSON.stringify(acceptedBody(job)))
}
