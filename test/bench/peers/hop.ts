/** One way to take chunks from a topic, verify them and write them to another. */
export type Hop = {
  readonly name: string
  /** From the first message produced to the last one that came out, in milliseconds. */
  readonly round: () => Promise<number>
  readonly close: () => Promise<void>
}
