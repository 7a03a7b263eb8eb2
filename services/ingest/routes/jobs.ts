import type { RouteOptions, FastifyReply, FastifyRequest } from 'fastify'
import { withExample } from '../../../schemas/api/parts.ts'
import {
  DEFAULT_JOBS, type EraseJobQuery, EraseJobQuerySchema, EXAMPLE_JOBS, JobListSchema,
  type JobPath, JobPathSchema, type JobQuery, JobQuerySchema, JobSchema, type ListJobsQuery,
  ListJobsQuerySchema,
} from '../../../schemas/api/job.ts'
import {
  erasedBody, findJob, jobBodies, listJobs, listLabeled, NOT_STORED, untilClosed, waitForChange,
  findCounted, findReadable, type ResultRetention,
} from '../find-jobs.ts'
import { callerOf } from '../guard.ts'
import { jobBody } from '../../jobs/job-view.ts'
import type { JobWithManifest } from '../../jobs/store.ts'
import type { IngestDeps } from '../deps.ts'
import { timeRange } from '../request.ts'
import { sendError } from '../response.ts'
import { createTenantGate } from '../limits/limiter.ts'
import { DELIMITERS } from '../../../schemas/files/csv-format.ts'
import {
  type ResultsQuery, ResultsQuerySchema, ResultsSchema,
} from '../../../schemas/api/results.ts'
import type { ApiError } from '../errors.ts'
import {
  formError, RESULT_TYPES, resultForm, type ResultForm, selectionOf, sendProvisional,
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
        ? await deps.readJob(tenant, job)
        : await waitForChange(deps, request, { tenant, job, timeoutMs: wait * 1_000 })
      const job = await findJob({ ...deps, readJob: read }, callerOf(request).tenant, id)
      if (job === undefined) return sendError(reply, { code: 'job_not_found' })
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
      const { tenant } = callerOf(request)
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
      const { tenant } = callerOf(request)
      const job = await findJob(deps, tenant, id)
      if (job === undefined) return sendError(reply, { code: 'job_not_found' })
      const outcome = await deps.cancel(tenant, job.id)
      // A job that only the archive knows has ended.
      if (outcome.kind !== 'cancelling') return sendError(reply, { code: 'job_not_cancellable' })
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
      const job = await findJob(deps, callerOf(request).tenant, id)
      if (job === undefined) return sendError(reply, { code: 'job_not_found' })
      if (!job.ended) return sendError(reply, { code: 'job_not_ended' })
      if (await untilClosed(deps, job) === undefined) return sendError(reply, NOT_STORED)
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
      const readable = await find(deps, settings, { tenant: callerOf(request).tenant, id })
      if ('code' in readable) return sendError(reply, readable)
      const fault = formError(query, form)
      if (fault !== undefined) return sendError(reply, fault)
      return send(deps, readable, { request, reply, form })
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

async function send (
  deps: IngestDeps, results: JobWithManifest, { request, reply, form }: Exchange
): Promise<FastifyReply> {
  const query = request.query as ResultsQuery
  const header = await deps.openHeader(results.job)
  const { columns, ids = false, options, metadata } = header
  const selected = selectionOf(query, { service: results.job.service, ids, options, form })
  if ('code' in selected) return sendError(reply, selected)
  if (query.join !== undefined && columns === undefined) return sendError(reply, NOT_FROM_A_FILE)
  const selection = { ...selected, ...query.join && columns && { original: columns } }
  if (query.provisional !== undefined) {
    return sendProvisional(deps, results, { request, reply, selection })
  }
  if (query.after !== undefined) return sendError(reply, NOT_PROVISIONAL)
  if (form === 'json') return sendResultsPage(deps, results, { request, reply, selection })
  const safe = query.safe === 'spreadsheet'
  const delimiter = query.delimiter === 'original'
    ? header.delimiter ?? DELIMITERS.comma
    : DELIMITERS[query.delimiter ?? 'comma']
  const upload = columns && metadata['file']
  return sendResults(deps, results, {
    request, reply, form, safe, delimiter, upload, selection,
  })
}
