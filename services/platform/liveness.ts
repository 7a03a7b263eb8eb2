import { randomUUID } from 'node:crypto'
import type { Redis } from 'ioredis'
import { isInfrastructure } from './errors.ts'
import { retryForever } from './retry.ts'

/** A process among others that may end without a word. */
export type Liveness = {
  /** Its name, of this one life. */
  readonly own: string
  /** Whether nothing has been heard of that life for seconds: it may have ended. */
  readonly isGone: (name: string) => Promise<boolean>
  readonly stop: () => void
}

const HEARD_FOR_MS = 5_000
const SAID_EVERY_MS = 1_500

const keyOf = (name: string) => `alive:${name}`

/**
 * Says that this process lives, by a key in Redis that runs out. Resolves once that was said. One
 * that is cut off from Redis counts as gone too, so whoever acts on it must do no harm then.
 */
export async function startLiveness (
  redis: Pick<Redis, 'set' | 'exists'>, own: string = randomUUID()
): Promise<Liveness> {
  const say = async () => { await redis.set(keyOf(own), '1', 'PX', HEARD_FOR_MS) }
  await retryForever(say, { when: isInfrastructure })
  const timer = setInterval(() => { say().catch(() => {}) }, SAID_EVERY_MS).unref()
  return {
    own,
    isGone: async name => await redis.exists(keyOf(name)) === 0,
    stop: () => clearInterval(timer),
  }
}
