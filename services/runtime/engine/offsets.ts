import type { RawMessage } from '../kafka/bus.ts'

type PartitionId = Pick<RawMessage, 'topic' | 'partition'>
type MessageId = PartitionId & Pick<RawMessage, 'offset'>

/** Offsets are added in ascending order, so the first of `pending` is always the lowest. */
type Partition = { readonly pending: Set<bigint>, next: bigint, committed: bigint }

/**
 * The pending messages of all partitions in one generation of the group. A held message keeps the
 * committed offset of its partition below itself.
 */
export class Offsets {
  readonly #partitions = new Map<string, Partition>()

  /** Adds messages of one partition, in order, as pending. */
  add (messages: readonly RawMessage[]): void {
    for (const { topic, partition: number, offset } of messages) {
      const partition = this.#of({ topic, partition: number }) ??
        { pending: new Set<bigint>(), next: offset, committed: offset }
      this.#partitions.set(`${topic}:${number}`, partition)
      partition.pending.add(offset)
      partition.next = offset + 1n
    }
  }

  complete (message: MessageId): void {
    this.#of(message)?.pending.delete(message.offset)
  }

  /** Removes messages from this offset on, which will be delivered again. */
  rewind (id: PartitionId, fromOffset: bigint): void {
    const partition = this.#of(id)
    if (partition === undefined) return
    for (const offset of partition.pending) {
      if (offset >= fromOffset) partition.pending.delete(offset)
    }
    partition.next = fromOffset
  }

  /** The offset to commit, below which all messages are completed; undefined if unchanged. */
  committable (id: PartitionId): bigint | undefined {
    const partition = this.#of(id)
    if (partition === undefined) return undefined
    const [lowest = partition.next] = partition.pending
    return lowest > partition.committed ? lowest : undefined
  }

  committed (id: PartitionId, offset: bigint): void {
    const partition = this.#of(id)
    if (partition !== undefined) partition.committed = offset
  }

  /** Whether a partition has messages that are held or in progress. */
  isPending (id: PartitionId): boolean {
    return (this.#of(id)?.pending.size ?? 0) > 0
  }

  countPending (): number {
    return [...this.#partitions.values()].reduce((sum, { pending }) => sum + pending.size, 0)
  }

  #of ({ topic, partition }: PartitionId): Partition | undefined {
    return this.#partitions.get(`${topic}:${partition}`)
  }
}
