/** Milliseconds since 1970; which clock it is decides who may compare its times. */
export type Clock = { readonly now: () => number }

/** This machine's clock: for measuring and logging, never for deadlines that others judge too. */
export const systemClock: Clock = { now: () => Date.now() }
