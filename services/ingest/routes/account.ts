import type { RouteOptions } from 'fastify'
import { BalanceSchema } from '../../../schemas/api/balance.ts'
import { OPTION_COLUMNS } from '../../../schemas/api/columns.ts'
import { ERROR_RESPONSES } from '../../../schemas/api/error.ts'
import {
  type ChecksBody, type ServicesBody, ServicesSchema,
} from '../../../schemas/api/services.ts'
import {
  DEFAULT_TRANSACTIONS, type TransactionBody, TransactionListSchema, type TransactionsQuery,
  TransactionsQuerySchema,
} from '../../../schemas/api/transactions.ts'
import type { Journal } from '../../../schemas/types.ts'
import type { Mode } from '../../accounts/tenant.ts'
import { type Checks, limitationsOf } from '../../jobs/checks.ts'
import type { ListsManifest } from '../../jobs/lists-folder.ts'
import { offeredOptions, optionsPriceMicros } from '../../jobs/options.ts'
import { referenceDataFor } from '../../jobs/reference-data.ts'
import { unitPriceMicros } from '../../money/prices.ts'
import { SERVICE_DEFINITIONS } from '../../jobs/results/columns.ts'
import { SERVICE_SLUGS, type ServiceSlug } from '../../topology.ts'
import { callerOf } from '../guard.ts'
import type { IngestDeps } from '../ports.ts'
import { numbersInQuery } from '../query-fields.ts'
import type { Settings } from '../config.ts'

/** GET /api/v1/balance: the balance of the caller's tenant, in USD micros. */
export function getBalanceRoute (deps: IngestDeps): RouteOptions {
  return {
    method: 'GET',
    url: '/api/v1/balance',
    config: {
      scope: 'usage:read',
      produces: 'application/json',
      sample: {
        client: () => [
          'const { availableMicros } = await client.balance()',
          'console.log(availableMicros)',
        ],
      },
    },
    schema: {
      operationId: 'getBalance',
      summary: 'Read the balance',
      description: 'Integers in USD micros. Reserved is the maximum price of all running jobs.',
      tags: ['Account'],
      response: { 200: BalanceSchema, ...ERROR_RESPONSES },
    },
    handler: async (request, reply) => {
      const { availableMicros, reservedMicros } = await deps.balance(callerOf(request).tenant)
      const balanceMicros = availableMicros + reservedMicros
      return reply.send({ balanceMicros, reservedMicros, availableMicros, currency: 'USD' })
    },
  }
}

/** GET /api/v1/services: the services with their prices, checks and columns. */
export function getServicesRoute (deps: IngestDeps, settings: Settings): RouteOptions {
  return {
    method: 'GET',
    url: '/api/v1/services',
    config: {
      scope: 'jobs:read',
      produces: 'application/json',
      sample: {
        client: () => [
          'for (const service of await client.services()) {',
          '  console.log(service.slug, service.priceMicros, service.configured)',
          '}',
        ],
      },
    },
    schema: {
      operationId: 'listServices',
      summary: 'List the services',
      description: 'Prices, availability and checks depend on the mode of the key. A test key ' +
        'pays nothing, may use every service, and checks nothing.',
      tags: ['Account'],
      response: { 200: ServicesSchema, ...ERROR_RESPONSES },
    },
    handler: async (request, reply) =>
      reply.send(servicesBody(settings, callerOf(request).mode, deps.lists())),
  }
}

/** All services, as keys of this mode may use them. */
function servicesBody (
  settings: Pick<Settings, 'prices' | 'checks' | 'optionPrices' | 'providers'>, mode: Mode,
  lists?: ListsManifest
): ServicesBody {
  const { prices, checks, optionPrices } = settings
  const data = SERVICE_SLUGS.map(slug => ({
    slug,
    inputKind: SERVICE_DEFINITIONS[slug].kind,
    priceMicros: unitPriceMicros(prices, slug, mode),
    columns: [...SERVICE_DEFINITIONS[slug].columns],
    options: offeredOptions(slug, { ...settings, mode }).map(name => ({
      name,
      priceMicros: optionsPriceMicros(optionPrices, [name], mode),
      columns: [...OPTION_COLUMNS[name]],
    })),
    configured: mode === 'test' || checks.has(slug),
    ...checksBody(checks, slug, mode),
    data: referenceDataFor(SERVICE_DEFINITIONS[slug].kind, Date.now(), lists),
  }))
  return { data }
}

/** The checks of a service and their limitations; empty for test keys. */
export function checksBody (checks: Checks, slug: ServiceSlug, mode: Mode): ChecksBody {
  const active = mode === 'test' ? [] : checks.get(slug) ?? []
  return { checks: [...active], limitations: [...limitationsOf(slug, active)] }
}

const ID_PREFIX = 'txn_'

/** GET /api/v1/transactions: the movements of the caller's wallet, newest first, by pages. */
export function listTransactionsRoute (deps: IngestDeps): RouteOptions {
  return {
    method: 'GET',
    url: '/api/v1/transactions',
    config: {
      scope: 'usage:read',
      produces: 'application/json',
      sample: {
        client: () => [
          'for await (const { type, amountMicros } of client.transactions()) {',
          '  console.log(type, amountMicros)',
          '}',
        ],
      },
    },
    schema: {
      operationId: 'listTransactions',
      summary: 'List the transactions of the balance, newest first',
      description: 'A copy of the journal of the balance. A transaction appears here about a ' +
        'second after it moved the balance, later during an outage, and then for ever.',
      tags: ['Account'],
      querystring: TransactionsQuerySchema,
      response: { 200: TransactionListSchema, ...ERROR_RESPONSES },
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
