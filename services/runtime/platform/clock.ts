/** Milliseconds since 1970. Times of different clocks cannot be compared. */
export type Clock = { readonly now: () => number }

/** The clock of this machine: for logs, never for deadlines that other processes check too. */
export const systemClock: Clock = { now: () => Date.now() }
