import type { AttemptBody } from '../../../schemas/api/deliveries.ts'
import type { ResultsPage } from '../../../schemas/api/results.ts'
import type { JobStatusResource } from '../../client/client.ts'
import type { Visit } from './context.ts'
import { count, html, money, time, type Html } from './html.ts'
import { breakdown, isEnded, jobName, jobState } from './job-components.ts'
import { customerPage, emptyState, table, tokenField } from './layout.ts'

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
  return customerPage(visit, 'jobs', {
    title: `Job ${jobName(job)}`,
    scripts: ['live.js'],
    body: html`
      <p class="back"><a href="/${mode}/jobs">Jobs</a></p>
      ${notice}
      <div class="heading">
        <h1 class="long">${jobName(job)}</h1>
        ${!isEnded(job) && cancelForm(visit, job)}
      </div>
      ${!isEnded(job) && html`<div data-live="/${mode}/live?view=job&amp;job=${job.id}"></div>`}
      ${jobState(job)}
      ${facts(visit, job)}
      <section><h2>Rows</h2>${breakdown(job)}</section>
      ${resultSection(visit, details)}
      ${deliverySection(visit, details)}`,
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
    ${fact('Maximum price', money(job.maxQuoteMicros))}
    ${isEnded(job) && fact('Charged', money(job.chargedMicros))}
    ${isEnded(job) && fact('Released', money(job.releasedMicros))}
  </dl>`
}

function resultSection (visit: Visit, { job, preview }: JobDetails): Html {
  return html`<section><div class="heading">
      <h2>Results</h2>
      ${preview !== undefined && html`<a class="button" download
        href="/${visit.tenant.mode}/jobs/${job.id}/results.csv">Download CSV</a>`}</div>
    ${preview === undefined ? noResults(job) : previewTable(job, preview)}
  </section>`
}

function noResults (job: JobStatusResource): Html {
  return emptyState(isEnded(job)
    ? 'The results of this job are deleted.'
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

function cell (name: string, value: string | number | null | undefined): Html | string {
  const text = String(value ?? '')
  if (name !== 'status') return text
  return html`<span class="badge ${TONES[text] ?? 'muted'}">${text}</span>`
}

const OUTCOMES: Readonly<Record<AttemptBody['outcome'], readonly [text: string, tone: string]>> = {
  delivered: ['Delivered', 'good'],
  failed: ['Failed, retrying', 'waiting'],
  gone: ['Receiver gone', 'bad'],
  exhausted: ['Retries exhausted', 'bad'],
  discarded: ['Discarded', 'muted'],
}

type Deliveries = {
  readonly job: Pick<JobStatusResource, 'id' | 'status'>
  readonly attempts: readonly AttemptBody[]
}

/** The delivery attempts of a job's event, with a form to send it again. */
export function deliverySection (visit: Visit, { job, attempts }: Deliveries): Html {
  const ids = [...new Set(attempts.map(({ deliveryId }) => deliveryId))]
  return html`<section><div class="heading">
      <h2>Webhook deliveries</h2>
      ${ids.map(id => html`
        <form method="post" action="/${visit.tenant.mode}/jobs/${job.id}/deliveries/${id}/resend">
          ${tokenField(visit.visitor.session)}
          <button class="button quiet" type="submit">Send once more</button>
        </form>`)}</div>
    ${attempts.length === 0
      ? emptyState(isEnded(job)
        ? 'No event was sent. A job with a webhook address sends one when it ends; the first ' +
          'attempt appears here within seconds.'
        : 'If the job has a webhook address, it sends an event when it ends.')
      : attemptTable(visit, attempts)}
  </section>`
}

function attemptTable ({ zone }: Visit, attempts: readonly AttemptBody[]): Html {
  return table('Webhook deliveries', [
    { text: 'Attempt', isNumber: true }, { text: 'When' }, { text: 'Outcome' },
    { text: 'Answer', isNumber: true }, { text: 'Why' }, { text: 'Took', isNumber: true },
  ], attempts.map(attempt => {
    const [text, tone] = OUTCOMES[attempt.outcome] ?? [attempt.outcome, 'muted']
    return html`<tr>
      <td class="number">${attempt.attempt}</td>
      <td>${time(attempt.attemptedAt, zone)}</td>
      <td><span class="badge ${tone}">${text}</span></td>
      <td class="number">${attempt.statusCode ?? '–'}</td>
      <td>${attempt.reason ?? '–'}</td>
      <td class="number">${count(attempt.durationMs)} ms</td>
    </tr>`
  }))
}
