import { isInfrastructure } from '../platform/errors.ts'
import { idsOf } from './message-ids.ts'
import { createApplyDecisions, type ApplyDecisions } from './apply-decisions.ts'
import { deadReasonOf } from './dead-letters.ts'
import { retryDecision } from './process.ts'
import { mayRetry } from './steps.ts'
import { withTimeout } from '../platform/retry.ts'
import type { ProcessDeps, MessageBatch } from './batch.ts'
import type { Decision } from './stage.ts'

/** Applies the decisions about held messages of a partition; true if there were any. */
export type FlushHeld = (batch: MessageBatch) => Promise<boolean>

/**
 * Flushes held messages that need no further message: otherwise they would hold back the offset of
 * their partition until another message arrives.
 */
export function createFlushHeld (deps: ProcessDeps): FlushHeld {
  const { stage, steps, log } = deps
  const applyDecisions = createApplyDecisions(deps)
  const decisionsOf = async (batch: MessageBatch): Promise<readonly Decision[]> => {
    const { topic, partition } = batch.location
    const decide = async () => await stage.flushHeld?.({ topic, partition }) ?? []
    try {
      return await steps.step(3, decide, batch)
    } catch (error) {
      if (isInfrastructure(error) || !mayRetry(error, batch)) throw error
      log.error({ err: error, topic, partition }, 'decision about held messages failed, retrying')
      return []
    }
  }
  return async batch => {
    const decisions = await decisionsOf(batch)
    for (const decision of decisions) await apply(decision, batch, { ...deps, applyDecisions })
    return decisions.length > 0
  }
}

/** Applies a decision; if it keeps failing, its messages are dead letters, as one failure. */
async function apply (
  decision: Decision, batch: MessageBatch,
  deps: ProcessDeps & { readonly applyDecisions: ApplyDecisions }
): Promise<void> {
  const { applyDecisions, log } = deps
  try {
    await retryDecision(deps, () => applyDecisions([decision], batch), batch)
  } catch (error) {
    const dead = deadReasonOf(error, batch, 'flush failed')
    const { completes } = decision
    const about = { ...idsOf(completes.map(({ raw }) => raw)), messages: completes.length }
    log.error({ err: error, ...about },
      'flush of held messages failed: sending them to the dead-letter topic')
    await applyDecisions([{ completes, emits: [], dead }], batch)
  }
}

/** How long `stop` waits for running actions. */
const STOP_TIMEOUT_MS = 8_000

/**
 * Starts an action periodically, even while an earlier one is running: the action itself limits its
 * concurrency. With a pause of 0 it never starts. A rejection is unhandled and stops the process.
 */
export function every (
  pauseMs: number, action: () => Promise<void>, stopTimeoutMs = STOP_TIMEOUT_MS
): { readonly stop: () => Promise<void> } {
  const running = new Set<Promise<void>>()
  const tick = () => {
    const run = action().finally(() => { running.delete(run) })
    running.add(run)
  }
  const timer = pauseMs === 0 ? undefined : setInterval(tick, pauseMs).unref()
  const stop = async () => {
    clearInterval(timer)
    await withTimeout(Promise.allSettled(running), stopTimeoutMs)
  }
  return { stop }
}
