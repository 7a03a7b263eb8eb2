import type { RouteOptions } from 'fastify'
import {
  BalanceSchema, DEFAULT_TRANSACTIONS, DEFAULT_USAGE_DAYS, DEFAULT_USAGE_GROUP, MAX_USAGE_DAYS,
  type TransactionBody, TransactionListSchema, type TransactionsQuery, TransactionsQuerySchema,
  type UsageBody, UsageCsvSchema, type UsageQuery, UsageQuerySchema, UsageSchema,
} from '../../../schemas/api/account.ts'
import { OPTION_COLUMNS } from '../../../schemas/api/columns.ts'
import { USAGE_COUNTERS } from '../../../schemas/api/job.ts'
import {
  type ChecksBody, type ServicesBody, ServicesSchema,
} from '../../../schemas/api/services.ts'
import type { Journal } from '../../../schemas/types.ts'
import type { Mode } from '../../accounts/tenant.ts'
import { type Checks, listLimitations } from '../../jobs/checks.ts'
import type { ListsManifest } from '../../jobs/lists-folder.ts'
import { offeredOptions, optionsPriceMicros } from '../../jobs/options.ts'
import { referenceDataFor } from '../../jobs/reference-data.ts'
import { cutPage } from '../../money/journal.ts'
import { unitPriceMicros } from '../../money/prices.ts'
import { SERVICE_DEFINITIONS } from '../../jobs/results/columns.ts'
import { SERVICE_SLUGS, type ServiceSlug } from '../../topology.ts'
import { requireCaller } from '../guard.ts'
import type { IngestDeps } from '../deps.ts'
import { invalidTime, timeRange } from '../request.ts'
import type { Settings } from '../config.ts'
import { ROW_STATUSES } from '../../../schemas/api/verdicts.ts'
import { csvLine } from '../../jobs/results/csv.ts'
import type { UsageOptions } from '../../jobs/results/archive.ts'
import { chooseForm } from '../response.ts'

/** GET /api/v1/balance: the balance of the caller's tenant, in USD micros. */
export function getBalanceRoute (deps: IngestDeps): RouteOptions {
  return {
    method: 'GET',
    url: '/api/v1/balance',
    config: {
      scope: 'usage:read',
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
      response: { 200: BalanceSchema },
    },
    handler: async (request, reply) => {
      const { availableMicros, reservedMicros } = await deps.balance(requireCaller(request).tenant)
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
      response: { 200: ServicesSchema },
    },
    handler: async (request, reply) =>
      reply.send(servicesBody(settings, requireCaller(request).mode, deps.lists())),
  }
}

/** All services, as keys of this mode may use them. */
function servicesBody (
  settings: Settings, mode: Mode, lists: ListsManifest | undefined
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
  return { checks: [...active], limitations: [...listLimitations(slug, active)] }
}

const ID_PREFIX = 'txn_'

