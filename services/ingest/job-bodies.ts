import type { JobBody } from '../../schemas/api/job.ts'
import type { JobErasure } from '../jobs/erasures.ts'
import { jobBody } from '../jobs/job-view.ts'
import type { Job } from '../jobs/job.ts'
import type { IngestDeps } from './ports.ts'

type Deps = Pick<IngestDeps, 'findErasures' | 'openHeader'>

/** The JSON bodies of jobs of one tenant, in order. */
export async function jobBodies (
  deps: Deps, tenant: string, jobs: readonly Job[]
): Promise<readonly JobBody[]> {
  const closed = jobs.filter(job => job.closed).map(({ id }) => id)
  const erasures = closed.length === 0
    ? new Map<string, JobErasure>()
    : await deps.findErasures(tenant, closed)
  return await Promise.all(jobs.map(async job => {
    const erasure = erasures.get(job.id)
    return erasure === undefined
      ? jobBody(job, await deps.openHeader(job))
      : erasedBody(job, erasure)
  }))
}

/** The body of an erased job, whose metadata is gone. */
export function erasedBody (job: Job, erasure: JobErasure): JobBody {
  return jobBody(job, { metadata: {}, webhookUrl: '' }, erasure)
}
