import type { FastifyRequest } from 'fastify'
import { createHttpsRule } from '../lib/https-rule.ts'
import { FaultError } from './errors.ts'

/** Builds the check that a request came over HTTPS, or from this machine. */
export function createHttpsCheck (trustedProxies: readonly string[]) {
  const arrivalOf = createHttpsRule(trustedProxies)

  return function requireHttps (request: FastifyRequest): void {
    if (arrivalOf(request.raw) === 'refused') throw new FaultError({ code: 'https_required' })
  }
}