/** GET /api/v1/transactions: the movements of the caller's wallet, newest first, by pages. */
export function listTransactionsRoute (deps: IngestDeps): RouteOptions {
  return {
    method: 'GET',
    url: '/api/v1/transactions',
    config: {
      scope: 'usage:read',
      yields: { '/api/v1/jobs/{id}': '/data/0/jobId' },
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
      description: 'A copy of the journal of the balance. A transaction appears here within ' +
        'about 3 seconds of moving the balance, a top-up or correction within 7, later during an ' +
        'outage, and then for ever.',
      tags: ['Account'],
      querystring: TransactionsQuerySchema,
      response: { 200: TransactionListSchema },
    },
    handler: async (request, reply) => {
      const { limit = DEFAULT_TRANSACTIONS, after, type } = request.query as TransactionsQuery
      const before = after === undefined ? undefined : Number(after.slice(ID_PREFIX.length))
      // One more shows whether there is a next page.
      const entries = await deps.transactions(requireCaller(request).tenant, {
        limit: limit + 1, before, type,
      })
      const data = cutPage(entries, limit).map(transactionBody)
      const hasMore = entries.length > data.length
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

const DAY_MS = 86_400_000
const TYPES = { json: 'application/json', csv: 'text/csv' } as const

/** GET /api/v1/usage: jobs, rows and money of the caller's tenant by day, service or key. */
export function getUsageRoute (deps: IngestDeps): RouteOptions {
  return {
    method: 'GET',
    url: '/api/v1/usage',
    config: {
      scope: 'usage:read',
      produces: Object.values(TYPES),
      errors: ['invalid_request', 'not_acceptable'],
      sample: {
        query: '?from=2026-08-01&group_by=day,service&format=csv',
        client: () => [
          'const { data } = await client.usage({ group_by: \'day,service\' })',
          'for (const group of data) console.log(group.day, group.service, group.chargedMicros)',
        ],
      },
    },
    schema: {
      operationId: 'getUsage',
      summary: 'Read the usage by day, service or key',
      description: 'Jobs that have ended, by the time of their creation. A job appears within ' +
        'seconds of its end, and stays when it is erased.',
      tags: ['Account'],
      querystring: UsageQuerySchema,
      response: {
        200: {
          content: {
            'application/json': { schema: UsageSchema },
            'text/csv': { schema: UsageCsvSchema },
          },
        },
      },
    },
    handler: async (request, reply) => {
      const query = request.query as UsageQuery
      const form = chooseForm(TYPES, request.headers.accept, query)
      const options = toOptions(query, deps.now())
      const usage = await deps.usage(requireCaller(request).tenant, options)
      if (usage.kind === 'too_many') {
        throw invalidTime('from', 'is too early: there are more than ' +
          `${usage.maxJobs.toLocaleString('en-US')} jobs until "to". Ask for a shorter time.`)
      }
      const { groups, total } = usage
      const { fromMs, toMs, groupBy } = options
      const body: UsageBody = {
        from: new Date(fromMs).toISOString(),
        to: new Date(toMs).toISOString(),
        group_by: [...groupBy],
        data: [...groups],
        total,
      }
      reply.header('vary', 'Accept')
      if (form === 'json') return reply.send(body)
      return reply.type('text/csv; charset=utf-8; header=present')
        .header('content-disposition', 'attachment; filename="usage.csv"')
        .send(toCsv(body))
    },
  }
}

/** @throws ApiException `invalid_request` for a range that is too long, or an invalid time. */
function toOptions (query: UsageQuery, nowMs: number): UsageOptions {
  const { fromMs, toMs = nowMs } = timeRange(query, { from: 'from', to: 'to' })
  const since = fromMs ?? startOfDay(toMs - 1) - (DEFAULT_USAGE_DAYS - 1) * DAY_MS
  if (since >= toMs) throw invalidTime('from', 'must be before "to", which is now by default.')
  if (toMs - since > MAX_USAGE_DAYS * DAY_MS) {
    throw invalidTime('from', `must be at most ${MAX_USAGE_DAYS} days before "to".`)
  }
  const groupBy = (query.group_by ?? DEFAULT_USAGE_GROUP).split(',') as UsageOptions['groupBy']
  return { fromMs: since, toMs, groupBy: [...new Set(groupBy)] }
}

const startOfDay = (ms: number) => ms - ms % DAY_MS

const CSV_COUNTS = [
  'jobs', 'totalRows', ...USAGE_COUNTERS, 'successRecords', 'failedRecords', 'chargedMicros',
] as const

function toCsv ({ group_by: groupBy, data }: UsageBody): string {
  const columns = [...groupBy, ...CSV_COUNTS]
  const lines = data.map(group => [
    ...columns.map(name => String(group[name] ?? '')),
    ...ROW_STATUSES.map(status => String(group.verdicts[status])),
  ])
  return [[...columns, ...ROW_STATUSES], ...lines].map(cells => csvLine(cells)).join('')
}
