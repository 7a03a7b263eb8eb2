import type { Chaos } from './chaos.ts'
import type { Asked } from './simulated-redis.ts'

/** A connection ends; its client sends what was not answered once more, or gives it up. */
export type Fate = 'answer' | 'again' | 'fail'

/** Whoever mends things by hand tries until it works; it is no part of what is tested. */
const SPARED = 'state operator'

/** Of each connection some answers still arrive, in order; all that follow share one fate. */
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
