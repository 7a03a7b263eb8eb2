import { createJobStore } from '../jobs/store.ts'
import type { Parts } from '../lib/connect.ts'
import type { Wire } from '../lib/wire.ts'
import { createOutbox } from '../money/outbox.ts'
import { createArchive } from '../records/archive.ts'
import { createResultBlocks } from '../records/result-blocks.ts'
import { storeBlock } from '../records/stored-block.ts'
import type { SettleParts } from './stage.ts'

type Connected = Pick<Parts, 'state' | 'clickhouse' | 'codec' | 'clock'> & { readonly wire: Wire }

/** The parts of the stage on what the process is connected to. */
export function settleParts (
  { BATCH_MESSAGES }: { readonly BATCH_MESSAGES: number },
  { state, clickhouse, codec, clock, wire }: Connected
): SettleParts {
  const blocks = createResultBlocks(clickhouse)
  return {
    blocks,
    store: createJobStore(state),
    outbox: createOutbox(state),
    archive: createArchive(clickhouse),
    storeBlock: emission => storeBlock({ wire, codec, blocks }, emission),
    clock,
    batch: BATCH_MESSAGES,
  }
}
