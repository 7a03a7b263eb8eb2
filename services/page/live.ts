import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import type { Client, JobStatusResource } from '../client/client.ts'
import { FairPool } from '../runtime/platform/limits.ts'
import { sleep } from '../runtime/platform/retry.ts'
import { forCustomer, type Exchange, type PageDeps } from './context.ts'
import {
  breakdown, isEnded, jobName, jobState, MAX_LIVE_JOBS, stateText,
} from './job-components.ts'
import { isStillSignedIn } from './guard.ts'
import { pathIds } from './jobs.ts'
import { PageError } from './page-error.ts'

/** A change of a page, as its script receives it. */
type LiveUpdate = {
  /** HTML of changed elements, by their ids. */
  readonly elements: Readonly<Record<string, string>>
  /** Text for screen readers; '' for none. */
  readonly announcement: string
  /** All jobs have ended, so no update follows. */
  readonly done: boolean
}

const POLL_MS = { job: 500, list: 1_000 } as const
/** The maximum page size of the REST interface. */
const MAX_JOBS_PER_PAGE = 100
/** Concurrent streams, shared fairly by organizations; above it a page shows no progress. */
const MAX_STREAMS = 1_000
const MAX_STREAMS_PER_ORG = 100
/** Browsers reconnect after this time, which checks their session again. */
const MAX_STREAM_MS = 300_000
const HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
}

/** Progress of jobs as server-sent events. */
export function liveRoutes (deps: PageDeps): readonly RouteOptions[] {
  const pool = new FairPool({ capacity: MAX_STREAMS, maxPerName: MAX_STREAMS_PER_ORG })
  return [{
    method: 'GET',
    url: '/:mode/live',
    config: { access: 'jobs.view', forScript: true },
    handler: forCustomer(deps, async exchange => {
      const closed = new AbortController()
      const place = pool.open(exchange.visit.tenant.orgId, () => closed.abort())
      if (!place.grow(1)) throw new PageError('unavailable')
      try {
        return await sendProgress(deps, exchange, closed)
      } finally {
        place.release()
      }
    }),
  }]
}

async function sendProgress (
  deps: PageDeps, { visit, request, reply }: Exchange, closed: AbortController
): Promise<FastifyReply> {
  const { ids, isOne } = queryOf(request)
  let jobs = await readJobs(visit.client, ids)
  request.raw.socket.once('close', () => closed.abort())
  reply.hijack()
  reply.raw.writeHead(200, HEADERS)
  const known = new Map<string, JobStatusResource>()
  const endsAt = performance.now() + MAX_STREAM_MS
  try {
    for (;;) {
      const update = updateOf(jobs, known, isOne)
      if (update !== undefined) reply.raw.write(`data: ${JSON.stringify(update)}\n\n`)
      if (jobs.every(isEnded) || performance.now() > endsAt) break
      await (deps.sleep ?? sleep)(POLL_MS[isOne ? 'job' : 'list'], closed.signal)
      if (!await isStillSignedIn(deps, visit.visitor)) break
      jobs = await readJobs(await deps.rest.of(visit.tenant), ids)
    }
  } catch (error) {
    // The browser reconnects shortly after the stream ends.
    if (!closed.signal.aborted) {
      request.log.warn({ err: error, request: request.id, jobs: ids }, 'progress stream failed')
    }
  }
  reply.raw.end()
  return reply
}

/** Reads several jobs with one request, because each request counts in the limits of the tenant. */
async function readJobs (
  client: Client, ids: readonly string[]
): Promise<readonly JobStatusResource[]> {
  const { data } = ids.length === 1
    ? { data: [] }
    : await client.jobsPage({ limit: MAX_JOBS_PER_PAGE })
  const known = new Map(data.map(job => [job.id, job]))
  return await Promise.all(ids.map(async id => known.get(id) ?? await client.job(id)))
}

function queryOf (
  { query }: FastifyRequest
): { readonly ids: readonly string[], readonly isOne: boolean } {
  const { job = [], view } = query as { readonly job?: string | string[], readonly view?: string }
  const ids = [...new Set([job].flat())]
  if (ids.length === 0 || ids.length > MAX_LIVE_JOBS) throw new PageError('bad_form')
  return { ids: ids.map(id => pathIds({ id }).id), isOne: view === 'job' }
}

/**
 * The update for a page that shows `known`, which becomes the new state; undefined when no job
 * changed. A page of one job also gets its breakdown.
 */
export function updateOf (
  jobs: readonly JobStatusResource[], known: Map<string, JobStatusResource>, isOne: boolean
): LiveUpdate | undefined {
  const changed = jobs.filter(job => JSON.stringify(job) !== JSON.stringify(known.get(job.id)))
  if (changed.length === 0) return undefined
  const announced = changed.filter(job => {
    const before = known.get(job.id)
    return before !== undefined && before.status !== job.status
  })
  for (const job of changed) known.set(job.id, job)
  const elements = changed.flatMap(job => [
    [`state-${job.id}`, jobState(job).html] as const,
    ...(isOne ? [[`breakdown-${job.id}`, breakdown(job).html] as const] : []),
  ])
  return {
    elements: Object.fromEntries(elements),
    announcement: announced.map(job => `${jobName(job)}: ${stateText(job.status)}.`).join(' '),
    done: jobs.every(isEnded),
  }
}
