import type { TopicReader } from '../../../services/runtime/kafka/topic-reader.ts'
import type { MemoryBus } from './memory-bus.ts'

const MESSAGES_A_PIECE = 7
/** As the reader of the brokers has it. */
const CLOCKS_DIFFER_MS = 300_000

/**
 * Reads topics of a bus in memory, partition by partition, in pieces of few messages; `beforePiece`
 * may throw, as a broker that is away.
 */
export function createMemoryReader (
  { messages }: Pick<MemoryBus, 'messages'>, beforePiece: (topic: string) => Promise<void>
): TopicReader {
  return {
    read: async (topic, onMessages, { sinceMs, from, untilMs = Infinity, signal } = {}) => {
      const all = messages(topic)
      const ends = new Map<number, bigint>()
      for (const { partition, offset, timestampMs } of all) {
        const isWithin = timestampMs < untilMs || (ends.get(partition) ?? 0n) > offset
        if (isWithin) ends.set(partition, offset + 1n)
      }
      const isWanted = (one: typeof all[number]) => {
        const isBehind = from === undefined || one.offset >= (from.get(one.partition) ?? 0n)
        const isYoung = sinceMs === undefined || one.timestampMs >= sinceMs - CLOCKS_DIFFER_MS
        if (one.offset >= (ends.get(one.partition) ?? 0n)) return false
        const isEither = from !== undefined && sinceMs !== undefined
        return isEither ? isBehind || isYoung : isBehind && isYoung
      }
      const wanted = all.filter(isWanted)
      for (let at = 0; at < wanted.length; at += MESSAGES_A_PIECE) {
        signal?.throwIfAborted()
        await beforePiece(topic)
        await onMessages(wanted.slice(at, at + MESSAGES_A_PIECE))
      }
      return ends
    },
  }
}
