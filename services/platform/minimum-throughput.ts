/** How fast a body must arrive while memory is reserved for it. */
export type MinimumThroughput = {
  /** There is no minimum in this time at the beginning. */
  readonly graceMs: number
  readonly bytesPerSecond: number
  /** A body with a Content-Length must be fast enough to be complete within this time. */
  readonly completeWithinMs: number
}

export type Arrival = {
  readonly bytes: number
  readonly elapsedMs: number
  /** The Content-Length; undefined for a chunked body. */
  readonly contentLength?: number | undefined
}

/**
 * Whether the average throughput of a body after the grace period is below its minimum. The minimum
 * grows with the Content-Length, which reserves memory: otherwise a client could reserve most of
 * the memory for the duration of a request and send almost nothing.
 */
export function isTooSlow (
  { bytes, elapsedMs, contentLength = 0 }: Arrival, minimum: MinimumThroughput
): boolean {
  const countedMs = elapsedMs - minimum.graceMs
  const minBytesPerMs =
    Math.max(minimum.bytesPerSecond / 1_000, contentLength / minimum.completeWithinMs)
  return countedMs > 0 && bytes < minBytesPerMs * countedMs
}
