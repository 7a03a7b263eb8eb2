/** The size of 100,000 inputs of 320 characters, encoded as JSON. */
export const MAX_BODY_BYTES = 34 * 1_024 * 1_024

/**
 * The limit of most routes. A body up to this size needs no reservation, so a slow client may take
 * its time.
 */
export const SMALL_BODY_BYTES = 64 * 1_024

/** The memory reserved for one body. */
export type MemoryReservation = {
  /**
   * Reserves so many bytes in total; false, with the reservation unchanged, if there is not enough
   * memory.
   */
  readonly reserve: (bytes: number) => boolean
  readonly reservedBytes: () => number
  /** Releases the whole reservation. */
  readonly release: () => void
}

/** Limits the memory of bodies in flight, so that many large ones at once cannot exhaust it. */
export type BodyBudget = { readonly open: () => MemoryReservation }

/**
 * A budget of `totalBytes`. Bodies of up to `freeBytes` need no reservation; a body larger than the
 * budget is admitted while there is no other one.
 */
export function createBodyBudget (
  totalBytes: number, freeBytes = SMALL_BODY_BYTES
): BodyBudget {
  let totalReservedBytes = 0
  const open = (): MemoryReservation => {
    let reservedBytes = 0
    let isReleased = false
    const set = (bytes: number) => {
      totalReservedBytes += bytes - reservedBytes
      reservedBytes = bytes
    }
    const reserve = (bytes: number): boolean => {
      if (bytes <= freeBytes || bytes <= reservedBytes) return true
      const othersBytes = totalReservedBytes - reservedBytes
      if (isReleased || (othersBytes > 0 && othersBytes + bytes > totalBytes)) return false
      set(bytes)
      return true
    }
    const release = () => {
      isReleased = true
      set(0)
    }
    return { reserve, reservedBytes: () => reservedBytes, release }
  }
  return { open }
}
