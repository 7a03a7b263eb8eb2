import { Readable } from 'node:stream'
import type { FastifyReply, RouteOptions } from 'fastify'
import { ApiError, type Client, type JobStatusResource } from '../../../client/client.ts'
import { forCustomer, type Exchange, type PageParts } from '../context.ts'
import { noticeIn } from '../notices.ts'
import { PageFault } from '../page-fault.ts'
import { jobView } from '../views/job.ts'
import { jobsView } from '../views/jobs.ts'
import { isEnded } from '../views/parts.ts'
import { sendPage } from './sign-in.ts'

const PAGE_JOBS = 20
const PREVIEW_ROWS = 20
const CSV = { format: 'text/csv; charset=utf-8', options: { safe: 'spreadsheet' } } as const

/** What stands in a path is sent on to the interface, so it is an id and nothing else. */
const ID = /^[a-z]+_[0-9a-z]{1,64}$/

type JobPath = { readonly id?: string, readonly delivery?: string }

/** The list of jobs, a job, its file, its deliveries, and its end. */
export function jobRoutes (parts: PageParts): readonly RouteOptions[] {
  const route = (
    method: 'GET' | 'POST', url: string, handle: (exchange: Exchange) => Promise<FastifyReply>
  ): RouteOptions =>
    ({ method, url, config: { access: 'customer' }, handler: forCustomer(parts, handle) })
  return [
    route('GET', '/:mode/jobs', sendList),
    route('GET', '/:mode/jobs/:id', sendJob),
    route('GET', '/:mode/jobs/:id/results.csv', sendFile),
    route('POST', '/:mode/jobs/:id/cancel', async ({ visit, request, reply }) => {
      const { id } = idsIn(request.params)
      await visit.client.cancel(id)
      return reply.redirect(`/${visit.tenant.mode}/jobs/${id}?notice=cancelled`, 303)
    }),
    route('POST', '/:mode/jobs/:id/deliveries/:delivery/resend',
      async ({ visit, request, reply }) => {
        const { id, delivery } = idsIn(request.params)
        const { status } = await visit.client.resend(id, delivery)
        const notice = status === 'queued' ? 'resent' : 'trying'
        return reply.redirect(`/${visit.tenant.mode}/jobs/${id}?notice=${notice}`, 303)
      }),
  ]
}

async function sendList ({ visit, request, reply }: Exchange): Promise<FastifyReply> {
  const query = request.query as Readonly<Record<string, unknown>>
  const text = (name: string) => typeof query[name] === 'string' ? query[name] : ''
  const filter = { status: text('status'), service: text('service') }
  const wanted = { ...filter, after: text('after') }
  const given = Object.fromEntries(Object.entries(wanted).filter(([, value]) => value !== ''))
  const page = await visit.client.jobsPage({ limit: PAGE_JOBS, ...given })
  return sendPage(reply, jobsView(visit, { page, filter }))
}

async function sendJob ({ visit, request, reply }: Exchange): Promise<FastifyReply> {
  const { id } = idsIn(request.params)
  const job = await visit.client.job(id)
  const [preview, attempts] = await Promise.all([
    previewOf(visit.client, job), isEnded(job) ? visit.client.deliveries(id) : [],
  ])
  return sendPage(reply, jobView(visit, { job, preview, attempts, notice: noticeIn(request) }))
}

async function previewOf (client: Client, job: JobStatusResource) {
  if (!isEnded(job)) return undefined
  try {
    return await client.resultsPage(job.id, { limit: PREVIEW_ROWS })
  } catch (error) {
    // Past its retention, or erased.
    if (error instanceof ApiError && error.status === 410) return undefined
    throw error
  }
}

async function sendFile ({ visit, request, reply }: Exchange): Promise<FastifyReply> {
  const { id } = idsIn(request.params)
  const pieces = await visit.client.resultsFile(id, CSV.options)
  return reply.type(CSV.format)
    .header('content-disposition', `attachment; filename="${id}.csv"`)
    .send(Readable.from(pieces))
}

/** The ids of a path; throws PageFault 404 for what can't be one. */
export function idsIn (parameters: unknown): { readonly id: string, readonly delivery: string } {
  const { id = '', delivery = 'evt_0' } = parameters as JobPath
  if (!ID.test(id) || !ID.test(delivery)) throw new PageFault('not_found')
  return { id, delivery }
}
