import { expect } from 'vitest'
import type { ManifestEntry } from '../../../services/jobs/job.ts'
import type { Tallied, TallyBlock } from '../../../services/jobs/store-types.ts'
import type { ArchivedJob } from '../../../services/jobs/results/archive.ts'
import { blockDigest } from '../../../services/jobs/results/result-blocks.ts'
import { storeBlock } from '../../../services/jobs/results/repositories.ts'
import { createSettleStage } from '../../../services/settle/stage.ts'
import {
  arrived, blockEmission, codec, createBlocksDouble, endedJob, live, messageCodec,
} from '../../support/clickhouse/results.ts'
import { createManualClock } from '../../support/stage-doubles.ts'

export const coordinates = { chunk: 0, chunks: 1, firstRow: 0, rows: 4, totalRows: 4 }
export const running = endedJob({ ended: false, status: 'verifying' })

/** What the doubles of a stage were given, and what they do next. */
const createRecord = () => ({
  tallies: [] as TallyBlock[],
  done: [] as string[],
  updates: [] as unknown[],
  inserts: [] as number[],
  saved: [] as ArchivedJob[],
  reads: [] as string[],
  kept: [] as boolean[],
  manifest: [] as ManifestEntry[],
  failures: [] as Error[],
  /** The next insert waits for the last of these. */
  inserting: [] as Promise<void>[],
})

/** A stage whose store answers the given results of `tally`, in order. */
export function stageWith (
  answers: Tallied[],
  stored = answers.flatMap(one => one.kind !== 'skip' && one.ended ? [one.job] : [])[0] ?? running,
  batch = 1
) {
  const blocks = createBlocksDouble()
  const seen = createRecord()
  const { tallies, done, failures, inserting, manifest } = seen
  const save = async (saved: readonly ArchivedJob[]) => {
    done.push(...saved.map(({ job }) => `save ${job.id}`))
  }
  const clock = createManualClock()
  const failIfAsked = () => {
    const failure = failures.pop()
    if (failure !== undefined) throw failure
  }
  const stage = createSettleStage({
    blocks,
    archive: { save },
    batch,
    batchBytes: 100_000,
    onCounted: job => { seen.updates.push(job) },
    clock,
    storeBlock: emission => storeBlock({ messageCodec, codec, blocks }, emission),
    saveSettled: async rows => {
      failIfAsked()
      await inserting.pop()
      seen.inserts.push(rows.length)
      await blocks.insert(rows.flatMap(row => 'block' in row ? [row.block] : []))
      const records = rows.flatMap(row => 'archived' in row ? [row.archived] : [])
      seen.saved.push(...records)
      await save(records)
    },
    store: {
      tallyAll: async (_tenant, tallied, attachment) => {
        failIfAsked()
        seen.kept.push(attachment?.keeps === true)
        tallies.push(...tallied)
        return tallied.map(() => answers.shift() ?? { kind: 'skip' })
      },
      read: async () => stored,
      readWithManifest: async (_tenant, job) =>
        seen.reads.push(job) > 0 ? { job: stored, manifest } : undefined,
      close: async (_tenant, job, seq) => {
        // A closed job is readable.
        expect(blocks.stored.map(blockDigest)).toEqual(tallies.map(({ digest }) => digest))
        return done.push(`close ${job} ${seq}`) > 0
      },
    },
  })
  return { ...seen, stage, blocks, clock }
}

/** Two blocks of one job, which lack the last of its four rows. */
export const twoBlocks = async () => [
  await arrived(
    blockEmission(coordinates, [[0, live('a', 1)]], { inputs: ['a', 'b', 'c', 'd'] }), 1),
  await arrived(blockEmission(coordinates, [[1, live('b')], [2, live('c')]]), 2),
] as const

export const counted = (job = running): Tallied =>
  ({ kind: 'counted', ended: job.ended, job, entry: undefined })
