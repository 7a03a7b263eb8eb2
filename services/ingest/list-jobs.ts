import type { Job, JobStatus } from '../jobs/job.ts'
import type { Deps } from './ports.ts'
import { visibleStatus } from './response.ts'

export type ListFilter = {
  readonly limit: number
  /** Only jobs older than this one; '' for the newest. */
  readonly after: string
  readonly status: JobStatus | ''
  readonly service: string
}

export type JobPage = { readonly jobs: readonly Job[], readonly hasMore: boolean }

/**
 * A page of the jobs of a tenant, newest first: open ones from Redis, closed ones from the archive.
 * Redis is read first, because a job is in the archive before it leaves Redis: so none is missed.
 * Redis wins for a job in both.
 */
export async function listJobs (
  deps: Pick<Deps, 'openJobs' | 'listArchived'>, tenant: string, filter: ListFilter
): Promise<JobPage> {
  const { limit, after, status, service } = filter
  const open = await deps.openJobs(tenant)
  const archived = await deps.listArchived(tenant, {
    // Redis may have another status for each open job; one more shows whether there is a next page.
    limit: limit + open.length + 1, before: after, status, service,
  })
  const byId = new Map([...archived, ...open].map(job => [job.id, job]))
  const wanted = [...byId.values()]
    .filter(job => after === '' || job.id < after)
    .filter(job => status === '' || visibleStatus(job) === status)
    .filter(job => service === '' || job.service === service)
    .sort((a, b) => (a.id < b.id ? 1 : -1))
  return { jobs: wanted.slice(0, limit), hasMore: wanted.length > limit }
}
