import type { FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import type { Caller, KeyLookup } from '../accounts/api-keys.ts'
import {
  hashOf, hasScope, isWellFormed, scopesThatAllow, type Scope,
} from '../accounts/key-store.ts'
import { clientNetwork } from '../runtime/platform/networks.ts'
import { ApiException, type ApiError } from './errors.ts'

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
  const lookup = await findKey(secretOf(request), request.clientAddress)
  if (lookup.kind === 'throttled') {
    throw new ApiException({
      code: 'rate_limited',
      message: 'Too many requests with unknown API keys came from this address. Check the key, ' +
        'and wait at least the seconds in Retry-After.',
      retryAfterSeconds: lookup.retryAfterSeconds,
    })
  }
  if (lookup.kind === 'foreign_address') throw new ApiException(addressFault(request.clientAddress))
  if (lookup.kind !== 'ok') throw new ApiException({ code: `${lookup.kind}_key` })
  return lookup.key
}

/** @throws ApiException if the key lacks a scope. */
export function requireScopes (caller: Caller, scopes: readonly Scope[]): void {
  const missing = scopes.find(scope => !hasScope(caller.scopes, scope))
  if (missing !== undefined) throw new ApiException(scopeFault(missing))
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
  const names = scopesThatAllow(scope).join(' or ')
  return {
    code: 'insufficient_scope',
    message: `The API key lacks the scope ${names}. Use a key that has it.`,
  }
}

function addressFault (address: string): ApiError {
  return {
    code: 'address_not_allowed',
    message: `The API key may not be used from the address ${address}. Send the request from one ` +
      'of its networks, or add this one to a new key in the workspace.',
  }
}

/** The result of a lookup, or how long the client must wait before its next one. */
type GuardedLookup = KeyLookup | {
  readonly kind: 'throttled', readonly retryAfterSeconds: number
}

type FindKey = (secret: string, address: string) => Promise<KeyLookup>

const WINDOW_MS = 60_000
/** A client above this limit guesses keys. */
const MAX_UNKNOWN = 60
/** Maximum numbers of tracked clients and keys; the least recently used are forgotten. */
const REMEMBERED = { clients: 50_000, keys: 10_000 } as const

/**
 * Looks up keys and limits each client to 60 unknown well-formed keys per minute, because each
 * costs a read of Redis. Above the limit only recently valid keys are looked up, so that other
 * users of the same address are not affected.
 */
export function createKeyGuard (
  findKey: FindKey, now: () => number = () => performance.now()
): (secret: string, address: string) => Promise<GuardedLookup> {
  const clock = { perf: { now }, ttlResolution: 0 }
  const unknown = new LRUCache<string, number>({
    max: REMEMBERED.clients, ttl: WINDOW_MS, noUpdateTTL: true, ...clock,
  })
  const known = new LRUCache<string, true>({ max: REMEMBERED.keys, ttl: 10 * WINDOW_MS, ...clock })
  return async (secret, address) => {
    if (!isWellFormed(secret)) return await findKey(secret, address)
    const client = clientNetwork(address)
    const hash = hashOf(secret)
    if ((unknown.get(client) ?? 0) >= MAX_UNKNOWN && !known.has(hash)) {
      const leftMs = unknown.getRemainingTTL(client)
      return { kind: 'throttled', retryAfterSeconds: Math.max(1, Math.ceil(leftMs / 1_000)) }
    }
    const lookup = await findKey(secret, address)
    if (lookup.kind === 'ok') known.set(hash, true)
    else if (lookup.kind !== 'foreign_address') known.delete(hash)
    if (lookup.kind === 'invalid') unknown.set(client, (unknown.get(client) ?? 0) + 1)
    return lookup
  }
}
