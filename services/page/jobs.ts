import { Readable } from 'node:stream'
import type { FastifyReply, RouteOptions } from 'fastify'
import type { AttemptBody } from '../../schemas/api/deliveries.ts'
import type { ResultRow, ResultsPage } from '../../schemas/api/results.ts'
import { ApiError, type Client, type JobStatusResource } from '../client/client.ts'
import { requesterOf } from './access.ts'
import {
  customerRoutes, type Exchange, field, may, type PageDeps, type Visit,
} from './context.ts'
import { count, html, type Html, money, time } from './html.ts'
import { breakdown, isEnded, jobName, jobState, outcomeBadge } from './job-components.ts'
import { sendJobList } from './job-list.ts'
import { customerPage, emptyState, noticeOf, sendHtml, table, tokenField } from './layout.ts'
import { PageError } from './page-error.ts'
import type { Permission } from './roles.ts'

const PREVIEW_ROWS = 20
const CSV = { format: 'text/csv; charset=utf-8', options: { safe: 'spreadsheet' } } as const
const CLEAN = { name: 'valid', selection: { status: 'valid', duplicates: 'drop' } } as const

/** Ids of a path become part of a REST path, so they may contain no other characters. */
const ID = /^[a-z]+_[0-9a-z]{1,64}$/
/** Of an event, and of the endpoint that it went to. */
const DELIVERY_ID = /^[a-z]+_[0-9a-z]{1,64}(\.we_[0-9a-z]{1,64})?$/

/** The list of jobs, and one job with its file, its deliveries and its cancellation. */
export function jobPageRoutes (deps: PageDeps): readonly RouteOptions[] {
  const route = customerRoutes(deps)
  return [
    route('GET', '/:mode/jobs', { access: 'jobs.view' }, sendJobList),
    route('GET', '/:mode/jobs/:id', { access: 'jobs.view' }, exchange => sendJob(deps, exchange)),
    route('GET', '/:mode/jobs/:id/results.csv', {
      access: 'results.view', records: 'results.downloaded',
    }, sendFile('all')),
    route('GET', '/:mode/jobs/:id/valid.csv', {
      access: 'results.view', records: 'results.downloaded',
    }, sendFile('valid')),
    route('POST', '/:mode/jobs/:id/cancel', {
      access: 'jobs.change', records: 'job.cancelled',
    }, async ({ visit, request, reply }) => {
      const { id } = pathIds(request.params)
      await visit.client.cancel(id)
      return reply.redirect(`/${visit.tenant.mode}/jobs/${id}?notice=cancelled`, 303)
    }),
    route('POST', '/:mode/jobs/:id/deliveries/:delivery/resend', {
      access: 'webhooks.change', records: 'delivery.resent',
    }, async ({ visit, request, reply }) => {
      const { id, delivery } = pathIds(request.params)
      const { status } = await visit.client.resend(id, delivery)
      const notice = status === 'queued' ? 'resent' : 'trying'
      return reply.redirect(`/${visit.tenant.mode}/jobs/${id}?notice=${notice}`, 303)
    }),
  ]
}

async function sendJob (
  { accessLog }: PageDeps, { visit, request, reply }: Exchange
): Promise<FastifyReply> {
  const { id } = pathIds(request.params)
  const job = await visit.client.job(id)
  const isShown = (permission: Permission) => isEnded(job) && may(visit.visitor, permission)
  const [preview, attempts] = await Promise.all([
    isShown('results.view') ? previewOf(visit.client, id) : undefined,
    isShown('webhooks.view') ? visit.client.deliveries(id) : [],
  ])
  if (preview !== undefined && preview.data.length > 0) {
    await accessLog.append({
      ...requesterOf(visit.visitor),
      action: 'results.previewed',
      target: id,
      address: request.clientAddress,
      details: { mode: visit.tenant.mode },
    })
  }
  return sendHtml(reply, jobView(visit, { job, preview, attempts, notice: noticeOf(request) }))
}

async function previewOf (client: Client, id: string) {
  try {
    return await client.resultsPage(id, { limit: PREVIEW_ROWS })
  } catch (error) {
    // The results are erased, or older than their retention.
    if (error instanceof ApiError && error.status === 410) return undefined
    throw error
  }
}

/** All rows, or the clean list: those that are valid, each contact once. */
function sendFile (kind: 'all' | 'valid') {
  return async ({ visit, request, reply }: Exchange): Promise<FastifyReply> => {
    const { id } = pathIds(request.params)
    const { join } = request.query as Readonly<Record<string, unknown>>
    const chunks = await visit.client.resultsFile(id, {
      ...CSV.options,
      ...(kind === 'all' ? {} : CLEAN.selection),
      ...(join === 'original' ? { join } : {}),
    })
    const name = kind === 'all' ? id : `${id}.${CLEAN.name}`
    return reply.type(CSV.format)
      .header('content-disposition', `attachment; filename="${name}.csv"`)
      .send(Readable.from(chunks))
  }
}

