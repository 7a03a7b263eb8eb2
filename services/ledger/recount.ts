import type { Completed } from '../../schemas/types.ts'
import type { JobStore } from '../jobs/store.ts'
import type { RawMessage } from '../kafka/bus.ts'
import { isInfrastructure } from '../platform/errors.ts'
import type { Log } from '../platform/log.ts'
import { idsOf } from '../engine/message-ids.ts'
import type { MessageCodec } from '../engine/message-codec.ts'
import type { ResultBlocks } from '../results/result-blocks.ts'
import { tallyBlockOf } from '../results/tally-block.ts'

export type CountDeps = {
  readonly messageCodec: Pick<MessageCodec, 'decode'>
  readonly blocks: Pick<ResultBlocks, 'insert'>
  readonly store: Pick<JobStore, 'tally'>
  readonly log: Pick<Log, 'error'>
}

/**
 * Stores and counts the blocks of these messages, as `settle` did: what was counted before counts
 * once. A block whose seal does not open, or that cannot be counted, is logged, and the others go
 * on.
 * @throws InfrastructureError when Redis, ClickHouse or the registry cannot be reached.
 */
export async function recount (
  { messageCodec, blocks, store, log }: CountDeps, messages: readonly RawMessage[]
): Promise<void> {
  const found: Completed[] = []
  for (const raw of messages) {
    const opened = await messageCodec.decode(raw)
    if (opened.kind === 'message') found.push(opened.message.value as Completed)
    if (opened.kind !== 'dead') continue
    // It was a dead letter the first time as well.
    const { topic, partition, offset } = raw
    const place = { topic, partition, offset: String(offset) }
    const details = { ...idsOf([raw]), ...place, reason: opened.reason }
    log.error(details, 'a block is unreadable')
  }
  // What is counted has to be readable, here as in `settle`.
  await blocks.insert(found)
  for (const block of found) {
    try {
      await store.tally(block.tenant, tallyBlockOf(block), { recount: true })
    } catch (error) {
      if (isInfrastructure(error)) throw error
      log.error({ tenant: block.tenant, job: block.job, err: error }, 'a block is not countable')
    }
  }
}
