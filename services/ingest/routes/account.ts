import type { RouteOptions } from 'fastify'
import { BalanceSchema } from '../../../schemas/api/balance.ts'
import { ErrorSchema } from '../../../schemas/api/error.ts'
import {
  ServicesSchema, type ChecksBody, type ServicesBody,
} from '../../../schemas/api/services.ts'
import type { Mode } from '../../accounts/tenant.ts'
import { limitationsOf, type Checks } from '../../jobs/checks.ts'
import { unitPriceMicros } from '../../money/prices.ts'
import { SERVICES } from '../../results/columns.ts'
import { SERVICE_SLUGS, type ServiceSlug } from '../../topology.ts'
import { callerOf } from '../guard.ts'
import type { IngestDeps } from '../ports.ts'
import type { Settings } from '../config.ts'

/** GET /api/v1/balance: the balance of the caller's tenant, in USD micros. */
export function getBalanceRoute (deps: IngestDeps): RouteOptions {
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

/** GET /api/v1/services: the services with their prices, checks and columns. */
export function getServicesRoute (settings: Settings): RouteOptions {
  return {
    method: 'GET',
    url: '/api/v1/services',
    config: { scope: 'jobs:read', produces: 'application/json' },
    schema: {
      operationId: 'listServices',
      summary: 'List the services',
      description: 'Prices, availability and checks depend on the mode of the key. A test key ' +
        'pays nothing, may use every service, and checks nothing.',
      tags: ['Account'],
      response: { 200: ServicesSchema, '4xx': ErrorSchema, '5xx': ErrorSchema },
    },
    handler: async (request, reply) => reply.send(servicesBody(settings, callerOf(request).mode)),
  }
}

/** All services, as keys of this mode may use them. */
export function servicesBody (
  { prices, checks }: Pick<Settings, 'prices' | 'checks'>, mode: Mode
): ServicesBody {
  const data = SERVICE_SLUGS.map(slug => ({
    slug,
    inputKind: SERVICES[slug].kind,
    priceMicros: unitPriceMicros(prices, slug, mode),
    columns: [...SERVICES[slug].columns],
    configured: mode === 'test' || checks.has(slug),
    ...checksBody(checks, slug, mode),
  }))
  return { data }
}

/** The checks of a service and their limitations; empty for test keys. */
export function checksBody (checks: Checks, slug: ServiceSlug, mode: Mode): ChecksBody {
  const active = mode === 'test' ? [] : checks.get(slug) ?? []
  return { checks: [...active], limitations: [...limitationsOf(slug, active)] }
}
