import type { Job, ManifestEntry } from '../jobs/job.ts'
import type { Deps } from './ports.ts'

/** What the id of a job looks like. */
export const JOB_ID = /^job_[0-7][0-9a-hjkmnp-tv-z]{25}$/

/** A job of this tenant, running or closed; undefined for any other text, without a look-up. */
export async function findJob (deps: Deps, tenant: string, id: string): Promise<Job | undefined> {
  if (!JOB_ID.test(id)) return undefined
  return await deps.readJob(tenant, id) ?? (await deps.findArchived(tenant, id))?.job
}

/** A closed job with what its results are made of; undefined when it is not stored any more. */
export async function findResults (
  deps: Deps, tenant: string, id: string
): Promise<{ job: Job, manifest: readonly ManifestEntry[] } | undefined> {
  return JOB_ID.test(id) ? deps.findArchived(tenant, id) : undefined
}
