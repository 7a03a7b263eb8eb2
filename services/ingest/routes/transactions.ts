import type { RouteOptions } from 'fastify'
import { ErrorSchema } from '../../../schemas/api/error.ts'
import {
  DEFAULT_TRANSACTIONS, TransactionListSchema, TransactionsQuerySchema, type TransactionBody,
  type TransactionsQuery,
} from '../../../schemas/api/transactions.ts'
import type { Journal } from '../../../schemas/types.ts'
import { callerOf } from '../guard.ts'
import type { IngestDeps } from '../ports.ts'
import { numbersInQuery } from '../query-numbers.ts'

const ID_PREFIX = 'txn_'

/** GET /api/v1/transactions: the movements of the caller's wallet, newest first, by pages. */
export function listTransactionsRoute (deps: IngestDeps): RouteOptions {
  return {
    method: 'GET',
    url: '/api/v1/transactions',
    config: { scope: 'jobs:read', produces: 'application/json' },
    schema: {
      operationId: 'listTransactions',
      summary: 'List the transactions of the balance, newest first',
      description: 'A copy of the journal of the balance. A transaction appears here about a ' +
        'second after it moved the balance, later during an outage, and then for ever.',
      tags: ['Account'],
      querystring: TransactionsQuerySchema,
      response: { 200: TransactionListSchema, '4xx': ErrorSchema, '5xx': ErrorSchema },
    },
    preValidation: numbersInQuery('limit'),
    handler: async (request, reply) => {
      const { limit = DEFAULT_TRANSACTIONS, after, type } = request.query as TransactionsQuery
      const before = after === undefined ? undefined : Number(after.slice(ID_PREFIX.length))
      // One more shows whether there is a next page.
      const entries = await deps.transactions(callerOf(request).tenant, {
        limit: limit + 1, before, type,
      })
      const data = entries.slice(0, limit).map(transactionBody)
      const hasMore = entries.length > limit
      return reply.send({
        data, has_more: hasMore, next_cursor: hasMore ? data.at(-1)?.id ?? null : null,
      })
    },
  }
}

/** An entry without what is internal: reasons of operators, terms and headers of jobs. */
function transactionBody (entry: Journal): TransactionBody {
  const { availableMicros, reservedMicros } = entry
  return {
    id: `${ID_PREFIX}${entry.seq}`,
    type: entry.type as TransactionBody['type'],
    amountMicros: entry.amountMicros,
    chargedMicros: entry.chargeMicros,
    availableMicros,
    reservedMicros,
    balanceMicros: availableMicros + reservedMicros,
    jobId: entry.job === '' ? null : entry.job,
    createdAt: new Date(entry.at).toISOString(),
  }
}
