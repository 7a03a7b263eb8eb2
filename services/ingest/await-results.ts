import type { VerificationBody } from '../../schemas/api/verifications.ts'
import { jobBody } from '../jobs/job-view.ts'
import type { Job } from '../jobs/job.ts'
import { attachedBlocksOf } from '../results/attached-blocks.ts'
import type { ApiError } from './errors.ts'
import { readableResults, type ResultRetention } from './find-job.ts'
import type { IngestDeps } from './ports.ts'
import { createRowShape } from './row-shape.ts'

export type AwaitingDeps = Pick<IngestDeps,
  'waitForJob' | 'findResults' | 'findErasures' | 'page' | 'openHeader' | 'now'>

export type AwaitedJob = ResultRetention & {
  /** An accepted job. */
  readonly job: Job
  readonly timeoutMs: number
  /** Aborted when nobody waits any longer. */
  readonly signal: AbortSignal
}

/**
 * The rows of a job once it is closed, or the error why they cannot be read; undefined if it is not
 * closed in time. The blocks of a small job come with the notification of its close.
 */
export async function awaitResults (
  deps: AwaitingDeps, { retentionMs, job: accepted, timeoutMs, signal }: AwaitedJob
): Promise<VerificationBody | ApiError | undefined> {
  const { tenant, id } = accepted
  let attached = ''
  const closed = accepted.closed
    ? accepted
    : await deps.waitForJob({
      tenant,
      job: id,
      isDone: ({ closed }) => closed,
      timeoutMs,
      signal,
      onAttached: text => { attached = text },
    })
  if (closed?.closed !== true) return undefined
  const found = await readableResults(deps, { retentionMs }, closed)
  if ('code' in found) return found
  const { job, manifest } = found
  const [{ rows }, header] = await Promise.all([
    deps.page(job, manifest, {
      afterRow: 0, limit: job.preflight.totalRows, attached: attachedBlocksOf(attached),
    }),
    deps.openHeader(job),
  ])
  return {
    ...jobBody(job, header),
    preflight: job.preflight,
    results: rows.map(createRowShape(job.service)),
  }
}
