import { isInfrastructure } from '../platform/errors.ts'
import { idsOf } from './message-ids.ts'
import { createApplyDecisions, type ApplyDecisions } from './apply-decisions.ts'
import { isNonRetriable, tries } from './process.ts'
import { withTimeout } from '../platform/retry.ts'
import type { ProcessDeps, Batch } from './batch.ts'
import type { Decision } from './stage.ts'

/** Carries out what a stage lets go of a partition; true if there was any. */
export type FlushHeld = (batch: Batch) => Promise<boolean>

/**
 * Held messages that nothing more will come for: without this they would hold back the offsets of
 * their partition until somebody sends something else through it.
 */
export function createFlushHeld (deps: ProcessDeps): FlushHeld {
  const { stage, steps, log } = deps
  const perform = createApplyDecisions(deps)
  const decisionsOf = async (batch: Batch): Promise<readonly Decision[]> => {
    const { topic, partition } = batch.place
    const asking = async () => await stage.release?.({ topic, partition }) ?? []
    try {
      return await steps.step(3, asking, batch)
    } catch (error) {
      if (isInfrastructure(error) || !isNonRetriable(error, batch)) throw error
      log.error({ err: error, topic, partition }, 'held messages cannot be judged')
      return []
    }
  }
  return async batch => {
    const decisions = await decisionsOf(batch)
    for (const decision of decisions) await carryOut(decision, batch, { ...deps, perform })
    return decisions.length > 0
  }
}

/** A decision that keeps failing ends as dead letters, all of them one failure. */
async function carryOut (
  decision: Decision, batch: Batch, deps: ProcessDeps & { readonly perform: ApplyDecisions }
): Promise<void> {
  const { perform, log } = deps
  try {
    await tries(deps, () => perform([decision], batch), batch)
  } catch (error) {
    if (!isNonRetriable(error, batch)) throw error
    const { finishes } = decision
    const about = { ...idsOf(finishes.map(({ raw }) => raw)), messages: finishes.length }
    log.error({ err: error, ...about }, 'held messages cannot be let go')
    await perform([{ finishes, emits: [], dead: 'release failed' }], batch)
  }
}

/** Runs actions of the same name one after another, in the order they were given. */
export function createTurns () {
  const last = new Map<string, Promise<unknown>>()
  const take = async <T>(name: string, action: () => Promise<T>): Promise<T> => {
    const before = last.get(name) ?? Promise.resolve()
    // Whoever gave the action before sees its failure.
    const mine = before.catch(() => {}).then(action)
    last.set(name, mine)
    try {
      return await mine
    } finally {
      if (last.get(name) === mine) last.delete(name)
    }
  }
  return { take }
}

/** How long `stop` waits for actions that still run. */
const STOP_WITHIN_MS = 8_000

/**
 * Begins an action again and again, though an earlier one still runs: what must not run beside
 * itself is up to the action. A pause of 0 never begins. A failure is for nobody here: it ends the
 * process as any promise does that nobody listens to.
 */
export function every (
  pauseMs: number, action: () => Promise<void>, stopWithinMs = STOP_WITHIN_MS
): { readonly stop: () => Promise<void> } {
  const running = new Set<Promise<void>>()
  const tick = () => {
    const run = action().finally(() => { running.delete(run) })
    running.add(run)
  }
  const timer = pauseMs === 0 ? undefined : setInterval(tick, pauseMs).unref()
  const stop = async () => {
    clearInterval(timer)
    await withTimeout(Promise.allSettled(running), stopWithinMs)
  }
  return { stop }
}
