import type { VerificationBody } from '../../schemas/api/verifications.ts'
import { jobBody } from '../jobs/job-view.ts'
import type { Job } from '../jobs/job.ts'
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
 * closed in time. Reads the rows as soon as the job has ended, while its final record is being
 * stored. A job that was rebuilt in between ends again: then its rows are read later.
 */
export async function awaitResults (
  deps: AwaitingDeps, { retentionMs, job: accepted, timeoutMs, signal }: AwaitedJob
): Promise<VerificationBody | ApiError | undefined> {
  const endsAt = performance.now() + timeoutMs
  const { tenant, id } = accepted
  const wait = async (isDone: (job: Job) => boolean) => await deps.waitForJob({
    tenant, job: id, isDone, timeoutMs: endsAt - performance.now(), signal,
  })
  const ended = accepted.closed ? accepted : await wait(({ ended }) => ended)
  if (ended?.ended !== true) return undefined
  const [answer, closed] = await Promise.all([
    readRows(deps, { retentionMs }, ended), ended.closed ? ended : wait(({ closed }) => closed),
  ])
  if (closed?.closed !== true || closed.endedAtMs !== ended.endedAtMs) return undefined
  if ('code' in answer) return answer
  const { rows, header } = answer
  return {
    ...jobBody(closed, header),
    preflight: closed.preflight,
    results: rows.map(createRowShape(closed.service)),
  }
}

async function readRows (deps: AwaitingDeps, retention: ResultRetention, ended: Job) {
  const found = await readableResults(deps, retention, ended)
  if ('code' in found) return found
  const { job, manifest } = found
  const [{ rows }, header] = await Promise.all([
    deps.page(job, manifest, { afterRow: 0, limit: job.preflight.totalRows }),
    deps.openHeader(job),
  ])
  return { rows, header }
}
