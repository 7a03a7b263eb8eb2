import { vi } from 'vitest'

/** Far beyond the slowest case on a busy machine: a later success is impossible. */
const HANGS_AFTER_MS = 240_000

/** Resolves with what the assertion returns, once it holds; rejects with its failure if never. */
export const eventually = <T>(assertion: () => T | Promise<T>): Promise<T> =>
  vi.waitFor(assertion, { timeout: HANGS_AFTER_MS, interval: 20 })
