import type { Redis } from 'ioredis'
import type { FeedPartition } from '../jobs/cursors.ts'
import { script } from '../lib/redis.ts'
import { integer } from '../money/outbox.ts'

/** The newest contact of a sender: its sequence, and the latest `sentAt` of all of them in ms. */
export type Mark = { readonly sequence: number, readonly sentAt: number }

/** The marks of all senders of a partition as of an offset; -1 when nothing is stored. */
export type Marks = { readonly offset: number, readonly senders: ReadonlyMap<string, Mark> }

/** From the marks as of `since` to those as of `offset`. */
export type MarksChange = {
  readonly since: number
  readonly offset: number
  readonly changed: ReadonlyMap<string, Mark>
  readonly forgotten: readonly string[]
}

export type MarkStore = {
  readonly read: (partition: FeedPartition) => Promise<Marks>
  /**
   * Stores a change, unless marks as of that offset or a later one are stored already. Resolves to
   * false when the marks that it starts from are no longer stored.
   */
  readonly write: (partition: FeedPartition, change: MarksChange) => Promise<boolean>
}

/** Hash: offset, and sender -> sequence:sentAt. */
const marksKeyOf = ({ tenant, partner, partition }: FeedPartition): string =>
  `marks:{${tenant}}:${partner}:${partition}`

const OFFSET = 'offset'

/**
 * A change may start from older marks than those stored: every process computes the same marks of
 * one offset, so the senders that it changes are right as of its own offset.
 */
const SOURCE = `
local key, since, offset = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local stored = tonumber(redis.call('HGET', key, '${OFFSET}') or '-1')
if stored < since then
  return 0
end
if stored >= offset then
  return 1
end
redis.call('HSET', key, '${OFFSET}', ARGV[2])
local changed = tonumber(ARGV[3])
for i = 4, 3 + 2 * changed, 2 do
  redis.call('HSET', key, ARGV[i], ARGV[i + 1])
end
for i = 4 + 2 * changed, #ARGV do
  redis.call('HDEL', key, ARGV[i])
end
return 1`

/** The marks of feeds, by which a replayed contact is recognized. */
export function createMarkStore (redis: Redis): MarkStore {
  const run = script(redis, { name: 'marks', source: SOURCE, numberOfKeys: 1 })
  return {
    read: async partition => {
      const { [OFFSET]: offset = '-1', ...senders } = await redis.hgetall(marksKeyOf(partition))
      return {
        offset: integer(offset),
        senders: new Map(Object.entries(senders).map(([sender, mark]) => [sender, markOf(mark)])),
      }
    },
    write: async (partition, { since, offset, changed, forgotten }) => {
      const fields = [...changed].flatMap(([sender, { sequence, sentAt }]) =>
        [sender, `${sequence}:${sentAt}`])
      const args = [since, offset, changed.size, ...fields, ...forgotten]
      return await run([marksKeyOf(partition)], args) === 1
    },
  }
}

function markOf (text: string): Mark {
  const [sequence = '', sentAt = ''] = text.split(':')
  return { sequence: integer(sequence), sentAt: integer(sentAt) }
}
