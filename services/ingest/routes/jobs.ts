import { finished as whenFinished, Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import {
  DEFAULT_JOBS, type EraseJobQuery, EraseJobQuerySchema, EXAMPLE_JOBS, JOB_STATES, JobEventsSchema,
  JobListSchema, type JobPath, JobPathSchema, type JobQuery, JobQuerySchema, JobSchema,
  type ListJobsQuery, ListJobsQuerySchema, type ProgressBody,
} from '../../../schemas/api/job.ts'
import { withExample } from '../../../schemas/api/parts.ts'
import {
  type ResultsQuery, ResultsQuerySchema, ResultsSchema,
} from '../../../schemas/api/results.ts'
import { jobBody } from '../../jobs/job-view.ts'
import type { Job, ManifestEntry } from '../../jobs/job.ts'
import {
  checkCursor, countedBlocks, cursorAfter, decodeResultCursor, encodeResultCursor,
  type ResultCursor,
} from '../../jobs/results/provisional.ts'
import type { JobWithManifest } from '../../jobs/store.ts'
import { countBits } from '../../runtime/platform/bitmap.ts'
import type { IngestDeps } from '../deps.ts'
import { type ApiError, ApiException } from '../errors.ts'
import {
  erasedBody, findCounted, findJob, findReadable, JOB_ID, jobBodies, listJobs, listLabeled,
  type ResultRetention, untilClosed, waitForChange,
} from '../find-jobs.ts'
import { requireCaller, isKeyValid } from '../guard.ts'
import { createTenantGate } from '../limits/limiter.ts'
import { timeRange } from '../request.ts'
import { EVENT_STREAM } from '../response.ts'
import {
  buildSelection, formError, RESULT_TYPES, resultForm, type ResultForm, sendProvisional,
  sendResults, sendResultsPage,
} from '../results-response.ts'

/** GET /api/v1/jobs/{id}: the status and progress of a job of the caller's tenant. */
export function getJobRoute (deps: IngestDeps): RouteOptions {
  return {
    method: 'GET',
    url: '/api/v1/jobs/:id',
    config: {
      scope: 'jobs:read',
      yields: { '/api/v1/jobs/{id}': '/id' },
      errors: ['job_not_found'],
      sample: {
        client: () => [
          'const job = await client.job(jobId)',
          'console.log(job.status, job.progressPercent)',
        ],
      },
    },
    schema: {
      operationId: 'getJob',
      summary: 'Read the status of a job',
      description: 'With `wait` the answer comes when the status changes.',
      tags: ['Jobs'],
      params: JobPathSchema,
      querystring: JobQuerySchema,
      response: { 200: withExample(JobSchema, EXAMPLE_JOBS.waiting) },
    },
    handler: async (request, reply) => {
      const { id } = request.params as JobPath
      const { wait = 0 } = request.query as JobQuery
      const read = async (tenant: string, job: string) => wait === 0
        ? await deps.readRecentJob(tenant, job)
        : await waitForChange(deps, request, { tenant, job, timeoutMs: wait * 1_000 })
      const job = await findJob(deps, requireCaller(request).tenant, id, read)
      const [body] = await jobBodies(deps, job.tenant, [job])
      return reply.send(body)
    },
  }
}

/** GET /api/v1/jobs: the jobs of the caller's tenant, newest first, a page at a time. */
export function listJobsRoute (deps: IngestDeps): RouteOptions {
  const gate = createTenantGate()
  return {
    method: 'GET',
    url: '/api/v1/jobs',
    config: {
      scope: 'jobs:read',
      yields: { '/api/v1/jobs/{id}': '/data/0/id' },
      sample: {
        query: '?limit=20&status=completed',
        client: () => [
          'for await (const job of client.jobs({ status: \'completed\' })) {',
          '  console.log(job.id, job.totalRows)',
          '}',
        ],
      },
    },
    schema: {
      operationId: 'listJobs',
      summary: 'List jobs, newest first',
      tags: ['Jobs'],
      querystring: ListJobsQuerySchema,
      response: { 200: JobListSchema },
    },
    handler: async (request, reply) => {
      const { metadata: labels, created_from: _from, created_to: _to, ...query } =
        request.query as ListJobsQuery
      const { tenant } = requireCaller(request)
      const filter = {
        limit: DEFAULT_JOBS,
        after: '',
        status: '',
        service: '',
        ...query,
        ...timeRange(request.query as ListJobsQuery, { from: 'created_from', to: 'created_to' }),
      } as const
      if (labels !== undefined) {
        const read = () => listLabeled(deps, tenant, { ...filter, labels })
        return reply.send(await gate(tenant, read))
      }
      const { jobs, hasMore } = await listJobs(deps, tenant, filter)
      const data = await jobBodies(deps, tenant, jobs)
      const cursor = hasMore ? jobs.at(-1)?.id ?? null : null
      return reply.send({ data, has_more: hasMore, next_cursor: cursor })
    },
  }
}

/**
 * POST /api/v1/jobs/{id}/cancel: cancels a job. Checks under way finish and are charged, the rest
 * is released. Then the job is `cancelled`, and its complete results mark the rows without a check.
 * A repeated request gets the same answer until then.
 */
export function cancelJobRoute (deps: IngestDeps): RouteOptions {
  return {
    method: 'POST',
    url: '/api/v1/jobs/:id/cancel',
    config: {
      scope: 'jobs:write',
      yields: { '/api/v1/jobs/{id}': '/id' },
      errors: ['job_not_found', 'job_not_cancellable'],
      records: 'job.cancelled',
      sample: {
        client: () => ['const job = await client.cancel(jobId)', 'console.log(job.status)'],
      },
    },
    schema: {
      operationId: 'cancelJob',
      summary: 'Cancel a job',
      description: 'Checks under way finish and are charged, the rest is released. The job shows ' +
        'cancelling, then cancelled. Its results are complete; rows whose check had not started ' +
        'are unknown. The request has no body.',
      tags: ['Jobs'],
      params: JobPathSchema,
      response: { 202: withExample(JobSchema, EXAMPLE_JOBS.cancelling) },
    },
    handler: async (request, reply) => {
      const { id } = request.params as JobPath
      const { tenant } = requireCaller(request)
      const job = await findJob(deps, tenant, id)
      const outcome = await deps.cancel(tenant, job.id)
      // A job that only the archive knows has ended.
      if (outcome.kind !== 'cancelling') throw new ApiException({ code: 'job_not_cancellable' })
      return reply.code(202).send(jobBody(outcome.job, await deps.openHeader(outcome.job)))
    },
  }
}

/**
 * DELETE /api/v1/jobs/{id}: erases an ended job. Its contents are unreadable from now on; the last
 * copies of its key are deleted later. Repeated requests get the same answer.
 */
export function eraseJobRoute (deps: IngestDeps): RouteOptions {
  return {
    method: 'DELETE',
    url: '/api/v1/jobs/:id',
    config: {
      scope: 'jobs:write',
      errors: ['job_not_found', 'job_not_ended'],
      records: 'job.erased',
      sample: {
        client: () => [
          'const { erasedAt } = await client.eraseJob(jobId)',
          'console.log(erasedAt)',
        ],
      },
    },
    schema: {
      operationId: 'eraseJob',
      summary: 'Erase a job that has ended',
      description: 'Destroys the key of its inputs, results and metadata: results are answered ' +
        'with 410 at once, and nobody can decrypt what is stored. Counts, money and times stay. ' +
        'The last copies of the key are deleted at erasureCompletedAt. This cannot be undone.',
      tags: ['Jobs'],
      params: JobPathSchema,
      querystring: EraseJobQuerySchema,
      response: { 202: withExample(JobSchema, EXAMPLE_JOBS.erased) },
    },
    handler: async (request, reply) => {
      const { id } = request.params as JobPath
      const { cache } = request.query as EraseJobQuery
      const job = await findJob(deps, requireCaller(request).tenant, id)
      if (!job.ended) throw new ApiException({ code: 'job_not_ended' })
      await untilClosed(deps, job)
      const { tenant } = job
      const erasure = await deps.erase({ tenant, job: job.id, cache: cache === 'true' })
      return reply.code(202).send(erasedBody(job, erasure))
    },
  }
}

/** GET /api/v1/jobs/{id}/results: the results of an ended job. */
export function getResultsRoute (deps: IngestDeps, settings: ResultRetention): RouteOptions {
  return {
    method: 'GET',
    url: '/api/v1/jobs/:id/results',
    config: {
      scope: 'results:read',
      produces: Object.values(RESULT_TYPES),
      errors: ['job_not_found', 'job_not_completed', 'results_expired', 'results_erased',
        'invalid_request', 'cursor_moved'],
      records: 'results.downloaded',
      sends: {
        200: [
          'ETag', 'Vary', 'Content-Encoding', 'Content-Disposition', 'Next-Cursor',
          'Results-Complete',
        ],
        304: ['ETag', 'Vary'],
      },
      sample: {
        query: '?format=csv&status=valid&duplicates=drop',
        curl: ['--compressed -o verified.csv'],
        client: () => [
          'const clean = { status: \'valid\', duplicates: \'drop\' } as const',
          'for await (const row of client.resultRows(jobId, clean)) {',
          '  console.log(row.input, row.e164, row.carrier)',
          '}',
        ],
      },
    },
    schema: {
      operationId: 'getResults',
      summary: 'Read the results of a job',
      description: 'CSV by default, or pages of JSON, or all rows as JSON Lines, as an Excel ' +
        'workbook or in Parquet. Filters apply to rows as they are returned: a duplicate has ' +
        'the verdict of its original. With ' +
        '`provisional=true` the rows that are complete while the job runs, each once: send ' +
        '`Next-Cursor` as `after` for those that follow, until `Results-Complete` is true. An ' +
        'answer of many rows has pauses until the job ends, so that reading hardly slows it.',
      tags: ['Jobs'],
      params: JobPathSchema,
      querystring: ResultsQuerySchema,
      response: { 200: ResultsSchema, 304: { type: 'null' } },
    },
    handler: async (request, reply) => {
      const query = request.query as ResultsQuery
      const form = resultForm(query, request.headers.accept)
      const { id } = request.params as JobPath
      const find = query.provisional === undefined ? findReadable : findCounted
      const readable = await find(deps, settings, { tenant: requireCaller(request).tenant, id })
      const fault = formError(query, form)
      if (fault !== undefined) throw new ApiException(fault)
      return sendReadable(deps, readable, { request, reply, form })
    },
  }
}

const NOT_FROM_A_FILE: ApiError = {
  code: 'invalid_request',
  param: 'join',
  message: 'This job was not created from a file, so it has no original columns. Leave join out.',
}

const NOT_PROVISIONAL: ApiError = {
  code: 'invalid_request',
  param: 'after',
  message: 'after is for provisional=true only. Send both, or leave it out.',
}

type Exchange = {
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  readonly form: ResultForm
}

async function sendReadable (
  deps: IngestDeps, results: JobWithManifest, { request, reply, form }: Exchange
): Promise<FastifyReply> {
  const query = request.query as ResultsQuery
  const header = await deps.openHeader(results.job)
  const { columns, ids = false, options } = header
  const selected = buildSelection(query, { service: results.job.service, ids, options, form })
  if (query.join !== undefined && columns === undefined) throw new ApiException(NOT_FROM_A_FILE)
  const selection = { ...selected, ...query.join && columns && { original: columns } }
  const answering = { ...results, request, reply, header, selection }
  if (query.provisional !== undefined) return sendProvisional(deps, answering)
  if (query.after !== undefined) throw new ApiException(NOT_PROVISIONAL)
  return form === 'json'
    ? sendResultsPage(deps, answering)
    : sendResults(deps, answering, form)
}

/** A stream is read from Redis at most so often. */
const READ_EVERY_MS = 1_000
/** Proxies close connections that are silent for longer. */
const HEARTBEAT_MS = 15_000
/** How long clients wait before they connect again. */
const RETRY_MS = 2_000
/** Blocks in one event; a job has up to some hundred. */
const MAX_BLOCKS = 100

/** GET /api/v1/jobs/{id}/events: the progress of a job as server-sent events. */
export function jobEventsRoute (deps: IngestDeps): RouteOptions {
  return {
    method: 'GET',
    url: '/api/v1/jobs/:id/events',
    config: {
      scope: 'jobs:read',
      produces: EVENT_STREAM,
      headers: { type: 'object', properties: { 'Last-Event-ID': LAST_EVENT_ID } },
      errors: ['job_not_found', 'invalid_request', 'cursor_moved', 'too_many_streams'],
      sample: {
        curl: ['-N'],
        client: () => [
          'for await (const { type, data } of client.events(jobId)) {',
          '  console.log(type, data.progressPercent)',
          '}',
        ],
      },
    },
    schema: {
      operationId: 'streamJobEvents',
      summary: 'Follow the progress of a job',
      description: 'Server-sent events: `progress` when the status has changed or further rows ' +
        'are finished, at most once a second, then `end`. A client that connects again with ' +
        '`Last-Event-ID` misses nothing and gets nothing twice; after `end` the answer is 204. ' +
        'The service may close a stream at any time; a comment every 15 seconds keeps it open.',
      tags: ['Jobs'],
      params: JobPathSchema,
      response: { 200: JobEventsSchema, 204: { type: 'null' } },
    },
    handler: async (request, reply) => {
      const { id } = request.params as JobPath
      const { tenant, org } = requireCaller(request)
      const state = JOB_ID.test(id) ? await readState(deps, tenant, id) : undefined
      if (state === undefined) throw new ApiException({ code: 'job_not_found' })
      const last = readEventId(request.headers['last-event-id'])
      if (last === undefined) throw new ApiException(INVALID_EVENT_ID)
      if (checkCursor(state.job, state.blocks, last.cursor) === 'moved') {
        throw new ApiException({ code: 'cursor_moved' })
      }
      // What makes browsers not connect again.
      if (last.status === END) return reply.code(204).send()
      const stream = deps.eventStreams.open(org)
      if (stream === undefined) throw new ApiException({ code: 'too_many_streams' })
      const closed = new AbortController()
      // The client may have gone already.
      whenFinished(reply.raw, () => {
        closed.abort()
        stream.release()
      })
      // A connection that is kept open after the stream would delay the stop of the service.
      reply.headers({
        'content-type': `${EVENT_STREAM}; charset=utf-8`,
        connection: 'close',
        'x-accel-buffering': 'no',
      })
      const signal = AbortSignal.any([stream.signal, closed.signal])
      return reply.send(Readable.from(
        request.method === 'HEAD'
          ? []
          : streamEvents(deps, {
            state, last, signal, mayContinue: () => isKeyValid(request, deps),
          }),
        { objectMode: false }))
    },
  }
}

const LAST_EVENT_ID = {
  type: 'string',
  description: 'The id of the last event that was received: only later ones follow.',
}

const INVALID_EVENT_ID: ApiError = {
  code: 'invalid_request',
  param: 'Last-Event-ID',
  message: 'Last-Event-ID is not valid. Send the id of the last event unchanged, or leave it out.',
}

/** A job, and its blocks in the order in which they were counted. */
type CountedJob = { readonly job: Job, readonly blocks: readonly ManifestEntry[] }

/** What a client has: the blocks up to the cursor, and the status, which is '' before any event. */
type EventPosition = { readonly cursor: ResultCursor, readonly status: string }

const END = 'end'
const START: EventPosition = { cursor: cursorAfter([], 0), status: '' }
const STATUSES: readonly string[] = [...JOB_STATES, END]

/** The position of an event id; undefined for a text that is none. */
function readEventId (text: string | readonly string[] = ''): EventPosition | undefined {
  if (text === '') return START
  const [, before = '', status = ''] = /^(.+)\.([a-z]+)$/.exec(String(text)) ?? []
  const cursor = decodeResultCursor(before)
  return cursor === undefined || !STATUSES.includes(status) ? undefined : { cursor, status }
}

const eventId = ({ cursor, status }: EventPosition) => `${encodeResultCursor(cursor)}.${status}`

async function readState (
  { readWithManifest, findArchived }: IngestDeps, tenant: string, id: string
): Promise<CountedJob | undefined> {
  const recorded = await readWithManifest(tenant, id)
  // The record of a closed job that was rebuilt has no manifest.
  const record = recorded === undefined || recorded.job.closed
    ? await findArchived(tenant, id) ?? recorded
    : recorded
  return record && { job: record.job, blocks: countedBlocks(record.manifest) }
}

type Stream = {
  readonly state: CountedJob
  readonly last: EventPosition
  readonly signal: AbortSignal
  /** Whether the key that opened it is still valid. */
  readonly mayContinue: () => Promise<boolean>
}

/**
 * The events after the last one that the client has. Nothing is read while it takes none. The end
 * is sent when all rows can be read.
 */
async function * streamEvents (
  deps: IngestDeps, { state, last, signal, mayContinue }: Stream
): AsyncGenerator<string, void> {
  const { tenant, id } = state.job
  // Sends the headers as well.
  yield `retry: ${RETRY_MS}\n\n`
  let wroteAtMs = performance.now()
  let position = last
  for (let now: CountedJob | undefined = state; now !== undefined;) {
    const readAtMs = performance.now()
    const { job, blocks } = now
    const fit = checkCursor(job, blocks, position.cursor)
    // A client that connects again gets the error.
    if (fit === 'moved') return
    if (fit === 'fits' && (!job.ended || job.closed)) {
      for (const event of eventsAfter(position, { job, blocks })) {
        position = event.position
        const [body] = await jobBodies(deps, job.tenant, [job])
        const { type, finished } = event
        const cursor = encodeResultCursor(event.position.cursor)
        // https://html.spec.whatwg.org/multipage/server-sent-events.html
        yield `id: ${eventId(event.position)}\nevent: ${type}\n` +
          `data: ${JSON.stringify({ ...body, finished, cursor })}\n\n`
        wroteAtMs = performance.now()
      }
      if (position.status === END) return
    }
    const quietMs = performance.now() - wroteAtMs
    if (quietMs >= HEARTBEAT_MS) {
      yield ': still open\n\n'
      wroteAtMs = performance.now()
    }
    const latest = await deps.waitForJob({
      tenant,
      job: id,
      isDone: ({ status, updatedAtMs, closed }) =>
        closed || status !== job.status || updatedAtMs !== job.updatedAtMs,
      timeoutMs: Math.max(READ_EVERY_MS, HEARTBEAT_MS - quietMs),
      signal,
    })
    if (latest?.closed !== true) {
      const pauseMs = readAtMs + READ_EVERY_MS - performance.now()
      await delay(Math.max(0, pauseMs), undefined, { signal }).catch(() => {})
    }
    if (signal.aborted || !await mayContinue()) return
    now = await readState(deps, tenant, id)
  }
}

type ProgressEvent = {
  readonly type: 'progress' | 'end'
  readonly position: EventPosition
  readonly finished: ProgressBody['finished']
}

/** The events between a position and a state. */
function * eventsAfter (
  { cursor, status }: EventPosition, { job, blocks }: CountedJob
): Generator<ProgressEvent, void> {
  let from = cursor.to
  let before = status
  while (from < blocks.length || before !== job.status) {
    const to = Math.min(from + MAX_BLOCKS, blocks.length)
    const finished = blocks.slice(from, to).map(({ chunk, won }, index) =>
      ({ block: from + index + 1, chunk, rows: countBits(won) }))
    before = job.status
    from = to
    const position = { cursor: cursorAfter(blocks, to), status: job.status }
    yield { type: 'progress', position, finished }
  }
  if (!job.closed) return
  const position = { cursor: cursorAfter(blocks, blocks.length), status: END }
  yield { type: 'end', position, finished: [] }
}
