import type { Job, ManifestEntry } from '../jobs/job.ts'
import { SMALL_LANE_ROWS } from '../topology.ts'
import type { ApiError } from './errors.ts'
import type { IngestDeps } from './ports.ts'
import { visibleStatus } from '../jobs/job-view.ts'
import type { Settings } from './config.ts'

/** The format of job ids. */
export const JOB_ID = /^job_[0-7][0-9a-hjkmnp-tv-z]{25}$/

/**
 * A job of this tenant, running or closed; undefined, without a lookup, for a text that is not a
 * job id.
 */
export async function findJob (
  deps: IngestDeps, tenant: string, id: string
): Promise<Job | undefined> {
  if (!JOB_ID.test(id)) return undefined
  return await deps.readJob(tenant, id) ?? (await deps.findArchived(tenant, id))?.job
}

/** A closed job with the manifest of its results. */
export type FoundResults = { readonly job: Job, readonly manifest: readonly ManifestEntry[] }

/** A closed job with the manifest of its results; undefined if it is not stored any longer. */
export async function findResults (
  deps: IngestDeps, tenant: string, id: string
): Promise<FoundResults | undefined> {
  return JOB_ID.test(id) ? deps.findArchived(tenant, id) : undefined
}

/** How long results are kept. */
export type ResultRetention = Pick<Settings, 'retentionMs'>

type Wanted = { readonly tenant: string, readonly id: string }

/** A job whose results can be read, or the error why they cannot. */
export async function findReadable (
  deps: IngestDeps, { retentionMs }: ResultRetention, { tenant, id }: Wanted
): Promise<FoundResults | ApiError> {
  const job = await findJob(deps, tenant, id)
  if (job === undefined) return { code: 'job_not_found' }
  if (!job.closed) return notCompleted(job)
  if (job.endedAtMs + retentionMs <= deps.now()) return { code: 'results_expired' }
  if ((await deps.findErasures(tenant, [id])).has(id)) return { code: 'results_erased' }
  return await findResults(deps, tenant, id) ?? { code: 'temporarily_unavailable' }
}

function notCompleted (job: Job): ApiError {
  const isSmall = job.preflight.totalRows <= SMALL_LANE_ROWS
  return {
    code: 'job_not_completed',
    retryAfterSeconds: isSmall ? 1 : 5,
    more: { status: visibleStatus(job) },
  }
}
