import type { Completed } from '../../schemas/types.ts'
import type { ManifestEntry } from '../jobs/job.ts'
import {
  digestOfStored, storedBlockOf, type ResultBlocks, type StoredBlock,
} from './result-blocks.ts'

/** Every process that waits for any job receives them. */
const MAX_ATTACHED_BYTES = 32_768

/**
 * The sealed blocks of a small job as text, for the notification of its close: a request that waits
 * for the rows needs no query then. '' if they are large, or not all blocks of the job.
 */
export function attachBlocks (
  manifest: readonly ManifestEntry[], blocks: readonly Completed[]
): string {
  if (blocks.reduce((sum, { sealed }) => sum + sealed.length, 0) > MAX_ATTACHED_BYTES) return ''
  const stored = blocks.map(storedBlockOf)
  const digests = new Set(stored.map(({ digest }) => digest))
  if (stored.length === 0 || !manifest.every(({ digest }) => digests.has(digest))) return ''
  return JSON.stringify(stored.map(({ sealed, ...block }) =>
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
      const found = attached.filter(({ digest }) => wanted.digests.includes(digest))
      return found.length === wanted.digests.length ? found : await blocks.read(wanted)
    },
  }
}
