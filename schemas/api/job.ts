import { Type, type Static } from 'typebox'
import {
  Count, limitParameter, Micros, pageSchema, serviceSlug, TextOrNull, Time, timeParameter,
} from './parts.ts'
import { ROW_STATUSES, type RowStatus } from './verdicts.ts'

/** The job of the examples. */
export const EXAMPLE_JOB_ID = 'job_01jd3v8zj7m5n2k4q6r8s0t1w3'

/** The path of one job. An id of another form is unknown, which the handler says. */
export const JobPathSchema = Type.Object({ id: Type.String({ examples: [EXAMPLE_JOB_ID] }) })
export type JobPath = Static<typeof JobPathSchema>

/** The query of DELETE /api/v1/jobs/{id}. */
export const EraseJobQuerySchema = Type.Object({
  cache: Type.Optional(Type.Enum(['true', 'false'], {
    default: 'false',
    description: 'true: also deletes the cached verdicts of the contacts of this job, whichever ' +
      'job they come from. The next job with such a contact checks it again, and pays for it.',
  })),
}, { additionalProperties: false })
export type EraseJobQuery = Static<typeof EraseJobQuerySchema>

/** The longest wait for a job: below the idle timeouts of common proxies and clients. */
export const MAX_WAIT_SECONDS = 25

/** The query of GET /api/v1/jobs/{id}. Unknown parameters are ignored, as they always were. */
export const JobQuerySchema = Type.Object({
  wait: Type.Optional(Type.Integer({
    minimum: 0,
    maximum: MAX_WAIT_SECONDS,
    default: 0,
    description: 'Long polling: seconds to wait until the status differs from that at the start ' +
      'of the request. The answer comes as soon as it does, at the end of the wait, and at once ' +
      'for a job that has ended.',
  })),
})
export type JobQuery = Static<typeof JobQuerySchema>

/** Every status a job can show, in the order it may pass them. */
export const JOB_STATES = [
  'queued', 'preparing', 'verifying', 'completed', 'cancelling', 'cancelled', 'failed',
] as const

/** Every row of an ended job is in exactly one of these. */
export const USAGE_COUNTERS = [
  'cacheHits', 'freshRecords', 'invalidRecords', 'duplicateRecords', 'unknownRecords',
  'cancelledRecords',
] as const

/** Every row is counted in exactly one of these, so at any time they add up to `totalRows`. */
export const ROW_COUNTERS = [...USAGE_COUNTERS, 'pendingRecords'] as const

/** Rows by verdict; `unknown` for those without one. */
export type VerdictsBody = Readonly<Record<RowStatus, number>>

const NOT_KNOWN = 'null if it is not known: an older release counted rows of the job, or a fault ' +
  'of the service cost it duplicates.'

const Verdicts = Type.Unsafe<VerdictsBody | null>({
  type: ['object', 'null'],
  required: [...ROW_STATUSES],
  properties: Object.fromEntries(ROW_STATUSES.map(status =>
    [status, { type: 'integer', minimum: 0 }])),
  description: 'How many rows have which status in the results. A duplicate counts together with ' +
    'its original, so at any time they add up to successRecords + failedRecords, and at the end ' +
    `to totalRows. ${NOT_KNOWN}`,
})

const Reasons = Type.Unsafe<Readonly<Record<string, number>> | null>({
  type: ['object', 'null'],
  additionalProperties: { type: 'integer', minimum: 1 },
  description: 'How many rows have which reason in the results, in alphabetical order. They add ' +
    'up to the same as verdicts, and are null with them.',
})

const ENDED = '2026-08-11T10:00:02.500Z'

