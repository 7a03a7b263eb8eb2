import { integer } from '../money/outbox.ts'
import { cursorsKeyOf } from './redis-keys.ts'
import type { RedisClient } from '../runtime/platform/redis.ts'

/** A partition of a partner's topic. */
export type FeedPartition = {
  readonly tenant: string
  readonly partner: string
  readonly partition: number
}

/** The position of each cursor that has moved: the offset of the last contact in a job. */
export type CursorPositions = ReadonlyMap<string, number>

/** The position of a cursor that has never moved. */
export const BEGINNING = -1

export type Cursors = { readonly read: (partition: FeedPartition) => Promise<CursorPositions> }

/** The feed cursors in Redis; only `accept` moves them. */
export function createCursors (redis: RedisClient): Cursors {
  return {
    read: async ({ tenant, ...partition }) => {
      const fields = await redis.hgetall(cursorsKeyOf(tenant, partition))
      return new Map(Object.entries(fields).map(([cursor, offset]) => [cursor, integer(offset)]))
    },
  }
}
