import type { Redis } from 'ioredis'
import { expect } from 'vitest'

/** Clocks of two programs may differ by a little, under any load of the machine. */
export const CLOCKS_MS = 1_000

/**
 * Has something done, and checks that a key lives so long from then on: from a moment while that
 * was done, however long it took.
 */
export async function expectLifetime<T> (
  redis: Redis,
  { key, ms }: { readonly key: string | ((done: T) => string), readonly ms: number },
  work: () => Promise<T>
): Promise<T> {
  const beganMs = Date.now()
  const done = await work()
  const endedMs = Date.now()
  const endsMs = await redis.pexpiretime(typeof key === 'string' ? key : key(done))
  expect(endsMs).toBeGreaterThanOrEqual(beganMs + ms - CLOCKS_MS)
  expect(endsMs).toBeLessThanOrEqual(endedMs + ms + CLOCKS_MS)
  return done
}
