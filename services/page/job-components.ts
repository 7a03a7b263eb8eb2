import type { AttemptBody } from '../../schemas/api/webhooks.ts'
import type { ROW_COUNTERS, VerdictsBody } from '../../schemas/api/job.ts'
import { PREFLIGHT_REASONS, ROW_STATUSES, type RowStatus } from '../../schemas/api/verdicts.ts'
import { ApiError, type Client, hasEnded, type JobStatusResource } from '../client/client.ts'
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

/** State and progress of a job. Live updates replace this element by its id. */
export function jobState (job: JobStatusResource): Html {
  const [text, tone] = STATES[job.status] ?? [job.status, 'muted']
  return html`<div class="state" id="state-${job.id}">
    ${badge(text, tone)}
    ${!hasEnded(job) && html`
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
  const running = jobs.filter(job => !hasEnded(job)).slice(0, MAX_LIVE_JOBS)
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
  // A blank label would be a link that nobody sees.
  return metadata.file?.trim() || metadata.name?.trim() || id
}

type Counter = typeof ROW_COUNTERS[number]

/** The parts of all rows of a job: where their verdicts come from. The tone names the color. */
const PARTS: Readonly<Record<Counter, readonly [name: string, tone: string]>> = {
  freshRecords: ['Checked live', 'one'],
  cacheHits: ['From your cache', 'two'],
  duplicateRecords: ['Duplicates', 'three'],
  invalidRecords: ['Unreadable or blocked', 'four'],
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
      ${hasEnded(job) && html`
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

/**
 * How good the rows of a job are: verdicts and reasons, while it runs and at its end. Live updates
 * replace this element by its id.
 */
export function quality (job: JobStatusResource): Html {
  const { id, verdicts, reasons } = job
  return html`<div class="breakdown" id="quality-${id}">${verdicts === null || reasons === null
    ? html`<p class="hint">The verdicts of this job were not counted. The file has them.</p>`
    : html`${verdictTable(verdicts, job.totalRows)}
      ${bounceEstimate(job)}
      ${reasonTable(reasons)}`}</div>`
}

type Reasons = NonNullable<JobStatusResource['reasons']>

function verdictTable (verdicts: VerdictsBody, totalRows: number): Html {
  const open = totalRows - countRows(verdicts)
  const segments = [
    ...toSegments(verdicts), ...open > 0 ? [{ name: 'Open', rows: open, tone: 'seven' }] : [],
  ]
  return html`${shareBar('Verdicts', segments, totalRows)}
    <table>
      <caption class="unseen">Rows by verdict</caption>
      <thead><tr><th scope="col">Verdict</th><th scope="col" class="number">Rows</th>
        <th scope="col" class="number">Share</th></tr></thead>
      <tbody>${segments.map(({ name, rows, tone }) => html`<tr>
        <th scope="row">${swatch(tone)} ${name}</th>
        <td class="number">${count(rows)}</td>
        <td class="number">${share(rows, totalRows)}</td></tr>`)}</tbody>
    </table>`
}

function toSegments (verdicts: VerdictsBody): readonly Segment[] {
  return Object.entries(VERDICTS).map(([status, [name, tone]]) =>
    ({ name, tone, rows: verdicts[status as RowStatus] }))
}

function countRows (verdicts: VerdictsBody): number {
  return ROW_STATUSES.reduce((sum, status) => sum + verdicts[status], 0)
}

function reasonTable (reasons: Reasons): Html | false {
  const sorted = Object.entries(reasons).toSorted(([, one], [, other]) => other - one)
  const whole = sorted.reduce((sum, [, rows]) => sum + rows, 0)
  return sorted.length > 0 && html`<table>
    <caption class="unseen">Rows by reason</caption>
    <thead><tr><th scope="col">Reason</th><th scope="col"><span class="unseen">Drawn</span></th>
      <th scope="col" class="number">Rows</th></tr></thead>
    <tbody>${sorted.map(([reason, rows]) => html`<tr>
      <th scope="row">${reason.replaceAll('_', ' ')}</th>
      <td class="drawn">${shareBar('Share', [
        { name: reason, rows, tone: 'two' }, { name: 'others', rows: whole - rows, tone: 'seven' },
      ], whole)}</td>
      <td class="number">${count(rows)}</td></tr>`)}</tbody>
  </table>`
}

/** The reasons of rows that have no address, and of those that the organization mails nothing. */
const UNMAILED: ReadonlySet<string> = new Set([...PREFLIGHT_REASONS, 'block_listed', 'suppressed'])

/** What part of the addresses would bounce, at least and at most. */
function bounceEstimate ({ service, verdicts, reasons }: JobStatusResource): Html | false {
  if (service !== 'email-validation' || verdicts === null || reasons === null) return false
  const unmailed = Object.entries(reasons).filter(([reason]) => UNMAILED.has(reason))
    .reduce((sum, [, rows]) => sum + rows, 0)
  const mailed = countRows(verdicts) - unmailed
  if (mailed <= 0) return false
  const least = Math.max(0, verdicts.invalid - unmailed)
  const most = least + verdicts.risky + verdicts.unknown
  const range = `${share(least, mailed)} to ${share(most, mailed)}`
  return html`<p><strong>Bounce estimate: ${range}.</strong>
    <span class="hint">If you mailed all ${count(mailed)} addresses that are readable and not
      blocked, at least the invalid ones would bounce, and at most also every risky and every
      unknown one.</span></p>`
}

/** What rows can be grouped by, with the services that have the column. */
const GROUPS = {
  country: 'Country',
  line_type: 'Line type',
  mail_provider: 'Mail provider',
  domain: 'Domain',
} as const

type Group = keyof typeof GROUPS

/** For each column the values with the most rows, by verdict; no other part of a row is kept. */
export type JobSummary = ReadonlyMap<Group, readonly Counted[]>
type Counted = readonly [value: string, verdicts: VerdictsBody]

const MAX_GROUPS = 10
/** Beyond that, new values count together: a list of addresses can have a domain per row. */
const MAX_VALUES = 20_000

/**
 * Counts the results of an ended job in one pass, for each of its columns that groups rows.
 * undefined when they are erased or older than their retention.
 */
export async function summarize (
  client: Client, { id, service }: JobStatusResource
): Promise<JobSummary | undefined> {
  const { columns = [] } = (await client.services()).find(({ slug }) => slug === service) ?? {}
  const isPhone = !columns.includes('domain')
  const groups = (Object.keys(GROUPS) as Group[]).filter(group =>
    isPhone ? ['country', 'line_type'].includes(group) : columns.includes(group))
  const summary = new Map(groups.map(group =>
    [group, new Map<string, Record<RowStatus, number>>()]))
  try {
    for await (const row of client.resultLines(id, { columns: ['status', ...groups] })) {
      for (const [group, values] of summary) {
        const value = String(row[group] ?? '')
        const name = values.size < MAX_VALUES || values.has(value) ? value : OTHERS
        const verdicts = values.get(name) ?? { valid: 0, invalid: 0, risky: 0, unknown: 0 }
        verdicts[row.status as RowStatus] += 1
        values.set(name, verdicts)
      }
    }
  } catch (error) {
    if (error instanceof ApiError && error.status === 410) return undefined
    throw error
  }
  return new Map([...summary].map(([group, values]) => [group, mostRows(values)]))
}

/** The values with the most rows, and the others together. */
function mostRows (values: ReadonlyMap<string, VerdictsBody>): readonly Counted[] {
  const sorted = [...values].toSorted(([, a], [, b]) => countRows(b) - countRows(a))
  const rest = sorted.slice(MAX_GROUPS)
  if (rest.length === 0) return sorted
  const sum = { valid: 0, invalid: 0, risky: 0, unknown: 0 }
  for (const [, verdicts] of rest) {
    for (const status of ROW_STATUSES) sum[status] += verdicts[status]
  }
  return [...sorted.slice(0, MAX_GROUPS), [OTHERS, sum]]
}

/** Names no value: values of columns have no spaces around them. */
const OTHERS = ' others'

/** The summary of a job: for each column the values with the most rows. */
export function summaryTables (summary: JobSummary): Html {
  return html`<div class="columns">${[...summary].map(([group, values]) => html`
    <section><h2>${GROUPS[group]}</h2>${table(`Rows by ${GROUPS[group].toLowerCase()}`, values, [
      { text: GROUPS[group], isHeader: true, look: 'job', cell: ([value]) => label(group, value) },
      { text: 'Rows', isNumber: true, cell: ([, verdicts]) => count(countRows(verdicts)) },
      {
        text: 'Valid',
        isNumber: true,
        cell: ([, verdicts]) => share(verdicts.valid, countRows(verdicts)),
      },
      {
        text: 'Verdicts',
        look: 'drawn',
        cell: ([, verdicts]) => shareBar('Verdicts', toSegments(verdicts), countRows(verdicts)),
      },
    ])}</section>`)}</div>`
}

const countries = new Intl.DisplayNames('en', { type: 'region' })

function label (group: Group, value: string): string {
  if (value === '') return 'Not known'
  if (value === OTHERS) return 'All others'
  return group === 'country' ? countries.of(value) ?? value : value.replaceAll('_', ' ')
}

/** A part of a whole of rows; the tone names its color. */
type Segment = { readonly name: string, readonly rows: number, readonly tone: string }

/** The verdicts in the order and the colors of all charts and tables. */
export const VERDICTS: Readonly<Record<RowStatus, readonly [name: string, tone: string]>> = {
  valid: ['Valid', 'one'],
  risky: ['Risky', 'three'],
  invalid: ['Invalid', 'four'],
  unknown: ['Unknown', 'six'],
}

const BAR_WIDTH = 1_000
const BAR_HEIGHT = 28
/** The minimum width of a segment, so that every segment is visible. */
const MIN_SEGMENT_WIDTH = 4

/** The parts of a whole as one bar, drawn by the server: it changes while a job runs. */
export function shareBar (
  label: string, segments: readonly Segment[], totalRows: number
): Html {
  const widths = scaleToBar(segments.map(({ rows }) => rows))
  const shares = segments.filter(({ rows }) => rows > 0)
    .map(({ name, rows }) => `${name} ${share(rows, totalRows)}`)
  let x = 0
  const rects = segments.map(({ name, rows, tone }, index) => {
    const width = widths[index] ?? 0
    const rect = width > 0 && html`<rect class="tone-${tone}" x="${x.toFixed(2)}" y="0"
      width="${width.toFixed(2)}" height="${BAR_HEIGHT}"><title>${name}: ${
        count(rows)}</title></rect>`
    x += width
    return rect
  })
  return html`<svg class="bar" viewBox="0 0 ${BAR_WIDTH} ${BAR_HEIGHT}" preserveAspectRatio="none"
    role="img" aria-label="${label}: ${shares.join(', ')}.">${rects}</svg>`
}

/** The widths of numbers of rows, which add up to the width of the bar. */
function scaleToBar (numbers: readonly number[]): readonly number[] {
  const whole = numbers.reduce((sum, rows) => sum + rows, 0)
  if (whole === 0) return numbers.map(() => 0)
  const minimal = numbers.map(rows =>
    rows === 0 ? 0 : Math.max(MIN_SEGMENT_WIDTH, BAR_WIDTH * rows / whole))
  const sum = minimal.reduce((all, width) => all + width, 0)
  return minimal.map(width => width * BAR_WIDTH / sum)
}

/** The color of a segment, beside its name in a table. */
export function swatch (tone: string): Html {
  return html`<svg class="swatch" viewBox="0 0 10 10" width="10" height="10" aria-hidden="true"
    focusable="false"><rect class="tone-${tone}" width="10" height="10" rx="2"/></svg>`
}
