import type { Finished } from '../../schemas/types.ts'
import type { JobStore } from '../jobs/store.ts'
import type { RawMessage } from '../lib/bus.ts'
import { isInfrastructure } from '../lib/errors.ts'
import type { Log } from '../lib/log.ts'
import { idsOf } from '../lib/message-ids.ts'
import type { Wire } from '../lib/wire.ts'
import type { ResultBlocks } from '../records/result-blocks.ts'
import { tallyBlockOf } from '../records/tally-block.ts'

export type CountParts = {
  readonly wire: Pick<Wire, 'open'>
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
export async function countAgain (
  { wire, blocks, store, log }: CountParts, messages: readonly RawMessage[]
): Promise<void> {
  const found: Finished[] = []
  for (const raw of messages) {
    const opened = await wire.open(raw)
    if (opened.kind === 'message') found.push(opened.message.value as Finished)
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
      await store.tally(block.tenant, tallyBlockOf(block), { again: true })
    } catch (error) {
      if (isInfrastructure(error)) throw error
      log.error({ tenant: block.tenant, job: block.job, err: error }, 'a block is not countable')
    }
  }
}
