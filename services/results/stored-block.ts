import type { Completed } from '../../schemas/types.ts'
import type { Codec } from '../kafka/registry.ts'
import type { Emission, MessageCodec } from '../engine/stage.ts'
import type { ResultBlocks } from './result-blocks.ts'

type Deps = {
  readonly messageCodec: Pick<MessageCodec, 'encode'>
  readonly codec: Pick<Codec, 'decode'>
  readonly blocks: Pick<ResultBlocks, 'insert'>
}

/**
 * Seals and stores a block directly, for stages that finish rows without sending them. Returns the
 * block as a consumer of `rows.completed` would read it.
 */
export async function storeBlock (
  { messageCodec, codec, blocks }: Deps, emission: Emission<'rows.completed'>
): Promise<Completed> {
  const { value } = await messageCodec.encode(emission)
  if (value === null) throw new TypeError('the encoded block is a tombstone')
  const block = await codec.decode('rows.completed', value) as Completed
  await blocks.insert([block])
  return block
}
