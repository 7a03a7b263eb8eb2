import type { FastifyReply, FastifyRequest } from 'fastify'
import { createHttpsRule } from '../platform/https-rule.ts'
import { ApiException } from './errors.ts'

/** RFC 6797: for a year browsers use HTTPS only. */
const HSTS = { 'strict-transport-security': 'max-age=31536000' }

/**
 * Creates the check that a request came over HTTPS, or from this machine. Every response over HTTPS
 * has the HSTS header.
 */
export function createHttpsCheck (trustedProxies: readonly string[]) {
  const arrivalOf = createHttpsRule(trustedProxies)

  return function requireHttps (request: FastifyRequest, reply: FastifyReply): void {
    const arrival = arrivalOf(request.raw)
    if (arrival === 'refused') throw new ApiException({ code: 'https_required' })
    if (arrival === 'https') reply.headers(HSTS)
  }
}
