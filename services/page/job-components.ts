import type { AttemptBody } from '../../schemas/api/deliveries.ts'
import type { ROW_COUNTERS } from '../../schemas/api/job.ts'
import type { JobStatusResource } from '../client/client.ts'
import { shareBar, swatch } from './charts.ts'
import { may, type Visit } from './context.ts'
import { count, html, type Html, money, share, time } from './html.ts'
import { badge, type TableColumn, table } from './layout.ts'

type Status = JobStatusResource['status']

const STATES: Readonly<Record<Status, readonly [text: string, tone: string]>> = {
  queued: ['Queued', 'waiting'],
  preparing: ['Preparing', 'running'],
  verifying: ['Verifying', 'running'],
  completed: ['Completed', 'good'],
  cancelling: ['Cancelling', 'waiting'],
  cancelled: ['Cancelled', 'muted'],
  failed: ['Failed', 'bad'],
}

/** The text for the state of a job; the state itself when it is unknown. */
export function stateText (status: Status): string {
  return STATES[status]?.[0] ?? status
}

/** Whether a job is in a final state. */
export function isEnded ({ status }: JobStatusResource): boolean {
  return ['completed', 'cancelled', 'failed'].includes(status)
}

/** State and progress of a job. Live updates replace this element by its id. */
export function jobState (job: JobStatusResource): Html {
  const [text, tone] = STATES[job.status] ?? [job.status, 'muted']
  return html`<div class="state" id="state-${job.id}">
    ${badge(text, tone)}
    ${!isEnded(job) && html`
      <progress max="100" value="${job.progressPercent}" aria-label="Progress of ${job.id}">
      </progress> <span class="percent">${job.progressPercent} %</span>`}
  </div>`
}

/** What rows wait for, by the reason that one would have if it ended now. */
const WAITING_REASONS: Readonly<Record<string, string>> = {
  greylisted: 'the server asks to come back later',
  no_answer: 'the server has not answered yet',
  blocked: 'the server refuses us for now',
  mail_server_unreachable: 'the server cannot be reached',
  timeout: 'the server takes only so many questions at a time',
  dns_error: 'nobody says which server the domain has',
  unavailable: 'the check is not available yet',
}

/**
 * The rows of a job that wait, why, and until when; empty while none does. Live updates replace
 * this element by its id.
 */
export function waitingRows (
  { id, waiting }: JobStatusResource, zone: string
): Html {
  return html`<div id="waiting-${id}">${waiting !== null && html`
    <div class="notice">
      <p>${count(waiting.rows)} of the open rows wait for an answer, until about
        ${time(waiting.estimatedEndAt, zone)}:</p>
      <ul>${Object.entries(waiting.reasons).map(([reason, rows]) => html`
        <li>${count(rows)}: ${WAITING_REASONS[reason] ?? reason.replaceAll('_', ' ')}</li>`)}</ul>
      <p>You may close this page. To have the results now, cancel the job: what is verified stays,
        and rows that wait end as unknown, free.</p>
    </div>`}</div>`
}

/** The table of jobs. While jobs run, it contains an element that subscribes to their progress. */
export function jobTable (
  { tenant: { mode }, zone }: Visit, jobs: readonly JobStatusResource[]
): Html {
  const running = jobs.filter(job => !isEnded(job)).slice(0, MAX_LIVE_JOBS)
  const query = new URLSearchParams(running.map(({ id }): [string, string] => ['job', id]))
  return html`
    ${running.length > 0 && html`
      <div data-live="/${mode}/live?view=list&amp;${String(query)}"></div>`}
    ${table('Jobs', jobs, [
      {
        text: 'Job',
        isHeader: true,
        look: 'job',
        cell: job => html`<a class="${jobName(job) === job.id ? 'id' : 'file'}"
          href="/${mode}/jobs/${job.id}">${jobName(job)}</a>`,
      },
      { text: 'State', look: 'wide-state', cell: jobState },
      { text: 'Rows', isNumber: true, cell: ({ totalRows }) => count(totalRows) },
      { text: 'Service', cell: ({ service }) => service },
      { text: 'Created', cell: ({ createdAt }) => time(createdAt, zone) },
    ])}`
}

/** A link to the page that verifies a file, for those who may. */
export function uploadLink ({ visitor, tenant }: Visit): Html | false {
  return may(visitor, 'jobs.change') && html`
    <a class="button" href="/${tenant.mode}/upload">Verify a file</a>`
}

/** How many jobs of one page get live updates. */
export const MAX_LIVE_JOBS = 20

/** The name of a job for people: its file, its label `name`, or its id. */
export function jobName ({ id, metadata }: JobStatusResource): string {
  return metadata.file ?? metadata.name ?? id
}

