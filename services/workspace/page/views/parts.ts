import type { JobStatusResource } from '../../../client/client.ts'
import { count, time } from '../format.ts'
import { html, type Html, type Piece } from '../html.ts'

/** A table that is scrolled by itself where it is too wide, with the keyboard as well. */
export function table (
  name: string, columns: readonly Column[], rows: readonly Piece[]
): Html {
  return html`<div class="table" role="region" aria-label="${name}" tabindex="0"><table>
    <caption class="unseen">${name}</caption>
    <thead><tr>${columns.map(({ text, isNumber = false, isUnseen = false }) => html`
      <th scope="col"${isNumber && html` class="number"`}>${
        isUnseen ? html`<span class="unseen">${text}</span>` : text}</th>`)}</tr></thead>
    <tbody>${rows}</tbody>
  </table></div>`
}

type Column = {
  readonly text: string
  readonly isNumber?: boolean
  readonly isUnseen?: boolean
}

/** A place where something would stand, and how to come by it. */
export function emptyState (text: string, action?: Html): Html {
  return html`<div class="empty"><p>${text}</p>${action}</div>`
}

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

/** What a state of a job is called. */
export function stateText (status: Status): string {
  return STATES[status]?.[0] ?? status
}

/** Whether nothing more happens to a job. */
export function isEnded ({ status }: Pick<JobStatusResource, 'status'>): boolean {
  return ['completed', 'cancelled', 'failed'].includes(status)
}

/** State and progress of a job; the element that live progress replaces. */
export function jobState (job: JobStatusResource): Html {
  const [text, tone] = STATES[job.status] ?? [job.status, 'muted']
  return html`<div class="state" id="state-${job.id}">
    <span class="badge ${tone}">${text}</span>
    ${!isEnded(job) && html`
      <progress max="100" value="${job.progressPercent}" aria-label="Progress of ${job.id}">
      </progress> <span class="percent">${job.progressPercent} %</span>`}
  </div>`
}

/** The table of jobs, and an element that asks for live progress while one of them runs. */
export function jobTable (
  jobs: readonly JobStatusResource[],
  { mode, zone }: { readonly mode: string, readonly zone: string }
): Html {
  const running = jobs.filter(job => !isEnded(job)).slice(0, LIVE_JOBS)
  const query = new URLSearchParams(running.map(({ id }): [string, string] => ['job', id]))
  return html`
    ${running.length > 0 && html`
      <div data-live="/${mode}/live?view=list&amp;${String(query)}"></div>`}
    ${table('Jobs', [
      { text: 'Job' }, { text: 'State' }, { text: 'Rows', isNumber: true }, { text: 'Service' },
      { text: 'Created' },
    ], jobs.map(job => html`<tr>
      <th class="job" scope="row"><a class="${job.metadata.file === undefined ? 'id' : 'file'}"
        href="/${mode}/jobs/${job.id}">${fileOf(job)}</a></th>
      <td class="wide-state">${jobState(job)}</td>
      <td class="number">${count(job.totalRows)}</td>
      <td>${job.service}</td>
      <td>${time(job.createdAt, zone)}</td>
    </tr>`))}`
}

/** So many jobs are followed on one page. */
export const LIVE_JOBS = 20

/** What people know a job by: the file it came from, or else its id. */
export function fileOf ({ id, metadata }: Pick<JobStatusResource, 'id' | 'metadata'>): string {
  return metadata.file ?? id
}
