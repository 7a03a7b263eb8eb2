import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import type { Client, JobStatusResource } from '../../../client/client.ts'
import { sleep } from '../../../lib/retry.ts'
import { breakdown } from '../breakdown.ts'
import { forCustomer, type Exchange, type PageParts } from '../context.ts'
import { PageFault } from '../page-fault.ts'
import { fileOf, isEnded, jobState, LIVE_JOBS, stateText } from '../views/parts.ts'
import { idsIn } from './jobs.ts'

/** What changed on the page: elements by id, and what is to be said aloud. */
export type LiveUpdate = {
  readonly parts: Readonly<Record<string, string>>
  readonly say: string
  /** Nothing follows: all jobs have ended. */
  readonly done: boolean
}

const LOOK_EVERY_MS = { job: 500, list: 1_000 } as const
/** The longest page of jobs. */
const PAGE_JOBS = 100
/** Browsers come again by themselves, and are asked again whether they are signed in. */
const STREAM_MS = 300_000
const HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
}

/** Progress of jobs as server-sent events. */
export function liveRoutes (parts: PageParts): readonly RouteOptions[] {
  return [{
    method: 'GET',
    url: '/:mode/live',
    config: { access: 'customer', forScript: true },
    handler: forCustomer(parts, exchange => sendProgress(parts, exchange)),
  }]
}

async function sendProgress (
  parts: PageParts, { visit, request, reply }: Exchange
): Promise<FastifyReply> {
  const { ids, isOne } = wantedIn(request)
  const first = await readJobs(visit.client, ids)
  const closed = new AbortController()
  request.raw.socket.once('close', () => closed.abort())
  reply.hijack()
  reply.raw.writeHead(200, HEADERS)
  const known = new Map<string, JobStatusResource>()
  const endsAt = performance.now() + STREAM_MS
  let jobs = first
  try {
    for (;;) {
      const update = updateOf(jobs, known, isOne)
      if (update !== undefined) reply.raw.write(`data: ${JSON.stringify(update)}\n\n`)
      if (jobs.every(isEnded) || performance.now() > endsAt) break
      await (parts.sleep ?? sleep)(LOOK_EVERY_MS[isOne ? 'job' : 'list'], closed.signal)
      if (!await parts.sessions.isThere(visit.visitor.id)) break
      jobs = await readJobs(await parts.rest.of(visit.tenant), ids)
    }
  } catch (error) {
    // The browser comes again a moment after a stream that broke off.
    if (!closed.signal.aborted) request.log.warn({ err: error }, 'progress broke off')
  }
  reply.raw.end()
  return reply
}

/** Several jobs are read by one request, as each counts in the limits of their tenant. */
async function readJobs (
  client: Client, ids: readonly string[]
): Promise<readonly JobStatusResource[]> {
  const { data } = ids.length === 1 ? { data: [] } : await client.jobsPage({ limit: PAGE_JOBS })
  const known = new Map(data.map(job => [job.id, job]))
  return await Promise.all(ids.map(async id => known.get(id) ?? await client.job(id)))
}

type Wanted = { readonly ids: readonly string[], readonly isOne: boolean }

function wantedIn ({ query }: FastifyRequest): Wanted {
  const { job = [], view } = query as { readonly job?: string | string[], readonly view?: string }
  const ids = [...new Set([job].flat())]
  if (ids.length === 0 || ids.length > LIVE_JOBS) throw new PageFault('bad_form')
  return { ids: ids.map(id => idsIn({ id }).id), isOne: view === 'job' }
}

/**
 * What to change on a page that shows the jobs as they are in `known`, which is brought up to date;
 * undefined when nothing changed. A page of one job has its breakdown as well.
 */
export function updateOf (
  jobs: readonly JobStatusResource[], known: Map<string, JobStatusResource>, isOne: boolean
): LiveUpdate | undefined {
  const changed = jobs.filter(job => JSON.stringify(job) !== JSON.stringify(known.get(job.id)))
  if (changed.length === 0) return undefined
  const said = changed.filter(job => {
    const before = known.get(job.id)
    return before !== undefined && before.status !== job.status
  })
  for (const job of changed) known.set(job.id, job)
  const pieces = changed.flatMap(job => [
    [`state-${job.id}`, jobState(job).html] as const,
    ...(isOne ? [[`breakdown-${job.id}`, breakdown(job).html] as const] : []),
  ])
  return {
    parts: Object.fromEntries(pieces),
    say: said.map(job => `${fileOf(job)}: ${stateText(job.status)}.`).join(' '),
    done: jobs.every(isEnded),
  }
}
