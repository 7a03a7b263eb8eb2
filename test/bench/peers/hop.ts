/** A process that consumes chunks from a topic, verifies them and produces them to another one. */
export type Hop = {
  readonly name: string
  /** Sends all chunks; resolves with the time from the first message to the last output, in ms. */
  readonly round: () => Promise<number>
  readonly close: () => Promise<void>
}
