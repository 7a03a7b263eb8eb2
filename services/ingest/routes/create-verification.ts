import type { RouteOptions } from 'fastify'
import { AcceptedSchema, IdempotencyHeaderSchema } from '../../../schemas/api/create-job.ts'
import { ERROR_RESPONSES } from '../../../schemas/api/error.ts'
import {
  type CreateVerificationBody, CreateVerificationSchema, DEFAULT_WAIT_SECONDS,
  MAX_VERIFICATION_INPUTS, type VerificationBody, type VerificationQuery, VerificationQuerySchema,
  VerificationSchema,
} from '../../../schemas/api/verifications.ts'
import { failpoint } from '../../runtime/platform/failpoint.ts'
import type { ApiError } from '../errors.ts'
import type { IngestDeps } from '../ports.ts'
import type { Settings } from '../config.ts'
import { sendAccepted, sendError, sendVerified } from '../response.ts'
import { type AwaitedJob, awaitResults, whileConnected } from '../find-jobs.ts'
import { JOB_ERRORS, submitRequest } from './create-job.ts'

/**
 * POST /api/v1/verifications: a job of a few inputs, answered with its rows. It is a job like any
 * other: if it has not ended within `wait`, it goes on and the answer is that of POST /api/v1/jobs.
 */
export function createVerificationRoute (deps: IngestDeps, settings: Settings): RouteOptions {
  return {
    method: 'POST',
    url: '/api/v1/verifications',
    config: {
      // It creates a job and reads its results.
      scope: ['jobs:write', 'results:read'],
      produces: 'application/json',
      takesBody: true,
      preflight: 'keyed',
      headers: IdempotencyHeaderSchema,
      sends: {
        200: ['Location', 'Idempotent-Replayed'], 202: ['Location', 'Idempotent-Replayed'],
      },
      errors: [...JOB_ERRORS, 'results_expired', 'results_erased'],
      records: null,
      sample: {
        bodies: ['phone', 'email'],
        curl: ['-H "Idempotency-Key: $(uuidgen)"'],
        client: body => [
          `const { results, chargedMicros } = await client.verify(${body})`,
          'console.log(results[0].status, results[0].reason, chargedMicros)',
        ],
      },
    },
    schema: {
      operationId: 'createVerification',
      summary: 'Verify a few contacts and wait for the rows',
      description: `Creates a job of at most ${MAX_VERIFICATION_INPUTS} inputs and answers with ` +
        'its status resource, preflight and rows once it has ended. What has not ended within ' +
        '`wait` seconds goes on and is answered with 202, like a job. A repeated request with ' +
        'the same Idempotency-Key gets the rows of the same job.',
      tags: ['Jobs'],
      querystring: VerificationQuerySchema,
      body: CreateVerificationSchema,
      response: { 200: VerificationSchema, 202: AcceptedSchema, ...ERROR_RESPONSES },
    },
    handler: async (request, reply) => {
      const startedAt = performance.now()
      const outcome = await submitRequest(deps, settings, request)
      if ('code' in outcome) return sendError(reply, outcome)
      failpoint('verification.accepted')
      const { wait = DEFAULT_WAIT_SECONDS } = request.body as CreateVerificationBody
      const { types } = request.query as VerificationQuery
      const timeoutMs = wait * 1_000 - (performance.now() - startedAt)
      const found = await whileConnected(request, signal =>
        resultsOf(deps, { ...settings, job: outcome.job, types, timeoutMs, signal }))
      if (found === undefined) return sendAccepted(reply, outcome)
      if ('code' in found) return sendError(reply, found)
      failpoint('verification.answering')
      return sendVerified(reply, outcome, found)
    },
  }
}

/**
 * The answer with the rows, or why they cannot be read any more; undefined if the job has not ended
 * in time, or if infrastructure failed after it was accepted: then the client reads them later.
 */
async function resultsOf (
  deps: IngestDeps, awaited: AwaitedJob
): Promise<VerificationBody | ApiError | undefined> {
  try {
    const answer = await awaitResults(deps, awaited)
    const isLater = answer !== undefined && 'code' in answer &&
      answer.code === 'temporarily_unavailable'
    return isLater ? undefined : answer
  } catch (error) {
    if (deps.isInfrastructure(error)) return undefined
    throw error
  }
}
