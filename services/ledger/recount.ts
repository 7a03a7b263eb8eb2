import type { Completed } from '../../schemas/types.ts'
import type { JobStore } from '../jobs/store.ts'
import type { RawMessage } from '../kafka/bus.ts'
import { isInfrastructure } from '../platform/errors.ts'
import type { Log } from '../platform/log.ts'
import { messageFields } from '../engine/message-ids.ts'
import type { MessageCodec } from '../engine/stage.ts'
import type { ResultBlocks } from '../results/result-blocks.ts'
import { tallyBlockOf } from '../results/tally-block.ts'

export type RecountDeps = {
  readonly messageCodec: Pick<MessageCodec, 'decode'>
  readonly blocks: Pick<ResultBlocks, 'insert'>
  readonly store: Pick<JobStore, 'tally'>
  readonly log: Pick<Log, 'error'>
}

/**
 * Stores and tallies the blocks of these messages, as `settle` does; a block that was tallied
 * before counts once. Logs a block that cannot be decoded or tallied, and continues with the
 * others.
 * @throws InfrastructureError when Redis, ClickHouse or the registry cannot be reached.
 */
export async function recount (
  { messageCodec, blocks, store, log }: RecountDeps, messages: readonly RawMessage[]
): Promise<void> {
  const found: Completed[] = []
  for (const raw of messages) {
    const opened = await messageCodec.decode(raw)
    if (opened.kind === 'message') found.push(opened.message.value as Completed)
    if (opened.kind !== 'dead') continue
    log.error({ ...messageFields(raw), reason: opened.reason },
      'recount skipped a block that cannot be decoded; settle dead-lettered it before')
  }
  // Stored before it is tallied, as in `settle`: a tallied block must be readable.
  await blocks.insert(found)
  for (const block of found) {
    try {
      await store.tally(block.tenant, tallyBlockOf(block), { recount: true })
    } catch (error) {
      if (isInfrastructure(error)) throw error
      log.error({ tenant: block.tenant, job: block.job, err: error }, 'recount skipped a block ' +
        'that cannot be tallied; its rows stay open until the reaper fails the job')
    }
  }
}