const completed = {
  id: EXAMPLE_JOB_ID,
  status: 'completed',
  totalRows: 4,
  cacheHits: 0,
  freshRecords: 2,
  successRecords: 3,
  failedRecords: 1,
  createdAt: '2026-08-11T10:00:00.000Z',
  updatedAt: ENDED,
  resultUrl: `/api/v1/jobs/${EXAMPLE_JOB_ID}/results`,
  service: 'phone-validation',
  invalidRows: 1,
  duplicateRows: 1,
  invalidRecords: 1,
  duplicateRecords: 1,
  unknownRecords: 0,
  cancelledRecords: 0,
  pendingRecords: 0,
  verdicts: { valid: 3, invalid: 1, risky: 0, unknown: 0 },
  reasons: { assigned_range: 3, not_a_phone_number: 1 },
  progressPercent: 100,
  maxQuoteMicros: 4_000,
  chargedMicros: 4_000,
  releasedMicros: 0,
  metadata: {},
  completedAt: ENDED,
  hasOriginalColumns: false,
  erasedAt: null,
  erasureCompletedAt: null,
  deadline: null,
  waiting: null,
} as const

/** The rows of a job that wait for their next check. */
export type WaitingBody = {
  readonly rows: number
  readonly reasons: Readonly<Record<string, number>>
  readonly estimatedEndAt: string
}

const Waiting = Type.Unsafe<WaitingBody | null>({
  type: ['object', 'null'],
  required: ['rows', 'reasons', 'estimatedEndAt'],
  properties: {
    rows: Count('Rows that wait. They are among the pendingRecords.'),
    reasons: {
      type: 'object',
      additionalProperties: { type: 'integer', minimum: 1 },
      description: 'How many wait for which reason: names as in the column reason of the ' +
        'results, such as greylisted. A row that ended now would have it.',
    },
    estimatedEndAt: {
      type: 'string',
      description: 'ISO 8601, UTC, at most the deadline: from the time when the last of them is ' +
        'checked again, and from how long rows of the job took in the last minutes. It moves ' +
        'when a server asks to wait once more.',
    },
  },
  description: 'The rows that were checked and have no answer yet: their servers ask to come ' +
    'back later or take only so many questions at a time, a vendor works on them (timeout), or ' +
    'no check is available (unavailable). Cancel the job to end them now; verdicts stay. null ' +
    'while none waits, and in events.',
})

/** The status resource of a job. */
export const JobSchema = Type.Object({
  id: Type.String(),
  status: Type.Enum([...JOB_STATES], {
    description: 'queued: accepted. preparing: all rows are on their way. verifying: rows wait ' +
      'for a live check or are being checked. cancelling: checks under way are finished, all ' +
      'other rows end without one.',
  }),
  totalRows: Count(`At any time ${ROW_COUNTERS.join(' + ')}.`),
  cacheHits: Count('Rows answered from the cache of the organization.'),
  freshRecords: Count('Rows verified live: a check for this job gave their verdict.'),
  successRecords: Count('Rows with a verdict, duplicates of such rows included.'),
  failedRecords: Count('Rows without a verdict, duplicates of such rows included. At the end ' +
    'successRecords + failedRecords = totalRows.'),
  createdAt: Time,
  updatedAt: Time,
  resultUrl: Type.String({ description: 'Host-relative path of the results.' }),
  service: Type.String(),
  invalidRows: Count('As in the preflight.'),
  duplicateRows: Count('As in the preflight.'),
  invalidRecords: Count('Rows that ended as invalid input, or are on a list of blocked ' +
    'or suppressed contacts; at the end all invalidRows.'),
  duplicateRecords: Count('Rows that ended as duplicates; at the end all duplicateRows.'),
  unknownRecords: Count('Rows that ended without a verdict, other than by a cancellation.'),
  cancelledRecords: Count('Rows that were cancelled before they were verified.'),
  pendingRecords: Count('Rows that have not ended; at the end 0.'),
  verdicts: Verdicts,
  reasons: Reasons,
  progressPercent: Type.Integer({ minimum: 0, maximum: 100 }),
  maxQuoteMicros: Micros,
  chargedMicros: Micros,
  releasedMicros: Micros,
  metadata: Type.Unsafe<Record<string, string>>({
    type: 'object', additionalProperties: { type: 'string' },
  }),
  options: Type.Optional(Type.Array(Type.String(), {
    description: 'The priced options that the job has chosen; missing if there are none.',
  })),
  completedAt: Type.Unsafe<string | null>({ type: ['string', 'null'] }),
  hasOriginalColumns: Type.Boolean({
    description: 'Whether the job was created from a file whose columns the results can be ' +
      'joined with: join=original.',
  }),
  erasedAt: TextOrNull('When the job was erased: since then nobody can read its results, ' +
    'inputs and metadata. null for a job that is not erased.'),
  erasureCompletedAt: TextOrNull('When the last copy of its key was deleted from all stores, ' +
    'usually within half an hour; null before.'),
  deadline: TextOrNull('ISO 8601, UTC: when rows that still wait end as unknown, as the request ' +
    'asked for. null for a job without the option.'),
  waiting: Waiting,
}, { title: 'Job', examples: [completed] })
export type JobBody = Static<typeof JobSchema>

