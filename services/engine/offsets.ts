import type { RawMessage } from '../kafka/bus.ts'

type PartitionId = Pick<RawMessage, 'topic' | 'partition'>
type MessageId = PartitionId & Pick<RawMessage, 'offset'>

/** The pending messages of all partitions in one generation of the group. */
export type Offsets = {
  /** Adds messages of one partition, in order, as pending. */
  readonly add: (messages: readonly RawMessage[]) => void
  readonly complete: (message: MessageId) => void
  /** Removes messages from this offset on, which will be delivered again. */
  readonly rewind: (id: PartitionId, fromOffset: bigint) => void
  /** The offset to commit, below which all messages are completed; undefined if unchanged. */
  readonly committable: (id: PartitionId) => bigint | undefined
  readonly committed: (id: PartitionId, offset: bigint) => void
  readonly countPending: () => number
}

/** Offsets are added in ascending order, so the first of `pending` is always the lowest. */
type Partition = { readonly pending: Set<bigint>, next: bigint, committed: bigint }

/** Tracks offsets. A held message keeps the committed offset of its partition below itself. */
export function createOffsets (): Offsets {
  const partitions = new Map<string, Partition>()
  const partitionOf = (id: PartitionId) => partitions.get(`${id.topic}:${id.partition}`)
  const add = (messages: readonly RawMessage[]) => {
    for (const { topic, partition, offset } of messages) {
      const found = partitionOf({ topic, partition }) ??
        { pending: new Set<bigint>(), next: offset, committed: offset }
      partitions.set(`${topic}:${partition}`, found)
      found.pending.add(offset)
      found.next = offset + 1n
    }
  }
  const rewind = (id: PartitionId, fromOffset: bigint) => {
    const found = partitionOf(id)
    if (found === undefined) return
    for (const offset of found.pending) if (offset >= fromOffset) found.pending.delete(offset)
    found.next = fromOffset
  }
  const committable = (id: PartitionId) => {
    const found = partitionOf(id)
    if (found === undefined) return undefined
    const [lowest = found.next] = found.pending
    return lowest > found.committed ? lowest : undefined
  }
  return {
    add,
    complete: message => { partitionOf(message)?.pending.delete(message.offset) },
    rewind,
    committable,
    committed: (id, offset) => {
      const found = partitionOf(id)
      if (found !== undefined) found.committed = offset
    },
    countPending: () =>
      [...partitions.values()].reduce((sum, { pending }) => sum + pending.size, 0),
  }
}
