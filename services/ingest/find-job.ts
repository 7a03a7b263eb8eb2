import type { Job, ManifestEntry } from '../jobs/job.ts'
import type { Deps } from './ports.ts'

/** The format of job ids. */
export const JOB_ID = /^job_[0-7][0-9a-hjkmnp-tv-z]{25}$/

/**
 * A job of this tenant, running or closed; undefined, without a lookup, for a text that is not a
 * job id.
 */
export async function findJob (deps: Deps, tenant: string, id: string): Promise<Job | undefined> {
  if (!JOB_ID.test(id)) return undefined
  return await deps.readJob(tenant, id) ?? (await deps.findArchived(tenant, id))?.job
}

/** A closed job with the manifest of its results; undefined if it is not stored any longer. */
export async function findResults (
  deps: Deps, tenant: string, id: string
): Promise<{ job: Job, manifest: readonly ManifestEntry[] } | undefined> {
  return JOB_ID.test(id) ? deps.findArchived(tenant, id) : undefined
}
