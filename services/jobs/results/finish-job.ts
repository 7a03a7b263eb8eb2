import type { Completed, Journal, Settled } from '../../../schemas/types.ts'
import { createOutbox } from '../../money/wallet.ts'
import type { RecordMac } from '../../runtime/crypto/mac.ts'
import type { Connections } from '../../runtime/engine/connections.ts'
import type { Emission, MessageCodec } from '../../runtime/engine/stage.ts'
import type { Codec } from '../../runtime/kafka/registry.ts'
import { batchWrites } from '../../runtime/platform/batch-writes.ts'
import { type Clickhouse, insertDivided, insertToken } from '../../runtime/platform/clickhouse.ts'
import { failpoint } from '../../runtime/platform/failpoint.ts'
import { chooseLane } from '../../runtime/platform/topics.ts'
import type { Lane } from '../../topology.ts'
import type { Job, ManifestEntry } from '../job.ts'
import { createJobStore, type JobStore, type JobWithManifest } from '../store.ts'
import {
  type Archive, type ArchivedJob, archiveRow, createArchive,
} from './archive.ts'
import { blockRow, createResultBlocks, type ResultBlocks } from './result-blocks.ts'

export type EndedJobDeps = {
  readonly archive: Pick<Archive, 'save'>
  readonly blocks: Pick<ResultBlocks, 'digests' | 'insertInlineResults'>
  readonly store: Pick<JobStore, 'readWithManifest' | 'close'>
}

/**
 * A job that has ended and is not closed, its last entry while the outbox holds it, and its
 * manifest if it is known.
 */
export type EndedJob = {
  readonly job: Job
  readonly entry: Journal | undefined
  readonly manifest?: readonly ManifestEntry[] | undefined
}

/** What is left to do for an ended job once its final record is stored: emit, then close. */
export type RemainingSteps = {
  readonly emits: readonly Emission<'jobs.settled' | 'wallet.journal'>[]
  /** Must be called after everything emitted was acknowledged. */
  readonly close: () => Promise<void>
}

/**
 * The first step of closing an ended job: stores its final record, as Redis soon forgets a closed
 * job, and its blocks if only the inline results in Redis have them. Returns the steps that remain:
 * the event and the entry are emitted, then only what was acknowledged is removed. Idempotent and
 * safe to run concurrently. Returns undefined for a job that is closed already, and for one whose
 * blocks are neither stored nor inline: `settle` stores them when they are delivered again.
 */
export async function archiveEnded (
  deps: EndedJobDeps, ended: EndedJob
): Promise<RemainingSteps | undefined> {
  const archived = await readEndRecord(deps, ended)
  if (archived === undefined || !await hasBlocks(deps, archived)) return undefined
  await deps.archive.save([archived])
  return remainingSteps(deps, ended)
}

/** The final record of an ended job; undefined if it is closed already, or runs again. */
export async function readEndRecord (
  { store }: { readonly store: Pick<JobStore, 'readWithManifest'> }, { job, manifest }: EndedJob
): Promise<JobWithManifest | undefined> {
  if (manifest !== undefined) return { job, manifest }
  const record = await store.readWithManifest(job.tenant, job.id)
  // A job that was rebuilt since will end again, with another manifest.
  const isThisEnd = record?.job.ended === true && record.job.endedAtMs === job.endedAtMs
  if (record === undefined || record.job.closed || !isThisEnd) return undefined
  return { job, manifest: record.manifest, inlineResults: record.inlineResults }
}

/** A closed job is readable, and its rows may have been counted by a process that died then. */
async function hasBlocks (
  { blocks }: EndedJobDeps,
  { job, manifest, inlineResults = '' }: JobWithManifest
): Promise<boolean> {
  // A job that was failed without its data key has a block without a digest, which is not stored.
  const wanted = manifest.map(({ digest }) => digest).filter(digest => digest !== '')
  if (wanted.length === 0) return true
  const stored = await blocks.digests(job.tenant, job.id, wanted)
  if (wanted.every(digest => stored.has(digest))) return true
  const inline = new Set(await blocks.insertInlineResults(job.tenant, job.id, inlineResults))
  return wanted.every(digest => stored.has(digest) || inline.has(digest))
}

