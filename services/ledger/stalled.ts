import type { Completed } from '../../schemas/types.ts'
import { MissingKeyError } from '../crypto/key-ring.ts'
import { JobKeyLostError } from '../jobs/job-keys.ts'
import type { Job } from '../jobs/job.ts'
import type { JobStore } from '../jobs/store.ts'
import type { Clock } from '../platform/clock.ts'
import { InfrastructureError } from '../platform/errors.ts'
import type { Log } from '../platform/log.ts'
import { SealError } from '../crypto/seal.ts'
import type { Emission } from '../engine/stage.ts'
import { unresolvableBlock } from '../results/block.ts'
import type { EndedJob } from '../results/finish-job.ts'
import { blockDigest } from '../results/result-blocks.ts'
import type { Backlog } from './backlog.ts'

export type StalledDeps = {
  readonly store: Pick<JobStore, 'unfinishedRows' | 'fail'>
  readonly backlog: Backlog
  /** Seals and stores a block. */
  readonly storeBlock: (emission: Emission<'rows.completed'>) => Promise<Completed>
  readonly clock: Clock
  readonly log: Pick<Log, 'error'>
}

/**
 * Fails a job whose rows are lost: one block of the whole job ends all open rows as `unknown`,
 * reason `internal`. If the job's key is lost, so that no block can be sealed, the job ends without
 * it: its reservation is released, and its results are lost.
 * Returns undefined when rows of the job may still be in a topic, or it made progress meanwhile.
 */
export async function failStalled (
  deps: StalledDeps, job: Job
): Promise<EndedJob | undefined> {
  const { store, backlog } = deps
  if (await backlog.mayContain(job)) return undefined
  const rows = await store.unfinishedRows(job.tenant, job.id)
  if (rows === undefined) return undefined
  const digest = await digestOfStored(deps, job, rows)
  const failed = await store.fail(job.tenant, job.id, { digest, finished: rows })
  if (failed.kind === 'skip' || !failed.ended) return undefined
  return { job: failed.job, entry: failed.entry }
}

/** The digest of the stored block that ends these rows; empty if it cannot be sealed. */
async function digestOfStored (
  { storeBlock, clock, log }: StalledDeps, job: Job, rows: Buffer
): Promise<string> {
  const emission = unresolvableBlock({ coordinates: wholeJob(job), lane: job.lane, rows }, {
    atMs: clock.now(), inputs: false,
  })
  try {
    return blockDigest(await storeBlock(emission))
  } catch (error) {
    // Of one organization: ledger goes on without its job, and restores the key when it can.
    if (error instanceof MissingKeyError) {
      throw new InfrastructureError(error.message, { cause: error })
    }
    if (!(error instanceof JobKeyLostError || error instanceof SealError)) throw error
    const details = { tenant: job.tenant, job: job.id, err: error }
    log.error(details, 'job ended without results: its data key is lost')
    return ''
  }
}

/** The coordinates after the last chunk, which no block of a chunk has. */
function wholeJob ({ tenant, id, service, chunks, preflight }: Job) {
  const { totalRows } = preflight
  return {
    tenant, job: id, service, chunk: chunks, chunks, firstRow: 0, rows: totalRows, totalRows,
  }
}
