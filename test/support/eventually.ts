import { vi } from 'vitest'

/** Far beyond the slowest case on a busy machine: a later success is impossible. */
const HANGS_AFTER_MS = 240_000

/**
 * Resolves with what the assertion returns, once it holds; rejects with its failure if never.
 * `everyMs` is the pause between tries.
 */
export const eventually = <T>(
  assertion: () => T | Promise<T>, { everyMs = 20 }: { readonly everyMs?: number } = {}
): Promise<T> => vi.waitFor(assertion, { timeout: HANGS_AFTER_MS, interval: everyMs })
