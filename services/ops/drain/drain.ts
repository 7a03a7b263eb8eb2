import type { Place } from '../../lib/kafka/lag.ts'

/** What is still to be done. */
export type Rest = {
  readonly openJobs: number
  readonly lagMessages: number
  /** Those that have lag. */
  readonly groups: readonly string[]
}

export type Drained = Rest & { readonly drained: boolean, readonly seconds: number }

export type DrainParts = {
  readonly look: () => Promise<Rest>
  readonly show: (rest: Rest) => void
  readonly sleep: (ms: number) => Promise<unknown>
  /** Milliseconds since any moment. */
  readonly now: () => number
}

const LOOK_EVERY_MS = 500

/**
 * Waits until nothing is left to be done, or for so long. Two looks in a row have to say so, as
 * what moves from a topic to a job or back while one is taken may be missed by it.
 */
export async function drain (parts: DrainParts, timeoutMs: number): Promise<Drained> {
  const startedMs = parts.now()
  let emptyLooks = 0
  for (;;) {
    const rest = await parts.look()
    parts.show(rest)
    emptyLooks = isEmpty(rest) ? emptyLooks + 1 : 0
    const seconds = Math.round((parts.now() - startedMs) / 100) / 10
    if (emptyLooks >= 2) return { drained: true, seconds, ...rest }
    if (parts.now() - startedMs >= timeoutMs) return { drained: false, seconds, ...rest }
    await parts.sleep(LOOK_EVERY_MS)
  }
}

/** Puts together what brokers and job records say. */
export function restOf (openJobs: number, places: readonly Place[]): Rest {
  const behind = places.filter(({ lag }) => lag > 0)
  return {
    openJobs,
    lagMessages: behind.reduce((sum, { lag }) => sum + lag, 0),
    groups: [...new Set(behind.map(({ group }) => group))],
  }
}

function isEmpty ({ openJobs, lagMessages }: Rest): boolean {
  return openJobs === 0 && lagMessages === 0
}
