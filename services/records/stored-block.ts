import type { Finished } from '../../schemas/types.ts'
import type { Codec } from '../lib/registry.ts'
import type { Emission } from '../lib/stage.ts'
import type { Wire } from '../lib/wire.ts'
import type { ResultBlocks } from './result-blocks.ts'

type Parts = {
  readonly wire: Pick<Wire, 'close'>
  readonly codec: Pick<Codec, 'decode'>
  readonly blocks: Pick<ResultBlocks, 'insert'>
}

/**
 * Seals a block as if it were sent, and stores it at once: for those that finish rows themselves
 * instead of sending them on. Returns the block as it would have arrived.
 */
export async function storeBlock (
  { wire, codec, blocks }: Parts, emission: Emission<'rows.finished'>
): Promise<Finished> {
  const { value } = await wire.close(emission)
  if (value === null) throw new TypeError('a block never is a tombstone')
  const block = await codec.decode('rows.finished', value) as Finished
  await blocks.insert([block])
  return block
}
