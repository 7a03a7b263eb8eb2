import type { FetchedBatch, RawMessage } from '../kafka/bus.ts'
import { isInfrastructure } from '../platform/errors.ts'
import type { Offsets } from './offsets.ts'
import { rowCountOf } from './row-headers.ts'
import type { ProcessDeps } from './batch.ts'
import type { StepContext } from './steps.ts'
import type { Subscription } from '../platform/topics.ts'

export type Commit = ReturnType<typeof createCommit>

type CountDeps = Pick<ProcessDeps, 'stage' | 'metrics'> & { readonly subscription: Subscription }

/**
 * 8. Commit up to the lowest pending message. After a crash before it, messages are delivered
 * again; all effects are idempotent. A failed commit is not retried: the next one includes it, and
 * the signal reports a revoked partition.
 */
export function createCommit ({ steps, log }: Pick<ProcessDeps, 'steps' | 'log'>) {
  return async (delivery: FetchedBatch, offsets: Offsets, at: StepContext) => {
    const offset = offsets.committable(delivery)
    if (offset === undefined) return
    await steps.step(8, async () => {
      try {
        await delivery.commit(offset)
        offsets.committed(delivery, offset)
      } catch (error) {
        if (isInfrastructure(error)) throw error
        const { topic, partition } = delivery
        log.warn({ err: error, topic, partition, offset: String(offset) },
          'offset commit failed, the next commit includes it')
      }
    }, at)
  }
}

/** Counts completed messages and their rows. */
export function createCompletionCount ({ stage, subscription, metrics }: CountDeps) {
  const { lane = '', service = '' } = subscription
  const labels = { stage: stage.name, lane, service }
  return ({ headers }: RawMessage) => {
    metrics.count('stage_chunks_total', labels)
    metrics.count('stage_rows_total', labels, rowCountOf(headers))
  }
}
