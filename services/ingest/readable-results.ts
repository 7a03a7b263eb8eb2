import type { Job, ManifestEntry } from '../jobs/job.ts'
import { SMALL_LANE_ROWS } from '../topology.ts'
import type { ApiError } from './errors.ts'
import { findJob, findResults } from './find-job.ts'
import type { Deps } from './ports.ts'
import type { Settings } from './settings.ts'
import { visibleStatus } from './response.ts'

/** A closed job with the manifest of its results. */
export type Found = { readonly job: Job, readonly manifest: readonly ManifestEntry[] }

/** How long results are kept. */
export type Retention = Pick<Settings, 'retentionMs'>

const ERASED = 'The contents of this job were erased.'

type Wanted = { readonly tenant: string, readonly id: string }

/** A job whose results can be read, or the error why they cannot. */
export async function findReadable (
  deps: Deps, { retentionMs }: Retention, { tenant, id }: Wanted
): Promise<Found | ApiError> {
  const job = await findJob(deps, tenant, id)
  if (job === undefined) return { code: 'job_not_found' }
  if (!job.closed) return notCompleted(job)
  if (job.endedAtMs + retentionMs <= deps.now()) return { code: 'results_expired' }
  if (await deps.isErased(tenant, id)) return { code: 'results_expired', message: ERASED }
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
