import type { RawMessage } from '../kafka/bus.ts'

type Partition = Pick<RawMessage, 'topic' | 'partition'>
type Position = Partition & Pick<RawMessage, 'offset'>

type Held<M> = { readonly message: M, readonly atMs: number }

/** Messages that a stage holds, by partition and offset: one that is decided again is held once. */
export class HeldMessages<M extends { readonly raw: RawMessage }> {
  readonly #partitions = new Map<string, Map<bigint, Held<M>>>()

  add (message: M, atMs = 0): void {
    const messages = this.#in(message.raw)
    messages.set(message.raw.offset, { message, atMs })
    this.#partitions.set(nameOf(message.raw), messages)
  }

  of (partition: Partition): readonly M[] {
    return [...this.#in(partition).values()].map(({ message }) => message)
  }

  /** When the oldest of all messages was added. */
  sinceMs (): number {
    return Math.min(...[...this.#partitions.values()]
      .flatMap(messages => [...messages.values()].map(({ atMs }) => atMs)))
  }

  remove (positions: readonly Position[]): void {
    for (const position of positions) this.#in(position).delete(position.offset)
  }

  clear (): void {
    this.#partitions.clear()
  }

  #in (partition: Partition): Map<bigint, Held<M>> {
    return this.#partitions.get(nameOf(partition)) ?? new Map<bigint, Held<M>>()
  }
}

const nameOf = ({ topic, partition }: Partition) => `${topic}:${partition}`
