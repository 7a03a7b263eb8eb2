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
 * closed in time. Its rows are stored together with its final record, so they are not read before;
 * those of a small job come with the notification of the close. A job that was rebuilt in between
 * ends again: then its rows are read later.
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
      isDone: isClosed,
      timeoutMs,
      signal,
      onAttached: text => { attached = text },
    })
  if (closed?.closed !== true) return undefined
  const found = await readableResults(deps, { retentionMs }, closed)
  if ('code' in found) return found
  const { job, manifest } = found
  if (job.endedAtMs !== closed.endedAtMs) return undefined
  const [{ rows }, header] = await Promise.all([
    deps.page(job, manifest, {
      afterRow: 0, limit: job.preflight.totalRows, attached: attachedBlocksOf(attached),
    }),
    deps.openHeader(job),
  ])
  return {
    ...jobBody(closed, header),
    preflight: closed.preflight,
    results: rows.map(createRowShape(closed.service)),
  }
}

const isClosed = ({ closed }: Job) => closed