/** The ids in a path; throws PageError 404 for an invalid id. */
export function pathIds (parameters: unknown): { readonly id: string, readonly delivery: string } {
  const { id = '', delivery = 'evt_0' } = parameters as Readonly<Record<string, string>>
  if (!ID.test(id) || !DELIVERY_ID.test(delivery)) throw new PageError('not_found')
  return { id, delivery }
}

type JobDetails = {
  readonly job: JobStatusResource
  /** The first rows, while results exist. */
  readonly preview: ResultsPage | undefined
  readonly attempts: readonly AttemptBody[]
  readonly notice: Html | undefined
}

/** One job: progress, breakdown, money, results and deliveries. */
export function jobView (visit: Visit, details: JobDetails): Html {
  const { job, notice } = details
  const { mode } = visit.tenant
  const mayChange = may(visit.visitor, 'jobs.change')
  return customerPage(visit, 'jobs', {
    title: `Job ${jobName(job)}`,
    scripts: ['live.js'],
    body: html`
      <p class="back"><a href="/${mode}/jobs">Jobs</a></p>
      ${notice}
      <div class="heading">
        <h1 class="long">${jobName(job)}</h1>
        ${mayChange && !isEnded(job) && cancelForm(visit, job)}
        ${mayChange && isEnded(job) && job.erasedAt === null && html`<a class="button quiet danger"
          href="/${mode}/jobs/${job.id}/erase">Erase the job</a>`}
      </div>
      ${!isEnded(job) && html`<div data-live="/${mode}/live?view=job&amp;job=${job.id}"></div>`}
      ${jobState(job)}
      ${facts(visit, job)}
      <section><h2>Rows</h2>${breakdown(job)}</section>
      ${may(visit.visitor, 'results.view') && resultSection(visit, details)}
      ${may(visit.visitor, 'webhooks.view') && deliverySection(visit, details)}`,
  })
}

function cancelForm (visit: Visit, job: JobStatusResource): Html | false {
  return job.status !== 'cancelling' && html`
    <form method="post" action="/${visit.tenant.mode}/jobs/${job.id}/cancel">
      ${tokenField(visit.visitor.session)}
      <button class="button quiet danger" type="submit">Cancel the job</button>
    </form>`
}

function facts ({ zone }: Visit, job: JobStatusResource): Html {
  const fact = (name: string, value: Html | string) =>
    html`<div><dt>${name}</dt><dd>${value}</dd></div>`
  return html`<dl class="facts">
    ${fact('Job', html`<code>${job.id}</code>`)}
    ${fact('Service', job.service)}
    ${fact('Created', time(job.createdAt, zone))}
    ${fact('Ended', job.completedAt === null ? 'Not yet' : time(job.completedAt, zone))}
    ${job.erasedAt !== null && fact('Erased', time(job.erasedAt, zone))}
    ${fact('Maximum price', money(job.maxQuoteMicros))}
    ${isEnded(job) && fact('Charged', money(job.chargedMicros))}
    ${isEnded(job) && fact('Released', money(job.releasedMicros))}
  </dl>`
}

function resultSection (visit: Visit, { job, preview }: JobDetails): Html {
  return html`<section><div class="heading">
      <h2>Results</h2>
      ${preview !== undefined && downloads(visit, job)}</div>
    ${preview === undefined ? noResults(job) : previewTable(job, preview)}
  </section>`
}

function downloads (
  { tenant: { mode } }: Visit, { id, hasOriginalColumns }: JobStatusResource
): Html {
  const path = `/${mode}/jobs/${id}`
  return html`<div>
      <a class="button quiet" download
        href="${path}/valid.csv${hasOriginalColumns ? '?join=original' : ''}"
        title="The valid rows, without duplicates">Valid only</a>
      ${hasOriginalColumns && html`<a class="button quiet" download
        href="${path}/results.csv?join=original"
        title="The results beside the columns of your file">With your columns</a>`}
      <a class="button" download href="${path}/results.csv">Download CSV</a>
    </div>`
}

function noResults (job: JobStatusResource): Html {
  return emptyState(isEnded(job)
    ? job.erasedAt === null ? 'The results of this job are deleted.' : 'This job is erased.'
    : 'Results appear as soon as the job has ended. You may close this page: the job continues.')
}

const COLUMNS = [
  'row', 'input', 'status', 'reason', 'source', 'confidence', 'e164', 'email', 'country',
  'line_type', 'carrier',
] as const
const NUMBERS: readonly string[] = ['row', 'confidence']

function previewTable (job: JobStatusResource, { data }: ResultsPage): Html {
  // Omits columns that are blank in every row.
  const columns = COLUMNS.filter(name => data.some(row => (row[name] ?? '') !== ''))
  return html`
    <p class="hint">The first ${count(data.length)} of ${count(job.totalRows)} rows. The file has
      all rows and columns; cells that a spreadsheet would run as a formula start with an
      apostrophe.</p>
    ${table('Results', columns.map(text => ({
      text: text.replace('_', ' '), isNumber: NUMBERS.includes(text),
    })), data.map(row => html`<tr>${columns.map(name => html`
      <td${NUMBERS.includes(name) && html` class="number"`}>${cell(name, row[name])}</td>`)}
    </tr>`))}`
}

