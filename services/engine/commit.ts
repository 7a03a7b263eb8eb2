import type { Delivery, RawMessage } from '../kafka/bus.ts'
import { isInfrastructure } from '../platform/errors.ts'
import type { Offsets } from './offsets.ts'
import { rowsOf } from './row-headers.ts'
import type { ProcessDeps } from './batch.ts'
import type { At } from './steps.ts'
import type { Subscription } from '../platform/topics.ts'

export type Commit = ReturnType<typeof createCommit>

type CountDeps = Pick<ProcessDeps, 'stage' | 'metrics'> & { readonly subscription: Subscription }

/**
 * 8. Commit, as far as everything below is finished. A crash before it: all is handed over and done
 * again, which every effect stands. A commit that fails is not repeated by itself: the next one
 * says more, and a partition that was lost is told by the signal.
 */
export function createCommit ({ steps, log }: Pick<ProcessDeps, 'steps' | 'log'>) {
  return async (delivery: Delivery, offsets: Offsets, at: At) => {
    const offset = offsets.toCommit(delivery)
    if (offset === undefined) return
    await steps.step(8, async () => {
      try {
        await delivery.commit(offset)
        offsets.committed(delivery, offset)
      } catch (error) {
        if (isInfrastructure(error)) throw error
        log.warn({ err: error }, 'offsets were not committed')
      }
    }, at)
  }
}

/** Counts finished messages and the rows they are about. */
export function createCount ({ stage, subscription, metrics }: CountDeps) {
  const { lane = '', service = '' } = subscription
  const labels = { stage: stage.name, lane, service }
  return ({ headers }: RawMessage) => {
    metrics.count('stage_chunks_total', labels)
    metrics.count('stage_rows_total', labels, rowsOf(headers))
  }
}
