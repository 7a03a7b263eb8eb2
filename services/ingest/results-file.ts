import { pipeline, Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Job, ManifestEntry } from '../jobs/job.ts'
import { codingFor, createCompressor, type Coding } from './compression.ts'
import { cachingHeaders, isUnchanged } from './entity-tag.ts'
import type { IngestDeps } from './ports.ts'
import { jsonLines } from './result-rows.ts'

const CONTENT_TYPES = {
  csv: 'text/csv; charset=utf-8; header=present', jsonl: 'application/x-ndjson; charset=utf-8',
} as const

type Piece = string | Uint8Array

type Results = { readonly job: Job, readonly manifest: readonly ManifestEntry[] }

type Exchange = {
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  readonly form: 'csv' | 'jsonl'
  /** CSV only: escapes cells that a spreadsheet would execute. */
  readonly safe: boolean
}

/** Answers with the result file as it is read, compressed when asked, or with 304. */
export async function sendResults (
  deps: IngestDeps, { job, manifest }: Results, { request, reply, form, safe }: Exchange
): Promise<FastifyReply> {
  const coding = codingFor(request.headers['accept-encoding'])
  const forms = [
    ...(form === 'csv' ? [] : [form]), ...(safe ? ['safe'] : []),
    ...(coding === undefined ? [] : [coding]),
  ]
  const caching = cachingHeaders(manifest, forms)
  if (isUnchanged(request, reply, caching)) return reply.send()
  const rows = request.method === 'HEAD'
    ? Readable.from([])
    : form === 'csv'
      // The first piece is the header line, for which no row is read.
      ? await startedStream(deps.csvStream(job, manifest, { safe }), 2)
      : await startedStream(jsonLines(job.service, deps.rows(job, manifest)), 1)
  reply.headers({
    ...caching,
    'content-type': CONTENT_TYPES[form],
    'content-disposition': `attachment; filename="${job.id}.${form}"`,
    ...(coding === undefined ? {} : { 'content-encoding': coding }),
  })
  const isPlain = coding === undefined || request.method === 'HEAD'
  return reply.send(isPlain ? rows : zipped(rows, coding))
}

/**
 * Fetches the first pieces before any header is sent, so that a failing store gives a clean error.
 * A later failure truncates the response, which the client detects by its framing.
 */
async function startedStream (pieces: AsyncIterable<Piece>, count: number): Promise<Readable> {
  const iterator = pieces[Symbol.asyncIterator]()
  const first: Piece[] = []
  for (let at = 0; at < count; at++) {
    const next = await iterator.next()
    if (next.done === true) break
    first.push(next.value)
  }
  async function * all () {
    try {
      yield * first
      for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) {
        yield next.value
      }
    } finally {
      // Closes the stream of the store if the client has disconnected.
      await iterator.return?.()
    }
  }
  return Readable.from(all(), { objectMode: false })
}

function zipped (rows: Readable, coding: Coding): Readable {
  const compressor = createCompressor(coding)
  // A failure of one stream closes both; the reply gets the error of this one.
  pipeline(rows, compressor, () => {})
  return compressor
}
