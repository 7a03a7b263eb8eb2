import type { FastifyRequest } from 'fastify'
import type { JobBody } from '../../schemas/api/job.ts'
import type { JobListBody } from '../../schemas/api/list-jobs.ts'
import type { Job, JobStatus } from '../jobs/job.ts'
import { jobBodies } from './find-job.ts'
import type { IngestDeps } from './ports.ts'

export type ListFilter = {
  readonly limit: number
  /** Only jobs older than this one; '' for the newest. */
  readonly after: string
  readonly status: JobStatus | ''
  readonly service: string
  /** Only jobs created from here on. */
  readonly fromMs?: number
  /** Only jobs created before this time. */
  readonly toMs?: number
}

type JobPage = { readonly jobs: readonly Job[], readonly hasMore: boolean }

/**
 * A page of the jobs of a tenant, newest first: open ones from Redis, closed ones from the archive.
 * Redis is read first, because a job is in the archive before it leaves Redis: so none is missed.
 * Redis wins for a job in both.
 */
export async function listJobs (
  deps: Pick<IngestDeps, 'openJobs' | 'listArchived'>, tenant: string, filter: ListFilter
): Promise<JobPage> {
  const { limit, after, status, service, fromMs = -Infinity, toMs = Infinity } = filter
  const open = await deps.openJobs(tenant)
  const archived = await deps.listArchived(tenant, {
    ...filter,
    // Redis may have another status for each open job; one more shows whether there is a next page.
    limit: limit + open.length + 1,
    before: after,
  })
  const byId = new Map([...archived, ...open].map(job => [job.id, job]))
  const wanted = [...byId.values()]
    .filter(job => after === '' || job.id < after)
    .filter(job => status === '' || job.status === status)
    .filter(job => service === '' || job.service === service)
    .filter(({ createdAtMs }) => createdAtMs >= fromMs && createdAtMs < toMs)
    .sort((a, b) => (a.id < b.id ? 1 : -1))
  return { jobs: wanted.slice(0, limit), hasMore: wanted.length > limit }
}

type ListDeps = Pick<IngestDeps, 'openJobs' | 'listArchived' | 'findErasures' | 'openHeader'>
type Labels = Readonly<Record<string, string>>

/** Labels are sealed, so each job is opened to be compared; this bounds the work of a request. */
const MAX_OPENED_JOBS = 500
const JOBS_PER_BATCH = 100

/**
 * A page of the jobs with these labels. It ends early after `MAX_OPENED_JOBS`: then its cursor says
 * where the search goes on, and `has_more` is true.
 */
export async function listLabeled (
  deps: ListDeps, tenant: string,
  { labels, ...filter }: ListFilter & { readonly labels: Labels }
): Promise<JobListBody> {
  const data: JobBody[] = []
  let { after } = filter
  for (let opened = 0; opened < MAX_OPENED_JOBS; opened += JOBS_PER_BATCH) {
    const { jobs, hasMore } = await listJobs(deps, tenant, {
      ...filter, after, limit: JOBS_PER_BATCH,
    })
    for (const body of await jobBodies(deps, tenant, jobs)) {
      if (!hasLabels(body, labels)) continue
      // The next match shows that there is a next page.
      if (data.length === filter.limit) return pageOf(data, data.at(-1)?.id)
      data.push(body)
    }
    if (!hasMore) return pageOf(data)
    after = jobs.at(-1)?.id ?? after
  }
  return pageOf(data, data.length === filter.limit ? data.at(-1)?.id : after)
}

const pageOf = (data: JobBody[], cursor?: string): JobListBody =>
  ({ data, has_more: cursor !== undefined, next_cursor: cursor ?? null })

function hasLabels ({ metadata }: JobBody, labels: Labels): boolean {
  return Object.entries(labels)
    .every(([name, value]) => Object.hasOwn(metadata, name) && metadata[name] === value)
}

const LABEL = /^metadata\[(.*)\]$/s

/** A hook that collects the fields `metadata[...]` of a query in one object. */
export async function labelsInQuery (request: FastifyRequest): Promise<void> {
  const query = request.query as Record<string, unknown>
  const labels: [string, unknown][] = []
  const rest: [string, unknown][] = []
  for (const [name, value] of Object.entries(query)) {
    const label = LABEL.exec(name)?.[1]
    if (label === undefined) rest.push([name, value])
    else labels.push([label, value])
  }
  if (labels.length === 0) return
  request.query = { ...Object.fromEntries(rest), metadata: Object.fromEntries(labels) }
}
