/** Room for 100,000 inputs of 320 characters. */
export const MAX_BODY_BYTES = 34 * 1_024 * 1_024

/** All that most routes take. So little needs no room: a slow line may send it in its own time. */
export const SMALL_BODY_BYTES = 64 * 1_024

/** What one body holds of the room. */
export type MemoryReservation = {
  /** Holds so much in all; false, and as much as before, when there is no room for it. */
  readonly hold: (bytes: number) => boolean
  readonly heldBytes: () => number
  /** Nothing is held any more, whoever asks. */
  readonly giveBack: () => void
}

/** Room for bodies in flight, so that many large ones at once cannot exhaust the memory. */
export type BodyBudget = { readonly open: () => MemoryReservation }

/**
 * A budget of so many bytes, of which bodies of up to `freeBytes` need none; a body larger than all
 * of it is let in when nothing else is.
 */
export function createBodyBudget (
  totalBytes: number, freeBytes = SMALL_BODY_BYTES
): BodyBudget {
  let takenBytes = 0
  const open = (): MemoryReservation => {
    let heldBytes = 0
    let isOver = false
    const set = (bytes: number) => {
      takenBytes += bytes - heldBytes
      heldBytes = bytes
    }
    const hold = (bytes: number): boolean => {
      if (bytes <= freeBytes || bytes <= heldBytes) return true
      const othersBytes = takenBytes - heldBytes
      if (isOver || (othersBytes > 0 && othersBytes + bytes > totalBytes)) return false
      set(bytes)
      return true
    }
    const giveBack = () => {
      isOver = true
      set(0)
    }
    return { hold, heldBytes: () => heldBytes, giveBack }
  }
  return { open }
}
