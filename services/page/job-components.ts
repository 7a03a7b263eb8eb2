import type { AttemptBody } from '../../schemas/api/deliveries.ts'
import type { ROW_COUNTERS } from '../../schemas/api/job.ts'
import type { JobStatusResource } from '../client/client.ts'
import { count, html, type Html, share, time } from './html.ts'
import { table } from './layout.ts'

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
export function isEnded ({ status }: Pick<JobStatusResource, 'status'>): boolean {
  return ['completed', 'cancelled', 'failed'].includes(status)
}

/** State and progress of a job. Live updates replace this element by its id. */
export function jobState (job: JobStatusResource): Html {
  const [text, tone] = STATES[job.status] ?? [job.status, 'muted']
  return html`<div class="state" id="state-${job.id}">
    <span class="badge ${tone}">${text}</span>
    ${!isEnded(job) && html`
      <progress max="100" value="${job.progressPercent}" aria-label="Progress of ${job.id}">
      </progress> <span class="percent">${job.progressPercent} %</span>`}
  </div>`
}

/** The table of jobs. While jobs run, it contains an element that subscribes to their progress. */
export function jobTable (
  jobs: readonly JobStatusResource[],
  { mode, zone }: { readonly mode: string, readonly zone: string }
): Html {
  const running = jobs.filter(job => !isEnded(job)).slice(0, MAX_LIVE_JOBS)
  const query = new URLSearchParams(running.map(({ id }): [string, string] => ['job', id]))
  return html`
    ${running.length > 0 && html`
      <div data-live="/${mode}/live?view=list&amp;${String(query)}"></div>`}
    ${table('Jobs', [
      { text: 'Job' }, { text: 'State' }, { text: 'Rows', isNumber: true }, { text: 'Service' },
      { text: 'Created' },
    ], jobs.map(job => html`<tr>
      <th class="job" scope="row"><a class="${job.metadata.file === undefined ? 'id' : 'file'}"
        href="/${mode}/jobs/${job.id}">${jobName(job)}</a></th>
      <td class="wide-state">${jobState(job)}</td>
      <td class="number">${count(job.totalRows)}</td>
      <td>${job.service}</td>
      <td>${time(job.createdAt, zone)}</td>
    </tr>`))}`
}

/** How many jobs of one page get live updates. */
export const MAX_LIVE_JOBS = 20

/** The name of a job for people: its file, or its id. */
export function jobName ({ id, metadata }: Pick<JobStatusResource, 'id' | 'metadata'>): string {
  return metadata.file ?? id
}

/** A part of all rows of a job; `tone` names its color. */
type Segment = { readonly name: string, readonly rows: number, readonly tone: string }

type Counts = Pick<JobStatusResource,
  'id' | 'totalRows' | 'successRecords' | 'failedRecords' | typeof ROW_COUNTERS[number]>

const WIDTH = 1_000
const HEIGHT = 28
/** The minimum width of a segment, so that every segment is visible. */
const MIN_WIDTH = 4

/** The rows of a job by the source of their verdicts; unfinished rows are open. */
export function segmentsOf (job: Counts): readonly Segment[] {
  return [
    { name: 'Checked live', rows: job.freshRecords, tone: 'one' },
    { name: 'From your cache', rows: job.cacheHits, tone: 'two' },
    { name: 'Duplicates', rows: job.duplicateRecords, tone: 'three' },
    { name: 'Not readable', rows: job.invalidRecords, tone: 'four' },
    { name: 'Unknown', rows: job.unknownRecords, tone: 'five' },
    { name: 'Cancelled', rows: job.cancelledRecords, tone: 'six' },
    { name: 'Open', rows: job.pendingRecords, tone: 'seven' },
  ]
}

/** The widths of the segments, which add up to the width of the bar. */
export function widthsOf (segments: readonly Segment[]): readonly number[] {
  const whole = segments.reduce((sum, { rows }) => sum + rows, 0)
  if (whole === 0) return segments.map(() => 0)
  const minimal = segments.map(({ rows }) =>
    rows === 0 ? 0 : Math.max(MIN_WIDTH, WIDTH * rows / whole))
  const sum = minimal.reduce((all, width) => all + width, 0)
  return minimal.map(width => width * WIDTH / sum)
}

/** The breakdown of a job: a bar of its segments, and the same as a table. */
export function breakdown (job: Counts): Html {
  const segments = segmentsOf(job)
  return html`<div class="breakdown" id="breakdown-${job.id}">
    ${bar(segments, job.totalRows)}
    <table>
      <caption class="unseen">Rows by where their verdicts come from</caption>
      <thead><tr><th scope="col">Rows</th><th scope="col" class="number">Number</th>
        <th scope="col" class="number">Share</th></tr></thead>
      <tbody>${segments.map(({ name, rows, tone }) => html`<tr>
        <th scope="row">${swatch(tone)} ${name}</th>
        <td class="number">${count(rows)}</td>
        <td class="number">${share(rows, job.totalRows)}</td>
      </tr>`)}</tbody>
      <tfoot>
        <tr><th scope="row">With a verdict</th><td class="number">${count(job.successRecords)}</td>
          <td class="number">${share(job.successRecords, job.totalRows)}</td></tr>
        <tr><th scope="row">Without a verdict, free</th>
          <td class="number">${count(job.failedRecords)}</td>
          <td class="number">${share(job.failedRecords, job.totalRows)}</td></tr>
      </tfoot>
    </table>
  </div>`
}

function bar (segments: readonly Segment[], whole: number): Html {
  const widths = widthsOf(segments)
  const shares = segments.filter(({ rows }) => rows > 0)
    .map(({ name, rows }) => `${name} ${share(rows, whole)}`)
  let x = 0
  const rects = segments.map(({ name, rows, tone }, index) => {
    const width = widths[index] ?? 0
    const rect = width > 0 && html`<rect class="tone-${tone}" x="${x.toFixed(2)}" y="0"
      width="${width.toFixed(2)}" height="${HEIGHT}"><title>${name}: ${count(rows)}</title></rect>`
    x += width
    return rect
  })
  return html`<svg class="bar" viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none"
    role="img" aria-label="Where verdicts come from: ${shares.join(', ')}.">${rects}</svg>`
}

function swatch (tone: string): Html {
  return html`<svg class="swatch" viewBox="0 0 10 10" width="10" height="10" aria-hidden="true"
    focusable="false"><rect class="tone-${tone}" width="10" height="10" rx="2"/></svg>`
}

const OUTCOMES: Readonly<Record<AttemptBody['outcome'], readonly [text: string, tone: string]>> = {
  delivered: ['Delivered', 'good'],
  failed: ['Failed, retrying', 'waiting'],
  gone: ['Receiver gone', 'bad'],
  exhausted: ['Retries exhausted', 'bad'],
  discarded: ['Discarded', 'muted'],
}

/** The outcome of a delivery attempt in words. */
export function outcomeBadge (outcome: AttemptBody['outcome']): Html {
  const [text, tone] = OUTCOMES[outcome] ?? [outcome, 'muted']
  return html`<span class="badge ${tone}">${text}</span>`
}
