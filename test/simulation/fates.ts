import type { Chaos } from './chaos.ts'
import type { Asked } from './simulated-redis.ts'

/** A connection ends; its client resends each unanswered command, or fails it. */
export type Fate = 'answer' | 'again' | 'fail'

/** Operators retry until they succeed: their commands are not under test. */
const SPARED = 'state operator'

/** Some answers of each connection still arrive, in order; the rest share one fate. */
export function fatesOf (
  chaos: Chaos, asked: readonly Asked[], executed: number
): ReadonlyMap<Asked, Fate> {
  const fates = new Map<Asked, Fate>()
  for (const [asker, all] of Map.groupBy(asked, one => one.asker)) {
    const done = all.filter(one => asked.indexOf(one) < executed).length
    const answered = asker === SPARED ? done : chaos.below(done + 1)
    const rest = asker === SPARED || chaos.happens(0.5) ? 'again' : 'fail'
    for (const [index, one] of all.entries()) fates.set(one, index < answered ? 'answer' : rest)
  }
  return fates
}
