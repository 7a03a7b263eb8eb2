import type { Completed } from '../../schemas/types.ts'
import type { TallyBlock } from '../jobs/store.ts'
import { NO_BATCH } from './block.ts'
import { blockDigest } from './result-blocks.ts'

/** What the tally has to know of a block. */
export function tallyBlockOf (block: Completed): TallyBlock {
  const { job, chunk, batch, inputs, firstRow, duplicates } = block
  const standsIn = batch === NO_BATCH.dead
  const { finished, cached, live, invalid, unknown, cancelled } = block
  const digest = blockDigest(block)
  const bitmaps = { finished, cached, live, invalid, unknown, cancelled }
  return { job, chunk, digest, inputs, standsIn, firstRow, duplicates, ...bitmaps }
}
