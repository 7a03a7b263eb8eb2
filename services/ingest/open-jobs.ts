import type { Job } from '../jobs/job.ts'
import type { JobStore } from '../jobs/store.ts'
import type { Deps } from './ports.ts'

/** Jobs read at a time, so that a tenant with thousands of open jobs does not block others. */
const READ_AT_ONCE = 100

/** Reads all open jobs of a tenant. */
export function createOpenJobs (
  store: Pick<JobStore, 'openJobs' | 'read'>
): Deps['openJobs'] {
  return async tenant => {
    const ids = (await store.openJobs(tenant)).map(({ job }) => job)
    const jobs: Job[] = []
    for (let from = 0; from < ids.length; from += READ_AT_ONCE) {
      const some = ids.slice(from, from + READ_AT_ONCE)
      const read = await Promise.all(some.map(id => store.read(tenant, id)))
      jobs.push(...read.filter(job => job !== undefined))
    }
    return jobs
  }
}
