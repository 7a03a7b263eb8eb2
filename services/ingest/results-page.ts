import type { FastifyReply } from 'fastify'
import { DEFAULT_ROWS, type ResultsPage, type ResultsQuery } from '../../schemas/api/results.ts'
import type { Job, ManifestEntry } from '../jobs/job.ts'
import type { Parts } from './ports.ts'
import { sendFault } from './reply.ts'
import { afterRowOf, createRowFilter, createRowShape, cursorOf } from './result-rows.ts'

type Results = { readonly job: Job, readonly manifest: readonly ManifestEntry[] }
type Exchange = { readonly query: ResultsQuery, readonly reply: FastifyReply }

/** Answers with a page of rows as JSON, behind the cursor of the request and as it filters. */
export async function sendPage (
  parts: Pick<Parts, 'page'>, { job, manifest }: Results, { query, reply }: Exchange
): Promise<FastifyReply> {
  const { limit = DEFAULT_ROWS, cursor, status, source } = query
  const afterRow = cursor === undefined ? 0 : afterRowOf(cursor)
  if (afterRow === undefined) {
    return sendFault(reply, {
      code: 'invalid_request',
      param: 'cursor',
      message: 'cursor is not one that a page was answered with. Send next_cursor as it came.',
    })
  }
  const keep = createRowFilter(job.service, { status, source })
  const page = await parts.page(job, manifest, {
    afterRow, limit, ...(keep === undefined ? {} : { keep }),
  })
  const next = page.nextAfterRow
  const body: ResultsPage = {
    data: page.rows.map(createRowShape(job.service)),
    has_more: next !== undefined,
    next_cursor: next === undefined ? null : cursorOf(next),
  }
  return reply.header('vary', 'Accept')
    .type('application/json; charset=utf-8')
    .send(JSON.stringify(body))
}
