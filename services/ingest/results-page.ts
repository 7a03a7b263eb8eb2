import { createHash } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { DEFAULT_ROWS, type ResultsPage, type ResultsQuery } from '../../schemas/api/results.ts'
import type { Job, ManifestEntry } from '../jobs/job.ts'
import { codingFor, compressed } from './compression.ts'
import { cachingHeaders, isUnchanged } from './entity-tag.ts'
import type { IngestDeps } from './ports.ts'
import { sendError } from './reply.ts'
import { afterRowOf, createRowFilter, createRowShape, cursorOf } from './result-rows.ts'

type Results = { readonly job: Job, readonly manifest: readonly ManifestEntry[] }
type Exchange = { readonly request: FastifyRequest, readonly reply: FastifyReply }

/** Sends a page of rows as JSON, after the cursor and by the filters of the request. */
export async function sendResultsPage (
  deps: Pick<IngestDeps, 'page'>, { job, manifest }: Results, { request, reply }: Exchange
): Promise<FastifyReply> {
  const query = request.query as ResultsQuery
  const afterRow = query.cursor === undefined ? 0 : afterRowOf(query.cursor)
  if (afterRow === undefined) {
    return sendError(reply, {
      code: 'invalid_request',
      param: 'cursor',
      message: 'cursor is not valid. Send the next_cursor of the previous page unchanged.',
    })
  }
  const coding = codingFor(request.headers['accept-encoding'])
  const caching = cachingHeaders(manifest,
    ['json', wordOf(query, afterRow), ...(coding === undefined ? [] : [coding])])
  if (isUnchanged(request, reply, caching)) return reply.send()
  const text = JSON.stringify(await pageOf(deps, { job, manifest }, { query, afterRow }))
  reply.headers(caching).type('application/json; charset=utf-8')
  if (coding === undefined) return reply.send(text)
  return reply.header('content-encoding', coding).send(await compressed(coding, text))
}

type Wanted = { readonly query: ResultsQuery, readonly afterRow: number }

async function pageOf (
  deps: Pick<IngestDeps, 'page'>, { job, manifest }: Results, { query, afterRow }: Wanted
): Promise<ResultsPage> {
  const { limit = DEFAULT_ROWS, status, source } = query
  const keep = createRowFilter(job.service, { status, source })
  const page = await deps.page(job, manifest, {
    afterRow, limit, ...(keep === undefined ? {} : { keep }),
  })
  const next = page.nextAfterRow
  return {
    data: page.rows.map(createRowShape(job.service)),
    has_more: next !== undefined,
    next_cursor: next === undefined ? null : cursorOf(next),
  }
}

/** Part of the entity tag that identifies the page. */
function wordOf ({ limit = DEFAULT_ROWS, status, source }: ResultsQuery, afterRow: number): string {
  const wanted = JSON.stringify([limit, afterRow, status ?? '', source ?? ''])
  return createHash('sha256').update(wanted).digest('hex').slice(0, 16)
}
