import type { ClickHouseClient } from '@clickhouse/client'
import type { Completed } from '../../../schemas/types.ts'
import { createJobStore } from '../store.ts'
import type { Connections } from '../../runtime/engine/connections.ts'
import type { Emission, MessageCodec } from '../../runtime/engine/stage.ts'
import { batchWrites } from '../../runtime/platform/batch-writes.ts'
import { laneOf } from '../../runtime/platform/topics.ts'
import { createOutbox } from '../../money/outbox.ts'
import type { Lane } from '../../topology.ts'
import { createArchive, type ArchivedJob, ARCHIVE_COLUMNS, archiveRow } from './archive.ts'
import { createResultBlocks, type ResultBlocks, BLOCK_COLUMNS, blockRow } from './result-blocks.ts'
import type { Codec } from '../../runtime/kafka/registry.ts'
import type { RecordMac } from '../../runtime/crypto/mac.ts'
import { insertRows, insertToken } from '../../runtime/platform/clickhouse.ts'

type Connected = Pick<Connections, 'state' | 'clickhouse' | 'recordMac' | 'codec'> &
  { readonly messageCodec: MessageCodec }

/** The stores of running and ended jobs, for the stages that end jobs. */
export function createRepositories (connected: Connected) {
  const { state, clickhouse, recordMac, codec, messageCodec } = connected
  const stored = createResultBlocks(clickhouse)
  const archive = createArchive(clickhouse, recordMac)
  const blocks = {
    ...stored,
    insert: inLanes(stored.insert, ({ totalRows }: Completed) => laneOf(totalRows)),
  }
  return {
    blocks,
    store: createJobStore(state),
    outbox: createOutbox(state),
    saveBlocksAndRecords: inLanes(createBlocksAndRecords(clickhouse, recordMac), laneOfRow),
    archive: { ...archive, save: inLanes(archive.save, ({ job }: ArchivedJob) => job.lane) },
    storeBlock: (emission: Emission<'rows.completed'>) =>
      storeBlock({ messageCodec, codec, blocks }, emission),
  }
}

const laneOfRow = (row: BlockOrRecord) =>
  'block' in row ? laneOf(row.block.totalRows) : row.archived.job.lane

/**
 * Batches the inserts of small jobs, which are many and tiny, as every insert has a fixed cost.
 * Inserts of large jobs are big enough and run separately, so that small jobs do not wait for them.
 */
function inLanes<T> (
  insert: (items: readonly T[]) => Promise<void>, laneOfItem: (item: T) => Lane
): (items: readonly T[]) => Promise<void> {
  const shared = batchWrites(insert)
  return items => items.every(item => laneOfItem(item) === 'small') ? shared(items) : insert(items)
}

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

/** A result block, or the final record of a job. */
export type BlockOrRecord = { readonly block: Completed } | { readonly archived: ArchivedJob }

/**
 * Stores blocks and final records in one insert: an insert has a fixed cost, and the end of a small
 * job needs both. Idempotent like the inserts of each.
 *
 * The table `settled` stores nothing: its views write the rows to `result_blocks` and `jobs`
 * (schemas/clickhouse/0006_settled.sql).
 */
function createBlocksAndRecords (
  clickhouse: Pick<ClickHouseClient, 'insert'>, mac: RecordMac
): (rows: readonly BlockOrRecord[]) => Promise<void> {
  return async rows => {
    if (rows.length === 0) return
    const values = rows.map(row =>
      'block' in row ? blockRow(row.block) : archiveRow(mac, row.archived))
    const names = values.map(value => 'digest' in value ? value.digest : value.mac)
    await insertRows(clickhouse, {
      table: 'settled', columns: COLUMNS, values, token: insertToken(names),
    })
  }
}

const COLUMNS = [...new Set([...BLOCK_COLUMNS, ...ARCHIVE_COLUMNS])]
