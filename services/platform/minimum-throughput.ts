/** How fast a body has to come while room is held for it. */
export type MinimumThroughput = {
  /** Nothing is asked for of this time at the beginning. */
  readonly graceMs: number
  readonly bytesPerSecond: number
  /** A body of stated length has to come so fast that it is whole within this time. */
  readonly wholeWithinMs: number
}

export type Arrival = {
  readonly bytes: number
  readonly elapsedMs: number
  /** Undefined for a body in chunks, whose length nobody knows before its end. */
  readonly statedBytes?: number | undefined
}

/**
 * Whether a body is behind what its sender has to keep up with on average after the grace. The more
 * room it claims the faster it has to come: else whoever states the largest length would hold most
 * of the room for as long as a request may take, by sending next to nothing.
 */
export function isTooSlow (
  { bytes, elapsedMs, statedBytes = 0 }: Arrival, pace: MinimumThroughput
): boolean {
  const countedMs = elapsedMs - pace.graceMs
  const leastBytesPerMs = Math.max(pace.bytesPerSecond / 1_000, statedBytes / pace.wholeWithinMs)
  return countedMs > 0 && bytes < leastBytesPerMs * countedMs
}
