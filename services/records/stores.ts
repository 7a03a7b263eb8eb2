import { createJobStore } from '../jobs/store.ts'
import type { Parts } from '../lib/connect.ts'
import type { Emission } from '../lib/stage.ts'
import type { Wire } from '../lib/wire.ts'
import { createOutbox } from '../money/outbox.ts'
import { createArchive } from './archive.ts'
import { createResultBlocks } from './result-blocks.ts'
import { storeBlock } from './stored-block.ts'

type Connected = Pick<Parts, 'state' | 'clickhouse' | 'codec'> & { readonly wire: Wire }

/** Where jobs stand while they run and once they have ended, for the stages that end them. */
export function createStores ({ state, clickhouse, codec, wire }: Connected) {
  const blocks = createResultBlocks(clickhouse)
  return {
    blocks,
    store: createJobStore(state),
    outbox: createOutbox(state),
    archive: createArchive(clickhouse),
    storeBlock: (emission: Emission<'rows.finished'>) =>
      storeBlock({ wire, codec, blocks }, emission),
  }
}
