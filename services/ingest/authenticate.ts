import type { FastifyRequest } from 'fastify'
import type { Caller, Scope } from '../accounts/api-keys.ts'
import { ApiException, type ApiError } from './errors.ts'
import type { GuardedLookup } from './unknown-keys.ts'

/** Longer than any key; a longer header is rejected without being parsed. */
const MAX_HEADER_CHARACTERS = 256

/**
 * The caller of a request.
 * @throws ApiException for an invalid key. Every well-formed key costs the same, one hash and one
 * lookup by that hash, so the response time reveals nothing about existing keys.
 */
export async function authenticate (
  request: FastifyRequest, findKey: (secret: string, address: string) => Promise<GuardedLookup>
): Promise<Caller> {
  const lookup = await findKey(secretOf(request), request.ip)
  if (lookup.kind === 'throttled') {
    throw new ApiException({
      code: 'rate_limited',
      message: 'Too many requests with unknown API keys came from this address. Check the key, ' +
        'and wait at least the seconds in Retry-After.',
      retryAfterSeconds: lookup.retryAfterSeconds,
    })
  }
  if (lookup.kind !== 'ok') throw new ApiException({ code: `${lookup.kind}_key` })
  return lookup.key
}

/** @throws ApiException if the key lacks the scope. */
export function requireScope (caller: Caller, scope: Scope): void {
  if (!caller.scopes.includes(scope)) throw new ApiException(scopeFault(scope))
}

/** The bearer secret, '' without one; a request with two Authorization headers is malformed. */
function secretOf (request: FastifyRequest): string {
  const names = request.raw.rawHeaders.filter((_text, index) => index % 2 === 0)
  const sent = names.filter(name => name.toLowerCase() === 'authorization').length
  const header = request.headers.authorization ?? ''
  if (header === '') return ''
  if (sent > 1 || header.length > MAX_HEADER_CHARACTERS) return 'malformed'
  return /^Bearer +(\S+)$/i.exec(header)?.[1] ?? 'malformed'
}

function scopeFault (scope: Scope): ApiError {
  return {
    code: 'insufficient_scope',
    message: `The API key lacks the scope ${scope}. Use a key that has it.`,
  }
}