/** What is left to do for an ended job whose final record is stored. */
export function remainingSteps (
  { store }: { readonly store: Pick<JobStore, 'close'> }, { job, entry }: EndedJob
): RemainingSteps {
  failpoint('finish.archived')
  const settled = {
    topic: 'jobs.settled', lane: job.lane, value: toSettled(job), rows: undefined,
  } as const
  const close = async () => {
    await store.close(job.tenant, job.id, entry?.seq)
  }
  if (entry === undefined) return { emits: [settled], close }
  const journaled = {
    topic: 'wallet.journal', lane: job.lane, value: entry, rows: undefined,
  } as const
  return { emits: [settled, journaled], close }
}

/** The event of an ended job; times are Redis times. */
export function toSettled (job: Job): Settled {
  const { preflight, counts } = job
  return {
    tenant: job.tenant,
    job: job.id,
    service: job.service,
    status: job.status,
    totalRows: preflight.totalRows,
    invalidRows: preflight.invalidRows,
    duplicateRows: preflight.duplicateRows,
    cacheHits: counts.cacheHits,
    freshRecords: counts.freshRecords,
    invalidRecords: counts.invalidRecords,
    duplicateRecords: counts.duplicateRecords,
    unknownRecords: counts.unknownRecords,
    cancelledRecords: counts.cancelledRecords,
    successRecords: counts.successRecords,
    failedRecords: counts.failedRecords,
    maxQuoteMicros: preflight.maxQuoteMicros,
    chargedMicros: job.chargedMicros,
    releasedMicros: job.releasedMicros,
    createdAt: job.createdAtMs,
    endedAt: job.endedAtMs,
    header: job.header.length === 0 ? null : job.header,
    partner: job.feed?.partner ?? '',
  }
}

/** The stores of running and ended jobs, for the stages that end jobs. */
export function createRepositories (
  { state, clickhouse, recordMac }: Pick<Connections, 'state' | 'clickhouse' | 'recordMac'>
) {
  const stored = createResultBlocks(clickhouse)
  const archive = createArchive(clickhouse, recordMac)
  const blocks = {
    ...stored,
    insert: inLanes(stored.insert, ({ totalRows }: Completed) => chooseLane(totalRows)),
  }
  return {
    blocks,
    store: createJobStore(state),
    outbox: createOutbox(state),
    saveBlocksAndRecords: inLanes(createBlocksAndRecords(clickhouse, recordMac), laneOfRow),
    archive: { ...archive, save: inLanes(archive.save, ({ job }: ArchivedJob) => job.lane) },
  }
}

const laneOfRow = (row: BlockOrRecord) =>
  'block' in row ? chooseLane(row.block.totalRows) : row.archived.job.lane

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

export type StoreBlockDeps = {
  readonly messageCodec: MessageCodec
  readonly codec: Codec
  readonly blocks: Pick<ResultBlocks, 'insert'>
}

/**
 * Seals and stores a block directly, for stages that finish rows without sending them. Returns the
 * block as a consumer of `rows.completed` would read it.
 */
export async function storeBlock (
  { messageCodec, codec, blocks }: StoreBlockDeps, emission: Emission<'rows.completed'>
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
  clickhouse: Clickhouse, mac: RecordMac
): (rows: readonly BlockOrRecord[]) => Promise<void> {
  return async rows => {
    if (rows.length === 0) return
    const values = rows.map(row =>
      'block' in row ? blockRow(row.block) : archiveRow(mac, row.archived))
    const names = values.map(value => 'digest' in value ? value.digest : value.mac)
    await insertDivided(clickhouse, { table: 'settled', values, token: insertToken(names) })
  }
}
