import { count, duration } from './amounts.ts'

/** Rows that have come to their end, and how many had when this run began. */
export type SubmitProgress = {
  readonly done: number
  readonly rows: number
  readonly before: number
  readonly jobs: number
  readonly endedJobs: number
}

const BAR = 24
/** Of fewer rows nobody can tell how long the rest will take. */
const FEW_ROWS = 100

/** A bar, rows, rows a second of this run, and how long the rest will take at that rate. */
export function submitText (progress: SubmitProgress, seconds: number): string {
  const { done, rows, before, jobs, endedJobs } = progress
  const share = rows === 0 ? 1 : done / rows
  const bar = '#'.repeat(Math.floor(BAR * share)).padEnd(BAR, '.')
  const fresh = Math.max(0, done - before)
  const perSecond = fresh / Math.max(seconds, 0.001)
  const left = fresh < FEW_ROWS || done === rows
    ? ''
    : `, about ${duration((rows - done) / perSecond)} left`
  const ofJobs = jobs === 1 ? '' : `, ${count(endedJobs)} of ${count(jobs)} jobs`
  return `[${bar}] ${Math.floor(100 * share)} %  ${count(done)} of ${count(rows)} rows${ofJobs}, ` +
    `${count(perSecond)} rows/s${left}`
}
