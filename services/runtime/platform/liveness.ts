import { randomUUID } from 'node:crypto'
import type { Redis } from 'ioredis'
import { isInfrastructure } from './errors.ts'
import { retryForever } from './retry.ts'

/** The heartbeat of this process, and a check of the heartbeats of others. */
export type Liveness = {
  /** The id of this process; a restarted process has another one. */
  readonly own: string
  /** Whether the heartbeat of a process has expired: it may have crashed. */
  readonly isGone: (name: string) => Promise<boolean>
  readonly stop: () => void
}

const EXPIRES_AFTER_MS = 5_000
const HEARTBEAT_MS = 1_500

const keyOf = (name: string) => `alive:${name}`

/**
 * Starts a heartbeat: a key in Redis that expires. Resolves after the first one. A process without
 * a connection to Redis counts as gone too, so recovery of its work must be safe while it runs.
 */
export async function startLiveness (
  redis: Pick<Redis, 'set' | 'exists'>, own: string = randomUUID()
): Promise<Liveness> {
  const beat = async () => { await redis.set(keyOf(own), '1', 'PX', EXPIRES_AFTER_MS) }
  await retryForever(beat, { when: isInfrastructure })
  const timer = setInterval(() => { beat().catch(() => {}) }, HEARTBEAT_MS).unref()
  return {
    own,
    isGone: async name => await redis.exists(keyOf(name)) === 0,
    stop: () => clearInterval(timer),
  }
}
