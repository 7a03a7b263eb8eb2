import type { Finished } from '../../schemas/types.ts'
import type { JobStore } from '../jobs/store.ts'
import type { RawMessage } from '../lib/bus.ts'
import { isInfrastructure } from '../lib/errors.ts'
import type { Log } from '../lib/log.ts'
import type { Codec } from '../lib/registry.ts'
import type { ResultBlocks } from '../records/result-blocks.ts'
import { tallyBlockOf } from '../records/tally-block.ts'

export type CountParts = {
  readonly codec: Pick<Codec, 'decode'>
  readonly blocks: Pick<ResultBlocks, 'insert'>
  readonly store: Pick<JobStore, 'tally'>
  readonly log: Pick<Log, 'error'>
}

/**
 * Stores and counts the blocks of these messages, as `settle` did: what was counted before counts
 * once. A block that cannot be read or counted is logged, and the others go on.
 * @throws InfrastructureError when Redis, ClickHouse or the registry cannot be reached.
 */
export async function countAgain (
  { codec, blocks, store, log }: CountParts, messages: readonly RawMessage[]
): Promise<void> {
  const found: Finished[] = []
  for (const { value, topic, partition, offset } of messages) {
    try {
      if (value !== null) found.push(await codec.decode('rows.finished', value) as Finished)
    } catch (error) {
      if (isInfrastructure(error)) throw error
      // It was a dead letter the first time as well.
      log.error({ topic, partition, offset: String(offset), err: error }, 'a block is unreadable')
    }
  }
  // What is counted has to be readable, here as in `settle`.
  await blocks.insert(found)
  for (const block of found) {
    try {
      await store.tally(block.tenant, tallyBlockOf(block))
    } catch (error) {
      if (isInfrastructure(error)) throw error
      log.error({ tenant: block.tenant, job: block.job, err: error }, 'a block is not countable')
    }
  }
}
