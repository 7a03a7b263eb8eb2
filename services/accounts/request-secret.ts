import type { Redis } from 'ioredis'
import type { KeyRing, Wrapped } from '../crypto/key-ring.ts'
import { createCompareAndSet } from '../platform/compare-and-set.ts'

type Options = { readonly redis: Redis, readonly ring: Pick<KeyRing, 'wrap' | 'unwrap'> }

export type RequestSecret = ReturnType<typeof createRequestSecret>

const KEY = 'secret:requests'
const BINDING = ['request-secret']

/**
 * The secret that requests with the same Idempotency-Key are told apart by. It is one for all who
 * take requests, whatever keys their ring has: it stands in Redis, wrapped like any other.
 */
export function createRequestSecret ({ redis, ring }: Options) {
  const swap = createCompareAndSet(redis)
  return {
    /** The secret; `first` becomes it when there is none yet. */
    async obtain (first: Buffer): Promise<Buffer> {
      await redis.set(KEY, ring.wrap(first, BINDING).toString('base64'), 'NX')
      return ring.unwrap(Buffer.from(await redis.get(KEY) ?? '', 'base64'), BINDING)
    },

    /** As the ring wraps it; nothing before it was first obtained. */
    async wrapped (): Promise<Wrapped[]> {
      const text = await redis.get(KEY)
      if (text === null) return []
      const replace = (fresh: Buffer) => swap(KEY, text, fresh.toString('base64'))
      return [{ bytes: Buffer.from(text, 'base64'), binding: BINDING, replace }]
    },
  }
}
