import { sleep } from '../../services/platform/retry.ts'
import type { Chaos } from './chaos.ts'
import type { Operator } from './operator.ts'
import type { Pipeline } from './pipeline.ts'

export type Ending = {
  readonly pipeline: Pipeline
  /** Where Redis may be lost. */
  readonly operator: Operator | undefined
  readonly chaos: Chaos
  /** How long a claim waits. */
  readonly patienceMs: number
}

/** Longer than any job waits for chunks that may never come. */
const PATIENCE_MS = 600_000

/** All that was begun comes to its end, and at times everything is read again from the start. */
export async function endAll ({ pipeline, operator, chaos, patienceMs }: Ending): Promise<void> {
  await pipeline.idle()
  pipeline.calm()
  pipeline.pass(PATIENCE_MS)
  await pipeline.idle()
  // Some losses come when all is done.
  if (operator !== undefined && chaos.happens(0.5)) await operator.endOfLosses()
  if (chaos.happens(0.5)) await replayEverything(pipeline)
  await operator?.endOfLosses()
  await operator?.stop()
  // Claims of an old file end by the clock of Redis.
  if (operator !== undefined) await sleep(patienceMs)
  await pipeline.idle()
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
