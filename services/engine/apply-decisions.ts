import { decisionSpans } from './decision-spans.ts'
import { byJob, idsOf } from './message-ids.ts'
import type { ProcessDeps, Batch } from './batch.ts'
import type { Decision, Emission } from './stage.ts'

export type ApplyDecisions = (decisions: readonly Decision[], batch: Batch) => Promise<void>

/**
 * Carries decisions out: the steps 4 to 7, all decisions together in each of them; after the last
 * one their messages need no more.
 */
export function createApplyDecisions (deps: ProcessDeps): ApplyDecisions {
  const { stage, deadLetters, steps, finished } = deps
  const carryOut = async (
    decisions: readonly Decision[], emits: readonly Emission[], batch: Batch
  ) => {
    const { signal } = batch
    const letters = decisions.flatMap(({ finishes, dead }) => dead === undefined
      ? []
      : [finishes.map(({ raw }) => ({ raw, reason: dead, cause: 'decided' as const }))])
    deadLetters.admit(letters)
    await produce(deps, emits, batch)
    // 6. Dead letters, and wait. A crash: a dead letter may stand there twice, never not at all.
    await steps.step(6, () => deadLetters.send(letters, signal), batch)
    // 7. What may follow only what is out for certain. A crash: done again after the redelivery.
    const waiting = new Set(decisions.flatMap(({ afterProduced }) => afterProduced ?? []))
    await steps.step(7, () => settle(waiting), batch)
    for (const { finishes, dead } of decisions) {
      for (const { raw } of finishes) {
        batch.finish(raw)
        if (dead === undefined) finished(raw)
      }
    }
    if (decisions.some(({ finishes, dead }) => dead === undefined && finishes.length > 0)) {
      deadLetters.alive()
    }
  }
  return async (decisions, batch) => {
    const { emits, around } = decisionSpans(stage.name, decisions, batch)
    await around(() => carryOut(decisions, emits, batch))
    tell(deps, decisions)
  }
}

/** One line for each job of a decision: of dead messages always, else only to who looks closely. */
function tell ({ log }: ProcessDeps, decisions: readonly Decision[]): void {
  const isClose = log.isLevelEnabled('debug')
  for (const { finishes, dead } of decisions) {
    if (dead === undefined && !isClose) continue
    for (const messages of byJob(finishes.map(({ raw }) => raw)).values()) {
      const about = { ...idsOf(messages), messages: messages.length }
      if (dead === undefined) log.debug(about, 'decided')
      else log.error({ ...about, reason: dead }, 'decided to be dead letters')
    }
  }
}

/** What is sealed is on its way, and worked on by those who read it, while the next is sealed. */
const ROUND = 12

/** Resolves when every message is acknowledged; fails only once none is under way any more. */
async function produce (
  { emitter, steps }: ProcessDeps, emits: readonly Emission[], batch: Batch
): Promise<void> {
  const underWay: Promise<void>[] = []
  try {
    for (let from = 0; from === 0 || from < emits.length; from += ROUND) {
      // 4. Seal. A crash: nothing of this round has happened yet.
      const sealed = await steps.step(4, () => emitter.seal(emits.slice(from, from + ROUND)), batch)
      // 5. Produce, and wait for every acknowledgement. A crash: some or all messages are out and
      // will be sent again; their readers count rows, entries and ends of a name only once.
      const sending = steps.step(5, () => emitter.send(sealed, batch.signal), batch)
      // A failure is seen below; until then nobody may be listening.
      sending.catch(() => {})
      underWay.push(sending)
    }
  } finally {
    await Promise.allSettled(underWay)
  }
  await Promise.all(underWay)
}

/** Runs all at once and drops what is done, so that only the others are run again. */
async function settle (waiting: Set<() => Promise<void>>): Promise<void> {
  const results = await Promise.allSettled([...waiting].map(async action => {
    await action()
    waiting.delete(action)
  }))
  const failed = results.find(result => result.status === 'rejected')
  if (failed !== undefined) throw failed.reason
}
