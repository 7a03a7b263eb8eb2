import type { Job, ManifestEntry } from '../jobs/job.ts'
import type { Parts } from './ports.ts'

/** What the id of a job looks like. */
export const JOB_ID = /^job_[0-7][0-9a-hjkmnp-tv-z]{25}$/

/** A job of this tenant, running or closed; undefined for any other text, without a look-up. */
export async function findJob (parts: Parts, tenant: string, id: string): Promise<Job | undefined> {
  if (!JOB_ID.test(id)) return undefined
  return await parts.readJob(tenant, id) ?? (await parts.findArchived(tenant, id))?.job
}

/** A closed job with what its results are made of; undefined when it is not stored any more. */
export async function findResults (
  parts: Parts, tenant: string, id: string
): Promise<{ job: Job, manifest: readonly ManifestEntry[] } | undefined> {
  return JOB_ID.test(id) ? parts.findArchived(tenant, id) : undefined
}