/** One job in several states, for examples. */
export const EXAMPLE_JOBS = {
  completed,
  cancelling: {
    ...completed,
    status: 'cancelling',
    freshRecords: 0,
    successRecords: 0,
    pendingRecords: 2,
    verdicts: { valid: 0, invalid: 1, risky: 0, unknown: 0 },
    reasons: { not_a_phone_number: 1 },
    progressPercent: 50,
    chargedMicros: 0,
    completedAt: null,
  },
  waiting: {
    ...completed,
    status: 'verifying',
    service: 'email-validation',
    freshRecords: 0,
    successRecords: 0,
    pendingRecords: 2,
    verdicts: { valid: 0, invalid: 1, risky: 0, unknown: 0 },
    reasons: { not_an_email: 1 },
    progressPercent: 50,
    chargedMicros: 0,
    completedAt: null,
    deadline: '2026-08-11T12:00:00.000Z',
    waiting: {
      rows: 2, reasons: { greylisted: 2 }, estimatedEndAt: '2026-08-11T10:05:03.000Z',
    },
  },
  erased: { ...completed, erasedAt: '2026-08-12T09:30:00.000Z' },
} satisfies Readonly<Record<string, JobBody>>

/** The data of an event of GET /api/v1/jobs/{id}/events: the job as it is then, and more. */
export type ProgressBody = JobBody & {
  /** Blocks of rows that were finished since the event before, by their number from 1. */
  readonly finished: readonly {
    readonly block: number, readonly chunk: number, readonly rows: number,
  }[]
  /** The rows after it finish after this event: `after` of provisional results. */
  readonly cursor: string
}

const EXAMPLE_PROGRESS: ProgressBody = {
  ...EXAMPLE_JOBS.cancelling,
  status: 'verifying',
  finished: [{ block: 1, chunk: 0, rows: 2 }],
  cursor: '1.1.1.0.Rk3vJ0dH8yAqzW2b',
}

/**
 * The answer to GET /api/v1/jobs/{id}/events. Without a type: the schema is that of each event for
 * some tools, and that of the whole text for others, as OpenAPI 3.1 has none for a stream.
 */
export const JobEventsSchema = Type.Unknown({
  description: 'Events with id, event and data. The data is the job as GET /api/v1/jobs/{id} ' +
    'returns it, with two more members: `finished`, the blocks of rows that were finished since ' +
    'the event before, in their order, each with its number, its chunk of the job and its number ' +
    'of rows; and `cursor`, for `after` of the provisional results: rows that are complete after ' +
    'this event.',
  examples: [
    `id: ${EXAMPLE_PROGRESS.cursor}.verifying\nevent: progress\n` +
    `data: ${JSON.stringify(EXAMPLE_PROGRESS)}\n\n`,
  ],
})

/** What has the form of a job id. */
export const JOB_ID_PATTERN = '^job_[0-7][0-9a-hjkmnp-tv-z]{25}$'

export const DEFAULT_JOBS = 20

/** The query of GET /api/v1/jobs. */
export const ListJobsQuerySchema = Type.Object({
  limit: limitParameter('Jobs', DEFAULT_JOBS),
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
export type ListJobsQuery = Static<typeof ListJobsQuerySchema>

/** A page of jobs, newest first. */
export const JobListSchema = pageSchema(JobSchema, { title: 'JobList' })
export type JobListBody = Static<typeof JobListSchema>
