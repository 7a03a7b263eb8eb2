import type { Redis } from 'ioredis'
import { integer } from '../money/outbox.ts'
import { cursorsKeyOf } from './redis-keys.ts'

/** A partition of a partner's topic. */
export type FeedPartition = {
  readonly tenant: string
  readonly partner: string
  readonly partition: number
}

/** Where every cursor stands that has moved: the offset of the last contact a job took. */
export type Positions = ReadonlyMap<string, number>

/** Where a cursor stands that has never moved. */
export const BEGINNING = -1

export type Cursors = { readonly read: (partition: FeedPartition) => Promise<Positions> }

/** Positions of the cursors of feeds; only `accept` moves them. */
export function createCursors (redis: Redis): Cursors {
  return {
    read: async ({ tenant, ...of }) => {
      const fields = await redis.hgetall(cursorsKeyOf(tenant, of))
      return new Map(Object.entries(fields).map(([cursor, at]) => [cursor, integer(at)]))
    },
  }
}
