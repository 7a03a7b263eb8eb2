import type { Finished } from '../../schemas/types.ts'
import type { Job } from '../jobs/job.ts'
import type { JobStore } from '../jobs/store.ts'
import type { Clock } from '../lib/clock.ts'
import type { Emission } from '../lib/stage.ts'
import { deadBlock } from '../records/block.ts'
import type { EndedJob } from '../records/finish.ts'
import { digestOf } from '../records/result-blocks.ts'
import type { Backlog } from './backlog.ts'

export type StalledParts = {
  readonly store: Pick<JobStore, 'openRows' | 'fail'>
  readonly backlog: Backlog
  /** Seals a block and stores it. */
  readonly storeBlock: (emission: Emission<'rows.finished'>) => Promise<Finished>
  readonly clock: Clock
}

/**
 * Ends a job whose rows are lost: one block, of no chunk but of the whole job, gives all open rows
 * `unknown`, reason `internal`. Undefined when the job is only waiting, or has moved meanwhile.
 */
export async function failStalled (
  { store, backlog, storeBlock, clock }: StalledParts, job: Job
): Promise<EndedJob | undefined> {
  if (await backlog.waits(job)) return undefined
  const rows = await store.openRows(job.tenant, job.id)
  if (rows === undefined) return undefined
  const emission = deadBlock({ place: wholeJob(job), lane: job.lane, rows }, {
    atMs: clock.now(), inputs: false,
  })
  const block = await storeBlock(emission)
  const failed = await store.fail(job.tenant, job.id, {
    digest: digestOf(block.sealed), finished: block.finished,
  })
  if (failed.kind === 'skip' || !failed.ended) return undefined
  return { job: failed.job, entry: failed.entry }
}

/** The place behind the last chunk, where no block of a chunk can stand. */
function wholeJob ({ tenant, id, service, chunks, preflight }: Job) {
  const { totalRows } = preflight
  return {
    tenant, job: id, service, chunk: chunks, chunks, firstRow: 0, rows: totalRows, totalRows,
  }
}
