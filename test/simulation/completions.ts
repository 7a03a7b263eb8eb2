import type { Chaos } from './chaos.ts'
import type { PendingCommand } from './simulated-redis.ts'

/** A connection ends; its client resends each unanswered command, or fails it. */
export type Completion = 'answer' | 'again' | 'fail'

/** Operators retry until they succeed: their commands are not under test. */
const SPARED = 'state operator'

/** Some answers of each connection still arrive, in order; the rest complete alike. */
export function completionsOf (
  chaos: Chaos, commands: readonly PendingCommand[], executed: number
): ReadonlyMap<PendingCommand, Completion> {
  const completions = new Map<PendingCommand, Completion>()
  for (const [client, all] of Map.groupBy(commands, one => one.client)) {
    const done = all.filter(one => commands.indexOf(one) < executed).length
    const answered = client === SPARED ? done : chaos.below(done + 1)
    const rest = client === SPARED || chaos.happens(0.5) ? 'again' : 'fail'
    for (const [index, one] of all.entries()) {
      completions.set(one, index < answered ? 'answer' : rest)
    }
  }
  return completions
}
