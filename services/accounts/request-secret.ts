import type { Redis } from 'ioredis'
import type { KeyRing, Wrapped } from '../crypto/key-ring.ts'
import { createCompareAndSet } from '../platform/redis.ts'

type Options = { readonly redis: Redis, readonly ring: Pick<KeyRing, 'wrap' | 'unwrap'> }

export type RequestSecret = ReturnType<typeof createRequestSecret>

const KEY = 'secret:requests'
const BINDING = ['request-secret']

/**
 * The secret of the fingerprints of requests with an Idempotency-Key. All processes share it, so it
 * is stored in Redis, wrapped by the key ring.
 */
export function createRequestSecret ({ redis, ring }: Options) {
  const compareAndSet = createCompareAndSet(redis)
  return {
    /** Returns the secret; stores `first` as the secret if there is none yet. */
    async obtain (first: Buffer): Promise<Buffer> {
      await redis.set(KEY, ring.wrap(first, BINDING).toString('base64'), 'NX')
      return ring.unwrap(Buffer.from(await redis.get(KEY) ?? '', 'base64'), BINDING)
    },

    /** The wrapped secret; empty before the first `obtain`. */
    async wrapped (): Promise<Wrapped[]> {
      const text = await redis.get(KEY)
      if (text === null) return []
      const replace = (fresh: Buffer) => compareAndSet(KEY, text, fresh.toString('base64'))
      return [{ bytes: Buffer.from(text, 'base64'), binding: BINDING, replace }]
    },
  }
}
