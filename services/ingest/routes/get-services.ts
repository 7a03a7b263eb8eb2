import type { RouteOptions } from 'fastify'
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
import type { Rules } from '../rules.ts'

/** GET /api/v1/services: what can be verified, at which price, with which columns. */
export function getServicesRoute (rules: Rules): RouteOptions {
  return {
    method: 'GET',
    url: '/api/v1/services',
    config: { scope: 'jobs:read', produces: 'application/json' },
    schema: {
      operationId: 'listServices',
      summary: 'List the services',
      description: 'Prices, availability and checks are those of the mode of the key: a test key ' +
        'pays nothing and may use every service, and nothing is checked for it.',
      tags: ['Account'],
      response: { 200: ServicesSchema, '4xx': ErrorSchema, '5xx': ErrorSchema },
    },
    handler: async (request, reply) => reply.send(servicesBody(rules, callerOf(request).mode)),
  }
}

/** Every service, as keys of this mode may use it. */
export function servicesBody (
  { prices, checks }: Pick<Rules, 'prices' | 'checks'>, mode: Mode
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

/** What is checked of a service's contacts, and what that leaves open; nothing for test keys. */
export function checksBody (checks: Checks, slug: ServiceSlug, mode: Mode): ChecksBody {
  const made = mode === 'test' ? [] : checks.get(slug) ?? []
  return { checks: [...made], limitations: [...limitationsOf(slug, made)] }
}
