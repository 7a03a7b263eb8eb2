import type { ResultRow } from '../../schemas/api/results.ts'
import type { VerificationBody } from '../../schemas/api/verifications.ts'
import { jobBody } from '../jobs/job-view.ts'
import type { Job, ManifestEntry } from '../jobs/job.ts'
import { attachedBlocksOf } from '../jobs/results/result-blocks.ts'
import type { ApiError } from './errors.ts'
import { readableResults, type ResultRetention } from './find-job.ts'
import type { IngestDeps } from './ports.ts'
import { createRowShape } from './results-response.ts'

export type AwaitingDeps = Pick<IngestDeps,
  'waitForJob' | 'attachedTo' | 'findResults' | 'findErasures' | 'rows' | 'openHeader' | 'now'>

export type AwaitedJob = ResultRetention & {
  /** An accepted job. */
  readonly job: Job
  readonly timeoutMs: number
  /** Aborted when nobody waits any longer. */
  readonly signal: AbortSignal
}

/**
 * The rows of a job once it has ended, or the error why they cannot be read; undefined if it has
 * not ended in time. The blocks of a small job come with the notification of its end; without them
 * the rows are read once they are stored. A job that was rebuilt in between ends again: then its
 * rows are read later.
 */
export async function awaitResults (
  deps: AwaitingDeps, { retentionMs, job: accepted, timeoutMs, signal }: AwaitedJob
): Promise<VerificationBody | ApiError | undefined> {
  const endsAt = performance.now() + timeoutMs
  const { tenant, id } = accepted
  const wait = (isDone: (job: Job) => boolean) => deps.waitForJob({
    tenant, job: id, isDone, timeoutMs: endsAt - performance.now(), signal,
  })
  const hasRows = ({ ended, closed }: Job) => closed || (ended && deps.attachedTo(id) !== '')
  const ended = hasRows(accepted) ? accepted : await wait(hasRows)
  if (ended === undefined || !hasRows(ended)) return undefined
  const found = await readableResults(deps, { retentionMs }, ended)
  if ('code' in found) return found
  const attached = attachedBlocksOf(deps.attachedTo(id))
  if (!ended.closed && !areAll(found.manifest, attached)) {
    const closed = await wait(isClosed)
    return closed?.closed === true
      ? await awaitResults(deps, { retentionMs, job: closed, timeoutMs: 0, signal })
      : undefined
  }
  if (found.job.endedAtMs !== ended.endedAtMs) return undefined
  const { job, manifest } = found
  const readRows = async () => {
    const shape = createRowShape(ended.service)
    const rows: ResultRow[] = []
    const options = { limit: job.preflight.totalRows, attached }
    for await (const some of deps.rows(job, manifest, options)) rows.push(...some.map(shape))
    return rows
  }
  const [results, header] = await Promise.all([readRows(), deps.openHeader(job)])
  return {
    ...jobBody(ended, header),
    preflight: ended.preflight,
    results,
  }
}

const isClosed = ({ closed }: Job) => closed

function areAll (
  manifest: readonly ManifestEntry[], blocks: readonly { readonly digest: string }[]
): boolean {
  const digests = new Set(blocks.map(({ digest }) => digest))
  return manifest.every(({ digest }) => digests.has(digest))
}
