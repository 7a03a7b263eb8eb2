import type { FastifyReply } from 'fastify'
import { JOB_STATES } from '../../schemas/api/job.ts'
import type { JobListBody, ListJobsQuery } from '../../schemas/api/list-jobs.ts'
import { SERVICE_SLUGS } from '../topology.ts'
import { type Exchange, may, type Visit } from './context.ts'
import { html, type Html } from './html.ts'
import { jobTable, stateText } from './job-components.ts'
import { customerPage, emptyState, sendHtml } from './layout.ts'

const JOBS_PER_PAGE = 20

const FIELDS = ['status', 'service', 'created_from', 'created_to', 'label', 'value'] as const

/** The query of the list by field; '' means no filter. `label` and `value` are of metadata. */
export type JobFilter = Readonly<Record<typeof FIELDS[number], string>>

/** Sends a page of the list of jobs. */
export async function sendJobList ({ visit, request, reply }: Exchange): Promise<FastifyReply> {
  const query = request.query as Readonly<Record<string, unknown>>
  const text = (name: string) => typeof query[name] === 'string' ? query[name] : ''
  const filter = Object.fromEntries(FIELDS.map(name => [name, text(name)])) as JobFilter
  const page = await visit.client.jobsPage(listQueryOf(filter, text('after')))
  return sendHtml(reply, jobsView(visit, { page, filter }))
}

/** The query of the REST interface for a filter and a cursor, which may be ''. */
export function listQueryOf ({ label, value, ...fields }: JobFilter, after: string): ListJobsQuery {
  const given = Object.entries({ ...fields, after }).filter(([, text]) => text !== '')
  return {
    limit: JOBS_PER_PAGE,
    ...Object.fromEntries(given),
    ...label !== '' && { metadata: { [label]: value } },
  }
}

type ListView = { readonly page: JobListBody, readonly filter: JobFilter }

/** The jobs of a tenant, newest first, with their progress. */
export function jobsView (visit: Visit, { page, filter }: ListView): Html {
  const { mode } = visit.tenant
  const upload = may(visit.visitor, 'jobs.change') && html`
    <a class="button" href="/${mode}/upload">Verify a file</a>`
  const isFiltered = Object.values(filter).some(text => text !== '')
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

function olderQuery (filter: JobFilter, after: string): string {
  return String(new URLSearchParams({ ...filter, after }))
}

function filterForm (filter: JobFilter): Html {
  const input = (type: string, name: typeof FIELDS[number]) =>
    html`<input type="${type}" name="${name}" value="${filter[name]}">`
  return html`<form class="filter" method="get" role="search" aria-label="Jobs">
    <label>State ${select(
      'status', filter.status, JOB_STATES.map(name => [name, stateText(name)]))}</label>
    <label>Service ${select(
      'service', filter.service, SERVICE_SLUGS.map(name => [name, name]))}</label>
    <label>Created from ${input('date', 'created_from')}</label>
    <label>Created to ${input('date', 'created_to')}</label>
    <label>Label ${input('text', 'label')}</label>
    <label>Value ${input('text', 'value')}</label>
    <button class="button quiet" type="submit">Show</button>
  </form>`
}

/** A choice of a form; without one it is `Any`. */
export function select (
  name: string, chosen: string, options: readonly (readonly [value: string, text: string])[]
): Html {
  return html`<select name="${name}"><option value="">Any</option>${options.map(
    ([value, text]) => html`
      <option value="${value}"${value === chosen && html` selected`}>${text}</option>`)}
  </select>`
}
