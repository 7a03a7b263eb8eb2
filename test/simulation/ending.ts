import { sleep } from '../../services/runtime/platform/retry.ts'
import type { Chaos } from './chaos.ts'
import type { Recovery } from './recovery.ts'
import type { Pipeline } from './pipeline.ts'
import { findRepeats } from './repeats.ts'

export type Ending = {
  readonly pipeline: Pipeline
  /** Where Redis may be lost. */
  readonly recovery: Recovery | undefined
  readonly chaos: Chaos
  /** How long a claim waits. */
  readonly acceptWithinMs: number
}

/** Longer than any job waits for chunks that may never come. */
const ALL_DEADLINES_MS = 600_000

/**
 * Completes everything under way; at times all topics are read again from the start. Returns the
 * messages that were sent more than once until then.
 */
export async function endAll (
  { pipeline, recovery, chaos, acceptWithinMs }: Ending
): Promise<{ readonly repeats: readonly string[] }> {
  await pipeline.idle()
  const repeats = await findRepeats(pipeline)
  pipeline.stopFaults()
  pipeline.pass(ALL_DEADLINES_MS)
  await pipeline.idle()
  // Some losses come when all is done.
  if (recovery !== undefined && chaos.happens(0.5)) await recovery.endOfLosses()
  if (chaos.happens(0.5)) await replayEverything(pipeline)
  await recovery?.endOfLosses()
  await recovery?.stop()
  // Claims of an old file end by the clock of Redis.
  if (recovery !== undefined) await sleep(acceptWithinMs)
  await pipeline.idle()
  return { repeats }
}

async function replayEverything (pipeline: Pipeline): Promise<void> {
  const stages = ['normalize', 'lookup', 'verify', 'settle', 'ledger']
  const groups = stages.flatMap(stage => [
    stage, `${stage}.small`, `${stage}.bulk`, `${stage}.small.phone-validation`,
    `${stage}.bulk.phone-validation`,
  ])
  for (const group of groups) pipeline.bus.replay(group)
  await pipeline.idle()
}
