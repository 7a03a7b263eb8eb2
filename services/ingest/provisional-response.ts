import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { ResultsQuery } from '../../schemas/api/results.ts'
import type { Job } from '../jobs/job.ts'
import {
  checkCursor, countedBlocks, cursorAfter, decodeResultCursor, encodeResultCursor,
  type ProvisionalRows,
} from '../jobs/results/provisional.ts'
import { yieldToEventLoop } from '../runtime/platform/event-loop.ts'
import type { ApiError } from './errors.ts'
import { codingFor } from './negotiation.ts'
import type { FoundResults, IngestDeps } from './ports.ts'
import { sendError } from './response.ts'
import {
  createRowText, needsReference, PIECE_CHARACTERS, type ResultSelection, startPieces, streamFrom,
  zipped,
} from './results-response.ts'

/** The answer to a cursor that cannot be checked while the blocks of its job are counted again. */
const RECOUNTED: ApiError = {
  code: 'temporarily_unavailable',
  message: 'The rows of this job are being counted again after a fault. Send the request again ' +
    'after the seconds in Retry-After.',
  retryAfterSeconds: 5,
}

const INVALID_CURSOR: ApiError = {
  code: 'invalid_request',
  param: 'after',
  message: 'after is not valid. Send the cursor of a line or of Next-Cursor unchanged.',
}

type Exchange = {
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  readonly selection: ResultSelection
}

/** Answers with the rows that are complete and come after the cursor of the request. */
export async function sendProvisional (
  deps: Pick<IngestDeps, 'provisionalRows'>, { job, manifest }: FoundResults,
  { request, reply, selection }: Exchange
): Promise<FastifyReply> {
  const { after: text } = request.query as ResultsQuery
  const blocks = countedBlocks(manifest)
  const after = text === undefined ? cursorAfter(blocks, 0) : decodeResultCursor(text)
  if (after === undefined) return sendError(reply, INVALID_CURSOR)
  const fit = checkCursor(job, blocks, after)
  if (fit !== 'fits') {
    return sendError(reply, fit === 'moved' ? { code: 'cursor_moved' } : RECOUNTED)
  }
  const { rows, next, isComplete } = await deps.provisionalRows({ job, blocks, after }, {
    keep: selection.keep, withReference: needsReference(selection),
  })
  const coding = codingFor(request.headers['accept-encoding'])
  reply.headers({
    'content-type': 'application/x-ndjson; charset=utf-8',
    'next-cursor': encodeResultCursor(next),
    'results-complete': String(isComplete),
    vary: 'Accept, Accept-Encoding',
    ...coding !== undefined && { 'content-encoding': coding },
  })
  const lines = request.method === 'HEAD'
    ? Readable.from([])
    : streamFrom(await startPieces(jsonLines(job, rows, selection), 1))
  return reply.send(coding === undefined || request.method === 'HEAD'
    ? lines
    : zipped(lines, coding))
}

/** The rows as JSON Lines, in pieces of whole lines, each with the cursor after it. */
async function * jsonLines (
  { service, tenant, ended }: Job, rows: AsyncIterable<ProvisionalRows>, selection: ResultSelection
): AsyncIterable<string> {
  const toText = createRowText(service, selection)
  for await (const { rows: some, window } of rows) {
    let text = ''
    for (const cells of some) {
      const row = toText(cells).slice(0, -1)
      const cursor = encodeResultCursor({ ...window, row: Number(cells[0]) })
      text += `${row}${row === '{' ? '' : ','}"provisional":${!ended},"cursor":"${cursor}"}\n`
      if (text.length < PIECE_CHARACTERS) continue
      yield text
      text = ''
      await yieldToEventLoop('bulk', tenant)
    }
    if (text !== '') yield text
  }
}
