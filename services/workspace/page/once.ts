import type { Redis } from 'ioredis'
import { digestOf, newSecret } from './sign-in-codes.ts'

export type Once = ReturnType<typeof createOnce>

const KEPT_MS = 3_600_000

/**
 * Forms that make a secret carry a mark that is good for one time, so that a page that is loaded
 * again makes no second one.
 */
export function createOnce (redis: Pick<Redis, 'set'>) {
  return {
    mark: newSecret,

    /** True the first time a mark is used. */
    async use (mark: string): Promise<boolean> {
      const key = `page:once:${digestOf(mark)}`
      return mark !== '' && await redis.set(key, '1', 'PX', KEPT_MS, 'NX') !== null
    },
  }
}
