import type { JobStatusResource } from './client.ts'
import { CommandError, duration, money } from './terminal.ts'
import { readContacts } from './plan.ts'
import type { RunJob } from './run-state.ts'
import { toRequest, type Run, stateFileName } from './run.ts'
import { ApiError, retryWhileUnavailable } from './transport.ts'

/** The service keeps a key for 24 hours. Leaves an hour for clock skew and slow requests. */
const MAX_KEY_AGE_MS = 23 * 3_600_000

/**
 * Resolves jobs that were sent but whose response was lost: repeats each request with its key, so
 * that the service returns the job it created. Throws CommandError when the service may have
 * expired the key, because then a repeated request could pay twice.
 */
export async function resolveUnanswered (run: Run): Promise<void> {
  const { deps, settings } = run
  const nowMs = (deps.now ?? Date.now)()
  for (const [index, { sentAtMs, id, firstRow, rows }] of run.store.state().jobs.entries()) {
    if (sentAtMs === undefined || id !== undefined) continue
    const ageMs = nowMs - sentAtMs
    if (ageMs > MAX_KEY_AGE_MS) {
      throw new CommandError(`The request for rows ${firstRow + 1} to ${firstRow + rows} was ` +
        `sent ${duration(ageMs / 1_000)} ago and its response was lost. Repeating it could pay ` +
        'twice, because the service keeps idempotency keys for 24 hours. Search GET ' +
        `/api/v1/jobs for a job of ${rows} rows created at ${new Date(sentAtMs).toISOString()}. ` +
        `If it exists, add its id as jobs[${index}].id to ${stateFileName(settings.output)}. If ` +
        'not, start over with --restart.')
    }
    await send(run, index)
  }
}

/**
 * Sends the jobs that were not sent yet, one request at a time and at most `parallel` jobs
 * concurrently, and resolves when all jobs have ended.
 */
export async function runJobs (run: Run): Promise<void> {
  const active = new Set<Promise<void>>()
  const failures: unknown[] = []
  const report = createProgressReport(run)
  for (const [index, { end }] of run.store.state().jobs.entries()) {
    if (end !== undefined) continue
    while (active.size >= run.settings.parallel) await Promise.race(active)
    if (failures.length > 0) break
    const id = run.store.state().jobs[index]?.id ?? await send(run, index)
    const waiting: Promise<void> = waitForJob(run, { index, id, report })
      .catch((error: unknown) => { failures.push(error) })
      .finally(() => active.delete(waiting))
    active.add(waiting)
  }
  await Promise.all(active)
  if (failures.length > 0) throw failures[0]
}

async function send ({ settings, deps, store, input }: Run, index: number): Promise<string> {
  const { file, plan: { column }, jobs } = store.state()
  const job = jobs[index] as RunJob
  const body = toRequest(settings, await readContacts(input, file, { range: job, column }))
  const now = deps.now ?? Date.now
  if (job.sentAtMs === undefined) store.updateJob(index, { sentAtMs: now() })
  const post = () => deps.client.createJob(body, job.idempotencyKey)
  const { id, preflight } = await retryWhileUnavailable(post, deps).catch((error: unknown) => {
    if (createdNoJob(error)) store.updateJob(index, { sentAtMs: undefined })
    throw balanceError(error) ?? error
  })
  store.updateJob(index, { id })
  if (job.confirmedMicros !== undefined && preflight.maxQuoteMicros > job.confirmedMicros) {
    deps.say(`The maximum price of ${id} rose from ${money(job.confirmedMicros)} to ` +
      `${money(preflight.maxQuoteMicros)} after you confirmed it. "verification-jobs cancel ` +
      `${id}" cancels it.`)
  }
  return id
}

/** True for an error that guarantees that the request created no job. */
export function createdNoJob (error: unknown): boolean {
  return error instanceof ApiError && error.status >= 400 && error.status < 500 &&
    ![408, 422].includes(error.status)
}

function balanceError (error: unknown): CommandError | undefined {
  if (!(error instanceof ApiError) || error.status !== 402) return undefined
  const { requiredMicros = NaN, availableMicros = NaN } = error.amounts
  return Number.isNaN(requiredMicros + availableMicros)
    ? undefined
    : insufficientBalance(requiredMicros, availableMicros)
}

/** The error for a balance below the maximum price, with the difference. */
export function insufficientBalance (
  requiredMicros: number, availableMicros: number
): CommandError {
  return new CommandError('402 insufficient_balance: the maximum price is ' +
    `${money(requiredMicros)}, the available balance ${money(availableMicros)}. Top up at least ` +
    `${money(requiredMicros - availableMicros)} and run the same command again.`)
}

type ProgressReport = (index: number, rows: number) => void
type Waiting = { readonly index: number, readonly id: string, readonly report: ProgressReport }

async function waitForJob ({ deps, store }: Run, { index, id, report }: Waiting): Promise<void> {
  const onProgress = ({ successRecords, failedRecords }: JobStatusResource) =>
    report(index, successRecords + failedRecords)
  const { client, pollEveryMs } = deps
  const ended = await retryWhileUnavailable(() => client.waitForEnd(id, {
    onProgress, timeoutMs: Infinity, ...pollEveryMs !== undefined && { pollEveryMs },
  }), deps)
  const { status, successRecords, failedRecords, chargedMicros, releasedMicros } = ended
  const end = { status, successRecords, failedRecords, chargedMicros, releasedMicros }
  store.updateJob(index, { end })
}

/** Sums the finished rows of all jobs. */
function createProgressReport ({ deps, store }: Run): ProgressReport {
  const { jobs, plan: { rows } } = store.state()
  const done = jobs.map(job => job.end === undefined ? 0 : job.rows)
  const sum = () => done.reduce((total, count) => total + count, 0)
  const sentEarlier = new Set(jobs.flatMap(({ id }, index) => id === undefined ? [] : [index]))
  let before = sum()
  return (index, count) => {
    // Rows that were done before this process started do not count towards its rate.
    if (sentEarlier.delete(index)) before += count - (done[index] ?? 0)
    done[index] = count
    const endedJobs = store.state().jobs.filter(({ end }) => end !== undefined).length
    deps.progress?.({ done: sum(), rows, before, jobs: jobs.length, endedJobs })
  }
}
