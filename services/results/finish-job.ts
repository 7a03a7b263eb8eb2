import type { Completed, Journal, Settled } from '../../schemas/types.ts'
import type { Job } from '../jobs/job.ts'
import type { JobStore } from '../jobs/store.ts'
import { failpoint } from '../platform/failpoint.ts'
import type { Emission } from '../engine/stage.ts'
import type { Archive } from './archive.ts'
import { attachBlocks } from './attached-blocks.ts'

export type FinishDeps = {
  readonly archive: Pick<Archive, 'save'>
  readonly store: Pick<JobStore, 'readWithManifest' | 'close'>
}

/** A job that has ended and is not closed, and its last entry while the outbox holds it. */
export type EndedJob = { readonly job: Job, readonly entry: Journal | undefined }

/** The remaining steps once the record is archived: emit, then close. */
export type Finishing = {
  readonly emits: readonly Emission<'jobs.settled' | 'wallet.journal'>[]
  /** Must be called after everything emitted was acknowledged. */
  readonly close: () => Promise<void>
}

/**
 * Takes an ended job to closed. Idempotent and safe to run concurrently: archives the final record
 * first, as Redis soon forgets a closed job; then the event and the entry are emitted; then only
 * what was acknowledged is removed. Does nothing for a job that is closed already.
 * @param blocks stored blocks of the job, for requests that wait for its rows.
 */
export async function finishJob (
  { archive, store }: FinishDeps, { job, entry }: EndedJob, blocks: readonly Completed[] = []
): Promise<Finishing> {
  const found = await store.readWithManifest(job.tenant, job.id)
  // A job that was rebuilt since will end again, with another manifest.
  const isThisEnd = found?.job.ended === true && found.job.endedAtMs === job.endedAtMs
  if (found === undefined || found.job.closed || !isThisEnd) {
    return { emits: [], close: async () => {} }
  }
  await archive.save([{ job, manifest: found.manifest }])
  failpoint('finish.archived')
  const settled = {
    topic: 'jobs.settled', lane: job.lane, value: settledOf(job), rows: undefined,
  } as const
  const close = async () => {
    await store.close(job.tenant, job.id, {
      seq: entry?.seq, attached: attachBlocks(job, found.manifest, blocks),
    })
  }
  if (entry === undefined) return { emits: [settled], close }
  const journaled = {
    topic: 'wallet.journal', lane: job.lane, value: entry, rows: undefined,
  } as const
  return { emits: [settled, journaled], close }
}

/** The event of an ended job; times are Redis times. */
export function settledOf (job: Job): Settled {
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
  }
}
