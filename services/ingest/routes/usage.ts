import type { FastifyRequest, RouteOptions } from 'fastify'
import { ERROR_RESPONSES } from '../../../schemas/api/error.ts'
import {
  DEFAULT_USAGE_DAYS, DEFAULT_USAGE_GROUP, MAX_USAGE_DAYS, USAGE_COUNTERS, type UsageBody,
  type UsageQuery, UsageCsvSchema, UsageQuerySchema, UsageSchema,
} from '../../../schemas/api/usage.ts'
import { ROW_STATUSES } from '../../../schemas/api/verdicts.ts'
import { csvLine } from '../../jobs/results/csv.ts'
import type { UsageOptions } from '../../jobs/results/usage.ts'
import { callerOf } from '../guard.ts'
import { accepts, preferred } from '../negotiation.ts'
import type { IngestDeps } from '../ports.ts'
import { invalidTime, timeRange } from '../query-fields.ts'
import { sendError } from '../response.ts'

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
        ...ERROR_RESPONSES,
      },
    },
    handler: async (request, reply) => {
      const query = request.query as UsageQuery
      const form = formOf(request, query)
      if (form === undefined) {
        const available = query.format === undefined ? Object.values(TYPES) : [TYPES[query.format]]
        return sendError(reply, { code: 'not_acceptable', more: { available } })
      }
      const options = optionsOf(query, deps.now())
      const usage = await deps.usage(callerOf(request).tenant, options)
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
        .send(csvOf(body))
    },
  }
}

type Form = keyof typeof TYPES

function formOf (request: FastifyRequest, { format }: UsageQuery): Form | undefined {
  const { accept } = request.headers
  if (format !== undefined) return accepts(accept, TYPES[format]) ? format : undefined
  const type = preferred(accept, Object.values(TYPES))
  return (Object.keys(TYPES) as Form[]).find(name => TYPES[name] === type)
}

/** @throws ApiException `invalid_request` for a range that is too long, or an invalid time. */
function optionsOf (query: UsageQuery, nowMs: number): UsageOptions {
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

function csvOf ({ group_by: groupBy, data }: UsageBody): string {
  const columns = [...groupBy, ...CSV_COUNTS]
  const lines = data.map(group => [
    ...columns.map(name => String(group[name] ?? '')),
    ...ROW_STATUSES.map(status => String(group.verdicts[status])),
  ])
  return [[...columns, ...ROW_STATUSES], ...lines].map(cells => csvLine(cells)).join('')
}
