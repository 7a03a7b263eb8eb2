import type { RawMessage } from '../kafka/bus.ts'

type Place = Pick<RawMessage, 'topic' | 'partition'>
type PlacedAt = Place & Pick<RawMessage, 'offset'>

/** Which messages are not finished yet, of every partition, within one generation of the group. */
export type Offsets = {
  /** Messages of one partition, in order, that from now on are unfinished. */
  readonly begin: (messages: readonly RawMessage[]) => void
  readonly finish: (message: PlacedAt) => void
  /** Messages from this offset on will be handed over once more. */
  readonly rewind: (place: Place, fromOffset: bigint) => void
  /** The offset below which everything is finished, or undefined when it has not moved. */
  readonly toCommit: (place: Place) => bigint | undefined
  readonly committed: (place: Place, offset: bigint) => void
  readonly unfinished: () => number
}

/** Offsets come and are added ascending, so the first of `pending` is always the lowest. */
type Partition = { readonly pending: Set<bigint>, next: bigint, committed: bigint }

/** Keeps offsets; a message that is held back holds the commit of its partition below itself. */
export function createOffsets (): Offsets {
  const partitions = new Map<string, Partition>()
  const partitionOf = (place: Place) => partitions.get(`${place.topic}:${place.partition}`)
  const begin = (messages: readonly RawMessage[]) => {
    for (const { topic, partition, offset } of messages) {
      const found = partitionOf({ topic, partition }) ??
        { pending: new Set<bigint>(), next: offset, committed: offset }
      partitions.set(`${topic}:${partition}`, found)
      found.pending.add(offset)
      found.next = offset + 1n
    }
  }
  const rewind = (place: Place, fromOffset: bigint) => {
    const found = partitionOf(place)
    if (found === undefined) return
    for (const offset of found.pending) if (offset >= fromOffset) found.pending.delete(offset)
    found.next = fromOffset
  }
  const toCommit = (place: Place) => {
    const found = partitionOf(place)
    if (found === undefined) return undefined
    const [lowest = found.next] = found.pending
    return lowest > found.committed ? lowest : undefined
  }
  return {
    begin,
    finish: message => { partitionOf(message)?.pending.delete(message.offset) },
    rewind,
    toCommit,
    committed: (place, offset) => {
      const found = partitionOf(place)
      if (found !== undefined) found.committed = offset
    },
    unfinished: () => [...partitions.values()].reduce((sum, { pending }) => sum + pending.size, 0),
  }
}
