import { LRUCache } from 'lru-cache'
import type { KeyLookup } from '../accounts/api-keys.ts'
import { hashOf, isWellFormed } from '../accounts/key-format.ts'
import { clientNetwork } from '../platform/networks.ts'

/** The result of a lookup, or how long the client must wait before its next one. */
export type GuardedLookup = KeyLookup | {
  readonly kind: 'throttled', readonly retryAfterSeconds: number
}

export type FindKey = (secret: string) => Promise<KeyLookup>

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
