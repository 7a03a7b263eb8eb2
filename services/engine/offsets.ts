import type { FetchedBatch, RawMessage } from '../kafka/bus.ts'
import type { Subscription } from '../platform/topics.ts'
import type { ProcessDeps } from './batch.ts'
import { rowCountOf } from './stage.ts'
import type { StepContext } from './steps.ts'

export type Commit = ReturnType<typeof createCommit>

type CountDeps = Pick<ProcessDeps, 'stage' | 'metrics'> & { readonly subscription: Subscription }

/**
 * 8. Commit up to the lowest pending message. After a crash before the broker has it, messages are
 * delivered again; all effects are idempotent.
 */
export function createCommit ({ steps }: Pick<ProcessDeps, 'steps'>) {
  return async (delivery: FetchedBatch, offsets: Offsets, at: StepContext) => {
    const offset = offsets.committable(delivery)
    if (offset === undefined) return
    await steps.step(8, async () => {
      delivery.commit(offset)
      offsets.committed(delivery, offset)
    }, at)
  }
}

/** Counts completed messages and their rows. */
export function createCompletionCount ({ stage, subscription, metrics }: CountDeps) {
  const { lane = '', service = '' } = subscription
  const labels = { stage: stage.name, lane, service }
  return ({ headers }: RawMessage) => {
    metrics.count('stage_chunks_total', labels)
    metrics.count('stage_rows_total', labels, rowCountOf(headers))
  }
}

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
