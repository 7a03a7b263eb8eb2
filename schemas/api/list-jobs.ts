import { Type, type Static } from 'typebox'
import { JOB_STATES, JobSchema } from './job.ts'
import { pageOf } from './page.ts'
import { serviceSlug } from './service.ts'
import { timeParameter } from './time.ts'

/** What has the form of a job id. */
const JOB_ID_PATTERN = '^job_[0-7][0-9a-hjkmnp-tv-z]{25}$'

export const DEFAULT_JOBS = 20

/** The query of GET /api/v1/jobs. */
export const ListJobsQuerySchema = Type.Object({
  limit: Type.Optional(Type.Integer({
    minimum: 1, maximum: 100, default: DEFAULT_JOBS, description: 'Jobs on a page.',
  })),
  after: Type.Optional(Type.String({
    pattern: JOB_ID_PATTERN,
    description: 'The next_cursor of the page before: only jobs older than this one.',
  })),
  status: Type.Optional(Type.Enum([...JOB_STATES], { description: 'Only jobs of this status.' })),
  service: Type.Optional(serviceSlug('Only jobs of this service.')),
  created_from: timeParameter('only jobs created from then on.'),
  created_to: timeParameter('only jobs created before then; a date includes its whole day.'),
  metadata: Type.Optional(Type.Unsafe<Readonly<Record<string, string>>>({
    type: 'object',
    maxProperties: 10,
    propertyNames: { maxLength: 40 },
    additionalProperties: { type: 'string', maxLength: 500 },
    description: 'Only jobs with all these labels: metadata[campaign]=spring. A page may have ' +
      'fewer jobs than its limit, even none: follow next_cursor while has_more is true.',
  })),
}, { additionalProperties: false })

/** The type of that query. */
export type ListJobsQuery = Static<typeof ListJobsQuerySchema>

/** A page of jobs, newest first. */
export const JobListSchema = pageOf(JobSchema, { title: 'JobList' })

/** The type of that page. */
export type JobListBody = Static<typeof JobListSchema>
