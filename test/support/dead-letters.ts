import { createDeadLetters, type DeadLetter } from '../../services/runtime/engine/dead-letters.ts'
import type { Producer } from '../../services/runtime/kafka/bus.ts'
import { createMetrics } from '../../services/runtime/platform/metrics.ts'
import type { StageName } from '../../services/topology.ts'

/** Sends messages to the dead letters of a stage, as the stage does. */
export async function sendDeadLetters (
  producer: Producer, stage: StageName, letters: readonly Omit<DeadLetter, 'cause'>[],
  now = Date.now
): Promise<void> {
  const dead = createDeadLetters({
    stage, producer: () => producer, metrics: createMetrics(), limit: Infinity, now,
  })
  await dead.send([letters.map(letter => ({ ...letter, cause: 'decided' }))])
}
