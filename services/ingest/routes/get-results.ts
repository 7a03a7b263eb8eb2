import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { DELIMITERS } from '../../../schemas/files/csv-format.ts'
import { ERROR_RESPONSES } from '../../../schemas/api/error.ts'
import { type JobPath, JobPathSchema } from '../../../schemas/api/job.ts'
import {
  type ResultsQuery, ResultsQuerySchema, ResultsSchema,
} from '../../../schemas/api/results.ts'
import type { ApiError } from '../errors.ts'
import { findCounted, findReadable, type ResultRetention } from '../find-jobs.ts'
import { callerOf } from '../guard.ts'
import type { FoundResults, IngestDeps } from '../ports.ts'
import { numbersInQuery } from '../query-fields.ts'
import {
  formError, listsInQuery, RESULT_TYPES, resultForm, type ResultForm, selectionOf,
  sendProvisional, sendResults, sendResultsPage,
} from '../results-response.ts'
import { sendError } from '../response.ts'

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
      response: { 200: ResultsSchema, 304: { type: 'null' }, ...ERROR_RESPONSES },
    },
    preValidation: [numbersInQuery('limit'), listsInQuery],
    handler: async (request, reply) => {
      const query = request.query as ResultsQuery
      const form = resultForm(query, request.headers.accept)
      const { id } = request.params as JobPath
      const find = query.provisional === undefined ? findReadable : findCounted
      const found = await find(deps, settings, { tenant: callerOf(request).tenant, id })
      if ('code' in found) return sendError(reply, found)
      const fault = formError(query, form)
      if (fault !== undefined) return sendError(reply, fault)
      return send(deps, found, { request, reply, form })
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
  deps: IngestDeps, found: FoundResults, { request, reply, form }: Exchange
): Promise<FastifyReply> {
  const query = request.query as ResultsQuery
  const header = await deps.openHeader(found.job)
  const { columns, ids = false, options, metadata } = header
  const selected = selectionOf(query, { service: found.job.service, ids, options, form })
  if ('code' in selected) return sendError(reply, selected)
  if (query.join !== undefined && columns === undefined) return sendError(reply, NOT_FROM_A_FILE)
  const selection = { ...selected, ...query.join && columns && { original: columns } }
  if (query.provisional !== undefined) {
    return sendProvisional(deps, found, { request, reply, selection })
  }
  if (query.after !== undefined) return sendError(reply, NOT_PROVISIONAL)
  if (form === 'json') return sendResultsPage(deps, found, { request, reply, selection })
  const safe = query.safe === 'spreadsheet'
  const delimiter = query.delimiter === 'original'
    ? header.delimiter ?? DELIMITERS.comma
    : DELIMITERS[query.delimiter ?? 'comma']
  const upload = columns && metadata['file']
  return sendResults(deps, found, {
    request, reply, form, safe, delimiter, upload, selection,
  })
}
