import type { RouteOptions } from 'fastify'
import { MAX_BODY_BYTES } from '../../../schemas/api/create-job.ts'
import { ERROR_RESPONSES } from '../../../schemas/api/error.ts'
import {
  type CreateQuoteBody, CreateQuoteSchema, MAX_SAMPLE_ROWS, QuoteSchema,
} from '../../../schemas/api/quote.ts'
import type { FairPool } from '../../runtime/platform/limits.ts'
import { callerOf } from '../guard.ts'
import { reserveMemory } from '../body.ts'
import type { IngestDeps } from '../ports.ts'
import type { Settings } from '../config.ts'
import { estimate } from '../estimate.ts'
import { whileConnected } from '../find-jobs.ts'
import { readSubmission } from '../request.ts'
import { sendError, refusalError } from '../response.ts'
import { checksBody } from './account.ts'
import { REQUEST_ERRORS } from './create-job.ts'

/**
 * POST /api/v1/quotes: the preflight of a job, without a job. It takes the same body and passes the
 * same stages. Nothing is reserved, and the rows are unreadable afterwards.
 */
export function createQuoteRoute (
  deps: IngestDeps, settings: Settings, budget: FairPool
): RouteOptions {
  return {
    method: 'POST',
    url: '/api/v1/quotes',
    bodyLimit: MAX_BODY_BYTES,
    config: {
      scope: 'jobs:write',
      produces: 'application/json',
      takesBody: true,
      takesFile: 'contacts',
      preflight: 'keyless',
      errors: [...REQUEST_ERRORS, 'insufficient_balance', 'too_many_preflights'],
      records: null,
      sample: {
        bodies: ['phones'],
        client: body => [
          `const { preflight } = await client.quote(${body})`,
          'console.log(preflight.freshChecks, preflight.maxQuoteMicros)',
        ],
      },
    },
    schema: {
      operationId: 'createQuote',
      summary: 'Quote a job without creating it',
      description: 'Takes the body of a job and answers with its preflight. Nothing is reserved, ' +
        'the quote cannot be redeemed, and the rows are unreadable after the answer. ' +
        '`limitations` lists what the checks of the service cannot tell. With `sample`, up to ' +
        `${MAX_SAMPLE_ROWS} contacts of the list are verified free, once in 24 hours, and the ` +
        'answer has the expected shares of verdicts, but no rows.',
      tags: ['Quotes'],
      body: CreateQuoteSchema,
      response: { 200: QuoteSchema, ...ERROR_RESPONSES },
    },
    ...reserveMemory(budget, settings.bodyThroughput),
    handler: async (request, reply) => {
      // A quote changes nothing, so it can be repeated without a key.
      const read = readSubmission(request, settings)
      if ('code' in read) return sendError(reply, read)
      const { service } = read
      const checks = checksBody(settings.checks, service, callerOf(request).mode)
      const { sample = false } = request.body as CreateQuoteBody
      const submission = { ...read, sample }
      const quoted = await deps.quote(submission)
      if (quoted.kind === 'refused') return sendError(reply, refusalError(quoted))
      const { preflight, expiresAtMs } = quoted
      const estimated = sample
        ? await whileConnected(request, signal => estimate(deps, { submission, quoted, signal }))
        : undefined
      if (estimated !== undefined) deps.onEstimate(estimated)
      return reply.send({
        preflight,
        service,
        ...checks,
        redeemable: false,
        expiresAt: new Date(expiresAtMs).toISOString(),
        ...estimated && { estimate: estimated },
      })
    },
  }
}
