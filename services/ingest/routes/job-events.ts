import { finished as whenFinished, Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import type { RouteOptions } from 'fastify'
import {
  JobEventsSchema, type JobPath, JobPathSchema, JOB_STATES, type ProgressBody,
} from '../../../schemas/api/job.ts'
import type { Job, ManifestEntry } from '../../jobs/job.ts'
import {
  checkCursor, countedBlocks, cursorAfter, decodeResultCursor, encodeResultCursor,
  type ResultCursor,
} from '../../jobs/results/provisional.ts'
import { countBits } from '../../runtime/platform/bitmap.ts'
import type { ApiError } from '../errors.ts'
import { EVENT_STREAM } from '../limits/limiter.ts'
import { JOB_ID, jobBodies } from '../find-jobs.ts'
import { callerOf, isKeyValid } from '../guard.ts'
import type { IngestDeps } from '../deps.ts'
import { sendError } from '../response.ts'

/** A stream is read from Redis at most so often. */
const EVERY_MS = 1_000
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
      const { tenant, org } = callerOf(request)
      const state = JOB_ID.test(id) ? await readState(deps, tenant, id) : undefined
      if (state === undefined) return sendError(reply, { code: 'job_not_found' })
      const last = readEventId(request.headers['last-event-id'])
      if (last === undefined) return sendError(reply, INVALID_ID)
      if (checkCursor(state.job, state.blocks, last.cursor) === 'moved') {
        return sendError(reply, { code: 'cursor_moved' })
      }
      // What makes browsers not connect again.
      if (last.status === END) return reply.code(204).send()
      const stream = deps.eventStreams.open(org)
      if (stream === undefined) return sendError(reply, { code: 'too_many_streams' })
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

const INVALID_ID: ApiError = {
  code: 'invalid_request',
  param: 'Last-Event-ID',
  message: 'Last-Event-ID is not valid. Send the id of the last event unchanged, or leave it out.',
}

/** A job, and its blocks in the order in which they were counted. */
type State = { readonly job: Job, readonly blocks: readonly ManifestEntry[] }

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
): Promise<State | undefined> {
  const recorded = await readWithManifest(tenant, id)
  // The record of a closed job that was rebuilt has no manifest.
  const record = recorded === undefined || recorded.job.closed
    ? await findArchived(tenant, id) ?? recorded
    : recorded
  return record && { job: record.job, blocks: countedBlocks(record.manifest) }
}

type Stream = {
  readonly state: State
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
  for (let now: State | undefined = state; now !== undefined;) {
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
      timeoutMs: Math.max(EVERY_MS, HEARTBEAT_MS - quietMs),
      signal,
    })
    if (latest?.closed !== true) {
      const pauseMs = readAtMs + EVERY_MS - performance.now()
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
  { cursor, status }: EventPosition, { job, blocks }: State
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
