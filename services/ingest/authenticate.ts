import type { FastifyRequest } from 'fastify'
import type { Caller, Scope } from '../accounts/api-keys.ts'
import { ApiException, type ApiError } from './errors.ts'
import type { GuardedLookup } from './unknown-keys.ts'

/** Longer than any key; a longer header is refused without being read further. */
const MAX_HEADER_CHARACTERS = 256

/**
 * Who sent a request; throws the fault to answer with when its key tells nobody. The work is the
 * same for every well-formed key: one hash and one look-up by that hash, so time tells nothing
 * about a key that exists.
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

/** Throws the fault to answer with when a caller's key lacks a scope. */
export function requireScope (caller: Caller, scope: Scope): void {
  if (!caller.scopes.includes(scope)) throw new ApiException(scopeFault(scope))
}

/** The bearer secret, '' when there is none; a request with two of them has none that is valid. */
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
