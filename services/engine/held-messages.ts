import type { RawMessage } from '../kafka/bus.ts'

type Partition = Pick<RawMessage, 'topic' | 'partition'>
type Position = Partition & Pick<RawMessage, 'offset'>
type Held = { readonly raw: RawMessage }

/** Messages that a stage holds, by partition and offset: one that is decided again is held once. */
export function createHeldMessages<M extends Held> () {
  const partitions = new Map<string, Map<bigint, { readonly message: M, readonly atMs: number }>>()
  const nameOf = ({ topic, partition }: Partition) => `${topic}:${partition}`
  const inPartition = (partition: Partition) => partitions.get(nameOf(partition)) ?? new Map()
  return {
    add: (message: M, atMs = 0): void => {
      const messages = inPartition(message.raw)
      messages.set(message.raw.offset, { message, atMs })
      partitions.set(nameOf(message.raw), messages)
    },
    of: (partition: Partition): readonly M[] =>
      [...inPartition(partition).values()].map(({ message }) => message),
    /** When the oldest of all messages was added. */
    sinceMs: (): number => Math.min(...[...partitions.values()]
      .flatMap(messages => [...messages.values()].map(({ atMs }) => atMs))),
    remove: (positions: readonly Position[]): void => {
      for (const position of positions) inPartition(position).delete(position.offset)
    },
    clear: (): void => partitions.clear(),
  }
}