const TONES: Readonly<Record<string, string>> = {
  valid: 'good', invalid: 'bad', risky: 'waiting', unknown: 'muted',
}

function cell (name: string, value: ResultRow[string] | undefined): Html | string {
  const text = String(value ?? '')
  if (name !== 'status') return text
  return html`<span class="badge ${TONES[text] ?? 'muted'}">${text}</span>`
}

type Deliveries = {
  readonly job: Pick<JobStatusResource, 'id' | 'status'>
  readonly attempts: readonly AttemptBody[]
}

/**
 * The delivery attempts of a job's events, with a form to send each again: not progress, and none
 * that was discarded, as its endpoint or the contents of its job no longer exist.
 */
export function deliverySection (visit: Visit, { job, attempts }: Deliveries): Html {
  const discarded = new Set(attempts.filter(({ outcome }) => outcome === 'discarded')
    .map(({ deliveryId }) => deliveryId))
  const ids = new Map(attempts
    .filter(({ deliveryId, type }) => type !== 'job.progress' && !discarded.has(deliveryId))
    .map(({ deliveryId, type }) => [deliveryId, type]))
  return html`<section><div class="heading">
      <h2>Webhook deliveries</h2>
      ${[...ids].map(([id, type]) => html`
        <form method="post" action="/${visit.tenant.mode}/jobs/${job.id}/deliveries/${id}/resend">
          ${tokenField(visit.visitor.session)}
          <button class="button quiet" type="submit">${
            ids.size > 1 ? `Send ${type} once more` : 'Send once more'}</button>
        </form>`)}</div>
    ${attempts.length === 0
      ? emptyState(isEnded(job)
        ? 'No event was sent. A job with a webhook address sends one when it ends; the first ' +
          'attempt appears here within seconds.'
        : 'If the job has a webhook address, it sends an event when it ends.')
      : attemptTable(visit, attempts)}
  </section>`
}

function attemptTable ({ tenant, zone }: Visit, attempts: readonly AttemptBody[]): Html {
  return table('Webhook deliveries', [
    { text: 'Event' }, { text: 'To' }, { text: 'Attempt', isNumber: true }, { text: 'When' },
    { text: 'Outcome' },
    { text: 'Answer', isNumber: true }, { text: 'Why' }, { text: 'Took', isNumber: true },
  ], attempts.map(attempt => {
    const { endpointId, type } = attempt
    return html`<tr>
      <td><code>${type}</code></td>
      <td>${endpointId === null
        ? 'The job’s address'
        : html`<a href="/${tenant.mode}/webhooks/${endpointId}">Endpoint</a>`}</td>
      <td class="number">${attempt.attempt}</td>
      <td>${time(attempt.attemptedAt, zone)}</td>
      <td>${outcomeBadge(attempt.outcome)}</td>
      <td class="number">${attempt.statusCode ?? '–'}</td>
      <td>${attempt.reason ?? '–'}</td>
      <td class="number">${count(attempt.durationMs)} ms</td>
    </tr>`
  }))
}

/** The erasure of a job: a page that asks, and its form. */
export function eraseRoutes (deps: PageDeps): readonly RouteOptions[] {
  const route = customerRoutes(deps)
  return [
    route('GET', '/:mode/jobs/:id/erase', {
      access: 'jobs.change',
    }, async ({ visit, request, reply }) => {
      const job = await visit.client.job(pathIds(request.params).id)
      if (!isErasable(job)) throw new PageError('not_found')
      return sendHtml(reply, eraseView(visit, job))
    }),
    route('POST', '/:mode/jobs/:id/erase', {
      access: 'jobs.change', records: 'job.erased',
    }, async ({ visit, request, reply }) => {
      const { id } = pathIds(request.params)
      await visit.client.eraseJob(id, { cache: field(request, 'cache') === 'yes' })
      return reply.redirect(`/${visit.tenant.mode}/jobs/${id}?notice=erased`, 303)
    }),
  ]
}

/** Whether a job has ended and is not erased yet. */
export function isErasable (job: JobStatusResource): boolean {
  return isEnded(job) && job.erasedAt === null
}

/** Asks whether a job is to be erased. */
export function eraseView (visit: Visit, job: JobStatusResource): Html {
  const path = `/${visit.tenant.mode}/jobs/${job.id}`
  return customerPage(visit, 'jobs', {
    title: 'Erase a job',
    body: html`
      <div class="narrow">
        <h1>Erase ${jobName(job)}?</h1>
        <p>Its inputs, results and labels become unreadable for ever, at once and for everybody.
          Counts, prices and movements of the balance stay. This cannot be undone.</p>
        <form method="post" action="${path}/erase">
          ${tokenField(visit.visitor.session)}
          <label class="check"><input type="checkbox" name="cache" value="yes">
            Also forget the cached verdicts of its contacts: later jobs check them again, and
            pay for it.</label>
          <p class="row"><button class="button bad" type="submit">Erase the job</button>
            <a class="button quiet" href="${path}">Keep it</a></p>
        </form>
      </div>`,
  })
}
