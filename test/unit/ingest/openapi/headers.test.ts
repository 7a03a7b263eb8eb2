import type { RouteOptions } from 'fastify'
import { describe, expect, it } from 'vitest'
import {
  commonHeaders, errorHeaders, successHeaders,
} from '../../../../services/ingest/openapi/describe.ts'

const routeOf = (more: Partial<RouteOptions>): RouteOptions =>
  ({ method: 'GET', url: '/', handler: async () => '', ...more })

describe('the described headers', () => {
  it('of a limited operation state its limits, of a deprecated one its sunset', () => {
    expect(Object.keys(commonHeaders(routeOf({})))).toEqual(['X-Request-Id', 'API-Version'])
    const limited = routeOf({ config: { scope: 'jobs:read' }, schema: { deprecated: true } })
    expect(Object.keys(commonHeaders(limited))).toEqual([
      'X-Request-Id', 'API-Version', 'RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset',
      'RateLimit-Policy', 'Retry-After', 'Deprecation', 'Sunset', 'Link',
    ])
  })

  it('of an error state how to proceed', () => {
    expect(Object.keys(errorHeaders(['missing_key', 'invalid_key']))).toEqual(['WWW-Authenticate'])
    for (const code of ['rate_limited', 'temporarily_unavailable', 'job_not_completed'] as const) {
      expect(Object.keys(errorHeaders([code]))).toEqual(['Retry-After'])
    }
    expect(errorHeaders(['job_not_cancellable'])).toEqual({})
  })

  it('of a success are those of its operation', () => {
    const created = routeOf({ schema: { operationId: 'createJob' } })
    expect(Object.keys(successHeaders(202, created))).toEqual(['Location', 'Idempotent-Replayed'])
    const results = routeOf({ schema: { operationId: 'getResults' } })
    expect(Object.keys(successHeaders(304, results))).toEqual(['ETag', 'Vary'])
    expect(successHeaders(200, routeOf({}))).toEqual({})
  })
})
