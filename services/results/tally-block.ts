import type { Completed } from '../../schemas/types.ts'
import type { TallyBlock } from '../jobs/store.ts'
import { BATCHLESS } from './block.ts'
import { blockDigest } from './result-blocks.ts'

/** The fields of a block that the tally needs. */
export function tallyBlockOf (block: Completed): TallyBlock {
  const { job, chunk, batch, inputs, firstRow, duplicates } = block
  const replacesLost = batch === BATCHLESS.replacingLost
  const { finished, cached, live, invalid, unknown, cancelled } = block
  const digest = blockDigest(block)
  const bitmaps = { finished, cached, live, invalid, unknown, cancelled }
  return { job, chunk, digest, inputs, replacesLost, firstRow, duplicates, ...bitmaps }
}
