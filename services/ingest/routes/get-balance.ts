import type { RouteOptions } from 'fastify'
import { BalanceSchema } from '../../../schemas/api/balance.ts'
import { ErrorSchema } from '../../../schemas/api/error.ts'
import { callerOf } from '../guard.ts'
import type { Deps } from '../ports.ts'

/** GET /api/v1/balance: the balance of the caller's tenant, in USD micros. */
export function getBalanceRoute (deps: Deps): RouteOptions {
  return {
    method: 'GET',
    url: '/api/v1/balance',
    config: { scope: 'jobs:read', produces: 'application/json' },
    schema: {
      operationId: 'getBalance',
      summary: 'Read the balance',
      description: 'Integers in USD micros. Reserved is the maximum price of all running jobs.',
      tags: ['Account'],
      response: { 200: BalanceSchema, '4xx': ErrorSchema, '5xx': ErrorSchema },
    },
    handler: async (request, reply) => {
      const { availableMicros, reservedMicros } = await deps.balance(callerOf(request).tenant)
      const balanceMicros = availableMicros + reservedMicros
      return reply.send({ balanceMicros, reservedMicros, availableMicros, currency: 'USD' })
    },
  }
}
