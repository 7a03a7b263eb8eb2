import type { FastifyRequest, RouteOptions } from 'fastify'
import {
  AcceptedSchema, CreateJobSchema, IdempotencyHeaderSchema, MAX_BODY_BYTES,
} from '../../../schemas/api/create-job.ts'
import { ERROR_RESPONSES } from '../../../schemas/api/error.ts'
import { NotSubmittedError, type Submitted } from '../../jobs/submit.ts'
import { failpoint } from '../../runtime/platform/failpoint.ts'
import { createBodyBudget, reserveMemory } from '../body.ts'
import type { ApiError } from '../errors.ts'
import type { IngestDeps } from '../ports.ts'
import type { Settings } from '../config.ts'
import { sendAccepted, sendError, OUTCOME_UNKNOWN, refusalError } from '../response.ts'
import { readKeyedSubmission } from '../request.ts'

/** Errors of the body of a job or quote, in addition to those of every body. */
export const REQUEST_ERRORS = [
  'unknown_service', 'service_not_configured', 'invalid_country_code', 'invalid_file',
  'too_many_inputs', 'invalid_webhook_url',
] as const

/** Errors of a request that creates a job, in addition to those of every body. */
export const JOB_ERRORS = [
  ...REQUEST_ERRORS, 'invalid_idempotency_key', 'idempotency_key_reused', 'insufficient_balance',
  'concurrent_jobs_limit', 'too_many_preflights', 'wallet_unavailable',
] as const

/** POST /api/v1/jobs: creates and approves a job; answers when its price is reserved. */
export function createJobRoute (
  deps: IngestDeps, settings: Settings, budget = createBodyBudget(settings.bodyBudgetBytes)
): RouteOptions {
  return {
    method: 'POST',
    url: '/api/v1/jobs',
    bodyLimit: MAX_BODY_BYTES,
    config: {
      scope: 'jobs:write',
      produces: 'application/json',
      takesBody: true,
      takesFile: 'contacts',
      preflight: 'keyed',
      headers: IdempotencyHeaderSchema,
      sends: { 202: ['Location', 'Idempotent-Replayed'] },
      errors: JOB_ERRORS,
      // A job is in the journal, with its price and its Idempotency-Key.
      records: null,
      sample: {
        bodies: ['phones', 'emails', 'ids'],
        curl: ['-H "Idempotency-Key: $(uuidgen)"'],
        client: body => [
          `const { id, preflight } = await client.createJob(${body})`,
          'const job = await client.waitForEnd(id)',
          'console.log(job.status, preflight.maxQuoteMicros, job.chargedMicros)',
        ],
      },
    },
    schema: {
      operationId: 'createJob',
      summary: 'Create and approve a job',
      description: 'Answers when the preflight is done and the maximum price is reserved. The ' +
        'job continues even if the client disconnects. The contacts can also be a column of a ' +
        'CSV file.',
      tags: ['Jobs'],
      body: CreateJobSchema,
      response: { 202: AcceptedSchema, ...ERROR_RESPONSES },
    },
    ...reserveMemory(budget, settings.bodyThroughput),
    handler: async (request, reply) => {
      const outcome = await submitRequest(deps, settings, request)
      if ('code' in outcome) return sendError(reply, outcome)
      failpoint('ingest.answering')
      return sendAccepted(reply, outcome)
    },
  }
}

/** The job of a request, new or replayed, or the error why there is none. */
export async function submitRequest (
  deps: IngestDeps, settings: Settings, request: FastifyRequest
): Promise<Extract<Submitted, { kind: 'accepted' }> | ApiError> {
  const read = readKeyedSubmission(request, settings)
  if ('code' in read) return read
  try {
    const outcome = await deps.submit(read)
    return outcome.kind === 'accepted' ? outcome : refusalError(outcome)
  } catch (error) {
    const isKnown = error instanceof NotSubmittedError
    if (!isKnown && deps.isInfrastructure(error)) return OUTCOME_UNKNOWN
    throw error
  }
}
