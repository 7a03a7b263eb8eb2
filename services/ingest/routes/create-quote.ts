import type { FastifyReply, RouteOptions } from 'fastify'
import { CreateJobSchema } from '../../../schemas/api/create-job.ts'
import { ErrorSchema } from '../../../schemas/api/error.ts'
import { QuoteSchema } from '../../../schemas/api/quote.ts'
import type { ChecksBody } from '../../../schemas/api/services.ts'
import { MAX_BODY_BYTES, type BodyBudget } from '../body-budget.ts'
import { callerOf } from '../guard.ts'
import { reserveMemory } from '../memory-reservation.ts'
import type { Deps } from '../ports.ts'
import type { Rules } from '../rules.ts'
import { readSubmission } from '../read-submission.ts'
import { sendError } from '../reply.ts'
import { refusalError } from '../response.ts'
import { REQUEST_ERRORS } from './create-job.ts'
import { checksBody } from './get-services.ts'

/**
 * POST /api/v1/quotes: the preflight of a job, and no job. The same body, the same stages, the same
 * numbers; nothing is reserved, and what was sent can't be read by anyone afterwards.
 */
export function createQuoteRoute (deps: Deps, rules: Rules, budget: BodyBudget): RouteOptions {
  return {
    method: 'POST',
    url: '/api/v1/quotes',
    bodyLimit: MAX_BODY_BYTES,
    config: {
      scope: 'jobs:write',
      produces: 'application/json',
      takesBody: true,
      preflight: 'keyless',
      errors: [...REQUEST_ERRORS, 'insufficient_balance', 'too_many_preflights'],
    },
    schema: {
      operationId: 'createQuote',
      summary: 'Quote a job without creating it',
      description: 'Takes the body of a job and answers with its preflight. Nothing is reserved, ' +
        'the quote cannot be redeemed, and the rows are unreadable as soon as it is answered. ' +
        '`limitations` says what the checks of the service leave open.',
      tags: ['Quotes'],
      body: CreateJobSchema,
      response: { 200: QuoteSchema, '4xx': ErrorSchema, '5xx': ErrorSchema },
    },
    ...reserveMemory(budget, rules.bodyThroughput),
    handler: async (request, reply) => {
      // A quote changes nothing, so it needs no key to be asked for again.
      const read = readSubmission(request, rules, '')
      if ('code' in read) return sendError(reply, read)
      const { service } = read
      const checks = checksBody(rules.checks, service, callerOf(request).mode)
      return sendQuote(reply, { service, ...checks }, await deps.quote(read))
    },
  }
}

function sendQuote (
  reply: FastifyReply, service: ChecksBody & { readonly service: string },
  quoted: Awaited<ReturnType<Deps['quote']>>
): FastifyReply {
  if (quoted.kind === 'refused') return sendError(reply, refusalError(quoted))
  return reply.send({
    preflight: quoted.preflight,
    ...service,
    redeemable: false,
    expiresAt: new Date(quoted.forgetAtMs).toISOString(),
  })
}
