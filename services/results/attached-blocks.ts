import type { Completed } from '../../schemas/types.ts'
import { countBits } from '../platform/bitmap.ts'
import {
  digestOfStored, storedBlockOf, type ResultBlocks, type StoredBlock,
} from './result-blocks.ts'

/** Every process that waits for any job receives them. */
const MAX_ATTACHED_BYTES = 32_768

/**
 * The sealed blocks of a small job as text, for the notification of its end: a request that waits
 * for the rows gets them before they are stored. '' if they are large, or too few to end the job.
 */
export function attachBlocks (blocks: readonly Completed[]): string {
  const rows = blocks.reduce((sum, { finished }) => sum + countBits(finished), 0)
  const bytes = blocks.reduce((sum, { sealed }) => sum + sealed.length, 0)
  if (bytes > MAX_ATTACHED_BYTES || rows < (blocks[0]?.totalRows ?? Infinity)) return ''
  return JSON.stringify(blocks.map(storedBlockOf).map(({ sealed, ...block }) =>
    ({ ...block, sealed: sealed.toString('base64') })))
}

/** The blocks in an attached text; one whose content does not match its digest is left out. */
export function attachedBlocksOf (text: string): readonly StoredBlock[] {
  if (text === '') return []
  return (JSON.parse(text) as (Omit<StoredBlock, 'sealed'> & { readonly sealed: string })[])
    .map(block => ({ ...block, sealed: Buffer.from(block.sealed, 'base64') }))
    .filter(block => digestOfStored(block) === block.digest)
}

/** Reads the given blocks from memory if they are all that is wanted, otherwise from the store. */
export function withAttachedBlocks (
  blocks: Pick<ResultBlocks, 'digests' | 'read'>, attached: readonly StoredBlock[]
): Pick<ResultBlocks, 'digests' | 'read'> {
  return {
    digests: blocks.digests,
    read: async wanted => {
      // A block that was delivered twice is attached twice.
      const byDigest = new Map(attached.map(block => [block.digest, block]))
      const found = wanted.digests.map(digest => byDigest.get(digest))
      return found.every(block => block !== undefined) ? found : await blocks.read(wanted)
    },
  }
}
