import type { Completed } from '../../schemas/types.ts'
import { JobKeyLostError } from '../jobs/job-keys.ts'
import type { Job } from '../jobs/job.ts'
import type { JobStore } from '../jobs/store.ts'
import type { Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import { SealError } from '../crypto/seal.ts'
import type { Emission } from '../engine/stage.ts'
import { deadBlock } from '../results/block.ts'
import type { EndedJob } from '../results/finish-job.ts'
import { blockDigest } from '../results/result-blocks.ts'
import type { Backlog } from './backlog.ts'

export type StalledDeps = {
  readonly store: Pick<JobStore, 'openRows' | 'fail'>
  readonly backlog: Backlog
  /** Seals a block and stores it. */
  readonly storeBlock: (emission: Emission<'rows.completed'>) => Promise<Completed>
  readonly clock: Clock
  readonly log: Pick<Log, 'error'>
}

/**
 * Ends a job whose rows are lost: one block, of no chunk but of the whole job, gives all open rows
 * `unknown`, reason `internal`. Where nothing can be sealed any more, because the job's key is
 * nowhere, the job ends without that block: its money is let go, and its results are lost.
 * Undefined when the job is only waiting, or has moved meanwhile.
 */
export async function failStalled (
  deps: StalledDeps, job: Job
): Promise<EndedJob | undefined> {
  const { store, backlog } = deps
  if (await backlog.waits(job)) return undefined
  const rows = await store.openRows(job.tenant, job.id)
  if (rows === undefined) return undefined
  const digest = await digestOfStored(deps, job, rows)
  const failed = await store.fail(job.tenant, job.id, { digest, finished: rows })
  if (failed.kind === 'skip' || !failed.ended) return undefined
  return { job: failed.job, entry: failed.entry }
}

/** The digest of the block that ends these rows; empty when there can be none. */
async function digestOfStored (
  { storeBlock, clock, log }: StalledDeps, job: Job, rows: Buffer
): Promise<string> {
  const emission = deadBlock({ coordinates: wholeJob(job), lane: job.lane, rows }, {
    atMs: clock.now(), inputs: false,
  })
  try {
    return blockDigest(await storeBlock(emission))
  } catch (error) {
    if (!(error instanceof JobKeyLostError || error instanceof SealError)) throw error
    log.error({ tenant: job.tenant, job: job.id, err: error }, 'the results of a job are lost')
    return ''
  }
}

/** The place behind the last chunk, where no block of a chunk can stand. */
function wholeJob ({ tenant, id, service, chunks, preflight }: Job) {
  const { totalRows } = preflight
  return {
    tenant, job: id, service, chunk: chunks, chunks, firstRow: 0, rows: totalRows, totalRows,
  }
}
