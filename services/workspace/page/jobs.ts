import type { FastifyReply, RouteOptions } from 'fastify'
import { Readable } from 'node:stream'
import { JOB_STATES } from '../../../schemas/api/job.ts'
import type { JobListBody } from '../../../schemas/api/list-jobs.ts'
import { ApiError, type Client, type JobStatusResource } from '../../client/client.ts'
import { SERVICE_SLUGS } from '../../topology.ts'
import { customerRoutes, type Exchange, type PageDeps, type Visit } from './context.ts'
import { html, type Html } from './html.ts'
import { isEnded, jobTable, stateText } from './job-components.ts'
import { jobView } from './job-view.ts'
import { customerPage, emptyState, noticeOf, sendHtml } from './layout.ts'
import { PageError } from './page-error.ts'

const JOBS_PER_PAGE = 20
const PREVIEW_ROWS = 20
const CSV = { format: 'text/csv; charset=utf-8', options: { safe: 'spreadsheet' } } as const

/** Ids of a path become part of a REST path, so they may contain no other characters. */
const ID = /^[a-z]+_[0-9a-z]{1,64}$/

/** The list of jobs, and one job with its file, its deliveries and its cancellation. */
export function jobPageRoutes (deps: PageDeps): readonly RouteOptions[] {
  const route = customerRoutes(deps)
  return [
    route('GET', '/:mode/jobs', sendList),
    route('GET', '/:mode/jobs/:id', sendJob),
    route('GET', '/:mode/jobs/:id/results.csv', sendFile),
    route('POST', '/:mode/jobs/:id/cancel', async ({ visit, request, reply }) => {
      const { id } = pathIds(request.params)
      await visit.client.cancel(id)
      return reply.redirect(`/${visit.tenant.mode}/jobs/${id}?notice=cancelled`, 303)
    }),
    route('POST', '/:mode/jobs/:id/deliveries/:delivery/resend',
      async ({ visit, request, reply }) => {
        const { id, delivery } = pathIds(request.params)
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
  const parameters = Object.entries({ ...filter, after: text('after') })
    .filter(([, value]) => value !== '')
  const page = await visit.client.jobsPage({
    limit: JOBS_PER_PAGE, ...Object.fromEntries(parameters),
  })
  return sendHtml(reply, jobsView(visit, { page, filter }))
}

async function sendJob ({ visit, request, reply }: Exchange): Promise<FastifyReply> {
  const { id } = pathIds(request.params)
  const job = await visit.client.job(id)
  const [preview, attempts] = await Promise.all([
    previewOf(visit.client, job), isEnded(job) ? visit.client.deliveries(id) : [],
  ])
  return sendHtml(reply, jobView(visit, { job, preview, attempts, notice: noticeOf(request) }))
}

async function previewOf (client: Client, job: JobStatusResource) {
  if (!isEnded(job)) return undefined
  try {
    return await client.resultsPage(job.id, { limit: PREVIEW_ROWS })
  } catch (error) {
    // The results are erased, or older than their retention.
    if (error instanceof ApiError && error.status === 410) return undefined
    throw error
  }
}

async function sendFile ({ visit, request, reply }: Exchange): Promise<FastifyReply> {
  const { id } = pathIds(request.params)
  const chunks = await visit.client.resultsFile(id, CSV.options)
  return reply.type(CSV.format)
    .header('content-disposition', `attachment; filename="${id}.csv"`)
    .send(Readable.from(chunks))
}

/** The ids in a path; throws PageError 404 for an invalid id. */
export function pathIds (parameters: unknown): { readonly id: string, readonly delivery: string } {
  const { id = '', delivery = 'evt_0' } = parameters as Readonly<Record<string, string>>
  if (!ID.test(id) || !ID.test(delivery)) throw new PageError('not_found')
  return { id, delivery }
}

/** The query of the list; '' means no filter. */
type JobFilter = { readonly status: string, readonly service: string }

/** The jobs of a tenant, newest first, with their progress. */
export function jobsView (
  visit: Visit, { page, filter }: { readonly page: JobListBody, readonly filter: JobFilter }
): Html {
  const { mode } = visit.tenant
  const upload = html`<a class="button" href="/${mode}/upload">Verify a file</a>`
  const isFiltered = filter.status !== '' || filter.service !== ''
  return customerPage(visit, 'jobs', {
    title: 'Jobs',
    scripts: ['live.js'],
    body: html`
      <div class="heading"><h1>Jobs</h1>${upload}</div>
      ${filterForm(filter)}
      ${page.data.length > 0
        ? jobTable(page.data, { mode, zone: visit.zone })
        : isFiltered
          ? emptyState('No job matches the filter.', html`
            <a class="button quiet" href="/${mode}/jobs">Show all jobs</a>`)
          : emptyState('No job yet. Verify a file, or send jobs through the REST interface.')}
      ${page.next_cursor !== null && html`<p><a class="button quiet"
        href="/${mode}/jobs?${olderQuery(filter, page.next_cursor)}">Older jobs</a></p>`}`,
  })
}

function olderQuery ({ status, service }: JobFilter, after: string): string {
  return String(new URLSearchParams({ status, service, after }))
}

function filterForm ({ status, service }: JobFilter): Html {
  return html`<form class="filter" method="get" role="search" aria-label="Jobs">
    <label>State ${select(
      'status', status, JOB_STATES.map(name => [name, stateText(name)]))}</label>
    <label>Service ${select('service', service, SERVICE_SLUGS.map(name => [name, name]))}</label>
    <button class="button quiet" type="submit">Show</button>
  </form>`
}

function select (
  name: string, chosen: string, options: readonly (readonly [value: string, text: string])[]
): Html {
  return html`<select name="${name}"><option value="">Any</option>${options.map(
    ([value, text]) => html`
      <option value="${value}"${value === chosen && html` selected`}>${text}</option>`)}
  </select>`
}