type Counter = typeof ROW_COUNTERS[number]

/** The parts of all rows of a job: where their verdicts come from. The tone names the color. */
const PARTS: Readonly<Record<Counter, readonly [name: string, tone: string]>> = {
  freshRecords: ['Checked live', 'one'],
  cacheHits: ['From your cache', 'two'],
  duplicateRecords: ['Duplicates', 'three'],
  invalidRecords: ['Not readable', 'four'],
  unknownRecords: ['Unknown', 'five'],
  cancelledRecords: ['Cancelled', 'six'],
  pendingRecords: ['Open', 'seven'],
}

/** The breakdown of a job: a bar of its parts, and the same as a table. */
export function breakdown (job: JobStatusResource): Html {
  const segments = Object.entries(PARTS).map(([counter, [name, tone]]) =>
    ({ name, tone, rows: job[counter as Counter] }))
  const cells = (rows: number) => html`<td class="number">${count(rows)}</td>
    <td class="number">${share(rows, job.totalRows)}</td>`
  return html`<div class="breakdown" id="breakdown-${job.id}">
    ${shareBar('Where verdicts come from', segments, job.totalRows)}
    <table>
      <caption class="unseen">Rows by where their verdicts come from</caption>
      <thead><tr><th scope="col">Rows</th><th scope="col" class="number">Number</th>
        <th scope="col" class="number">Share</th></tr></thead>
      <tbody>${segments.map(({ name, rows, tone }) => html`<tr>
        <th scope="row">${swatch(tone)} ${name}</th> ${cells(rows)}</tr>`)}</tbody>
      <tfoot>
        <tr><th scope="row">With a verdict</th> ${cells(job.successRecords)}</tr>
        <tr><th scope="row">Without a verdict, free</th> ${cells(job.failedRecords)}</tr>
      </tfoot>
    </table>
  </div>`
}

/** The money of a job. Live updates replace this element by its id. */
export function moneyTable (job: JobStatusResource): Html {
  const line = (name: string, micros: number, hint: string) => html`<tr>
    <th scope="row">${name}<br><span class="hint">${hint}</span></th>
    <td class="number">${money(micros)}</td></tr>`
  return html`<div class="breakdown" id="money-${job.id}"><table>
    <caption class="unseen">Money of the job</caption>
    <tbody>
      ${line('Maximum price', job.maxQuoteMicros, 'Reserved when the job was accepted')}
      ${isEnded(job) && html`
        ${line('Charged', job.chargedMicros, 'For rows with a verdict that was checked live')}
        ${line('Released', job.releasedMicros, 'Back in your balance')}`}
    </tbody></table></div>`
}

/** The delivery attempts of a job, to all its receivers, or of an endpoint, for all jobs. */
export function attemptTable (
  { tenant: { mode }, zone }: Visit, subject: 'job' | 'endpoint', attempts: readonly AttemptBody[]
): Html {
  const columns: readonly TableColumn<AttemptBody>[] = [
    { text: 'When', cell: ({ attemptedAt }) => time(attemptedAt, zone) },
    {
      text: 'Outcome',
      cell: ({ outcome }) => badge(...OUTCOMES[outcome] ?? [outcome, 'muted']),
    },
    { text: 'Answer', isNumber: true, cell: ({ statusCode }) => statusCode ?? '–' },
    { text: 'Why', cell: ({ reason }) => reason ?? '–' },
  ]
  const event: TableColumn<AttemptBody> = {
    text: 'Event', cell: ({ type }) => html`<code>${type}</code>`,
  }
  if (subject === 'endpoint') {
    return table('Deliveries', attempts, [event, {
      text: 'Job', cell: ({ jobId }) => html`<a href="/${mode}/jobs/${jobId}">${jobId}</a>`,
    }, ...columns])
  }
  return table('Webhook deliveries', attempts, [
    event,
    {
      text: 'To',
      cell: ({ endpointId }) => endpointId === null
        ? 'The job’s address'
        : html`<a href="/${mode}/webhooks/${endpointId}">Endpoint</a>`,
    },
    { text: 'Attempt', isNumber: true, cell: ({ attempt }) => attempt },
    ...columns,
    { text: 'Took', isNumber: true, cell: ({ durationMs }) => `${count(durationMs)} ms` },
  ])
}

/** Outcomes of attempts in words, with their tones. */
export const OUTCOMES: Readonly<
  Record<AttemptBody['outcome'], readonly [text: string, tone: string]>
> = {
  delivered: ['Delivered', 'good'],
  failed: ['Failed, retrying', 'waiting'],
  gone: ['Receiver gone', 'bad'],
  exhausted: ['Retries exhausted', 'bad'],
  discarded: ['Discarded', 'muted'],
}
