import { sleep } from '../../services/runtime/platform/retry.ts'
import type { Chaos } from './chaos.ts'
import type { Recovery } from './recovery.ts'
import type { Pipeline } from './pipeline.ts'
import type { Journal } from '../../schemas/types.ts'
import { LANES, type TopicName } from '../../services/topology.ts'
import { topicName } from '../../services/runtime/platform/topics.ts'
import type { RawMessage } from '../../services/runtime/kafka/bus.ts'

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

const SERVICE = 'phone-validation'
const ROW_TOPICS = [
  'rows.submitted', 'rows.normalized', 'rows.to-verify', 'rows.completed',
] as const satisfies readonly TopicName[]

/** The messages that were sent more than once: in a run without faults there are none. */
async function findRepeats ({ bus, codec }: Pipeline): Promise<readonly string[]> {
  const seen = new Set<string>()
  const repeats: string[] = []
  const add = (identity: string) => {
    if (seen.has(identity)) repeats.push(identity)
    seen.add(identity)
  }
  for (const topic of ROW_TOPICS) {
    for (const lane of LANES) {
      for (const message of bus.messages(topicName(topic, { lane, service: SERVICE }))) {
        add(identify(message))
      }
    }
  }
  for (const { topic, key } of bus.messages('jobs.settled')) add(`${topic} ${String(key)}`)
  for (const { topic, value } of bus.messages('wallet.journal')) {
    const { tenant, seq } = await codec.decode('wallet.journal', value as Buffer) as Journal
    add(`${topic} ${tenant} ${seq}`)
  }
  return repeats
}

/** Headers name the rows of a message, of which no two messages of a topic have the same. */
function identify ({ topic, key, headers }: RawMessage): string {
  const named = Object.entries(headers).filter(([name]) => name !== 'mac').toSorted()
  return `${topic} ${String(key)} ${JSON.stringify(named)}`
}
