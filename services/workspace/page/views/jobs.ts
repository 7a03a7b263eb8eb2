import { SERVICE_SLUGS } from '../../../topology.ts'
import { JOB_STATES } from '../../../../schemas/api/job.ts'
import type { JobListBody } from '../../../../schemas/api/list-jobs.ts'
import type { Visit } from '../context.ts'
import { html, type Html } from '../html.ts'
import { customerPage } from '../layout.ts'
import { emptyState, jobTable, stateText } from './parts.ts'

export type JobFilter = { readonly status: string, readonly service: string }

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
          ? emptyState('No job is like that.', html`
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
