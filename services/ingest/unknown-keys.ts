import { LRUCache } from 'lru-cache'
import type { KeyLookup } from '../accounts/api-keys.ts'
import { hashOf, isWellFormed } from '../accounts/key-format.ts'
import { clientNetwork } from '../platform/networks.ts'

/** What a look-up gives, or that a client has to wait before its next one. */
export type GuardedLookup = KeyLookup | {
  readonly kind: 'throttled', readonly retryAfterSeconds: number
}

export type FindKey = (secret: string) => Promise<KeyLookup>

const WINDOW_MS = 60_000
/** Beyond that a client does not mistype keys but guesses them. */
const MAX_UNKNOWN = 60
/** Clients that guess, and keys that are known; of more the least lately seen are forgotten. */
const REMEMBERED = { clients: 50_000, keys: 10_000 } as const

/**
 * Looks keys up, of which a client may send 60 a minute that look well and are none: each costs a
 * read of Redis. Beyond that only keys that were good lately are looked up, so that whoever shares
 * its address with one who guesses goes on working.
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
    if (!isWellFormed(secret)) return await findKey(secret)
    const client = clientNetwork(address)
    const hash = hashOf(secret)
    if ((unknown.get(client) ?? 0) >= MAX_UNKNOWN && !known.has(hash)) {
      const leftMs = unknown.getRemainingTTL(client)
      return { kind: 'throttled', retryAfterSeconds: Math.max(1, Math.ceil(leftMs / 1_000)) }
    }
    const lookup = await findKey(secret)
    if (lookup.kind === 'ok') known.set(hash, true)
    else known.delete(hash)
    if (lookup.kind === 'invalid') unknown.set(client, (unknown.get(client) ?? 0) + 1)
    return lookup
  }
}
