/** Room for bodies in flight, so that many large ones at once cannot exhaust the memory. */
export type BodyBudget = {
  /** Takes room before a body is read; returns how to give it back, or undefined when full. */
  readonly take: (bytes: number) => (() => void) | undefined
}

/** A budget of so many bytes; a body larger than all of it is let in when nothing else is. */
export function createBodyBudget (totalBytes: number): BodyBudget {
  let takenBytes = 0
  const take = (bytes: number) => {
    if (takenBytes > 0 && takenBytes + bytes > totalBytes) return undefined
    takenBytes += bytes
    let isHeld = true
    return () => {
      if (isHeld) takenBytes -= bytes
      isHeld = false
    }
  }
  return { take }
}
