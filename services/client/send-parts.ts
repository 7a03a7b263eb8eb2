import { duration, money } from './amounts.ts'
import { shortOf } from './agree.ts'
import { ApiError } from './api-error.ts'
import type { JobStatusResource } from './client.ts'
import { CommandError } from './command-error.ts'
import { patiently } from './patience.ts'
import { contactsOf } from './plan.ts'
import type { Part } from './run-state.ts'
import { requestOf, stateFileOf, type Run } from './submit-settings.ts'

/** The service knows a key for 24 hours; clocks may differ and a request takes its time. */
const KEYS_ARE_KNOWN_MS = 23 * 3_600_000
const POLL_EVERY_MS = 500

/**
 * Finds out about the jobs that were sent and of which no answer was kept: the same request with
 * the same key is answered with the same job. Throws CommandError when the service may have
 * forgotten the key, as then the rows might be paid twice.
 */
export async function learnUnanswered (run: Run): Promise<void> {
  const { parts, settings } = run
  const nowMs = (parts.now ?? Date.now)()
  for (const [index, { sentAtMs, job, firstRow, rows }] of run.store.state().parts.entries()) {
    if (sentAtMs === undefined || job !== undefined) continue
    const ageMs = nowMs - sentAtMs
    if (ageMs > KEYS_ARE_KNOWN_MS) {
      throw new CommandError(`Rows ${firstRow + 1} to ${firstRow + rows} were sent ` +
        `${duration(ageMs / 1_000)} ago and no answer came. The service knows for 24 hours ` +
        'whether it made a job of a request; now sending it again could pay twice. Look for a ' +
        `job of ${rows} rows made at ${new Date(sentAtMs).toISOString()} (GET /api/v1/jobs). If ` +
        `there is one, write its id as "job" of part ${index} into ` +
        `${stateFileOf(settings.output)}; if there is none, begin anew with --restart.`)
    }
    await send(run, index)
  }
}

/**
 * Sends what was not sent yet, one request at a time and so many jobs under way at once, and waits
 * until all have ended.
 */
export async function runJobs (run: Run): Promise<void> {
  const active = new Set<Promise<void>>()
  const failures: unknown[] = []
  const counting = createCounting(run)
  for (const [index, { end }] of run.store.state().parts.entries()) {
    if (end !== undefined) continue
    while (active.size >= run.settings.parallel) await Promise.race(active)
    if (failures.length > 0) break
    const job = run.store.state().parts[index]?.job ?? await send(run, index)
    const waiting: Promise<void> = waitFor(run, { index, job, counting })
      .catch((error: unknown) => { failures.push(error) })
      .finally(() => active.delete(waiting))
    active.add(waiting)
  }
  await Promise.all(active)
  if (failures.length > 0) throw failures[0]
}

async function send ({ settings, parts, store }: Run, index: number): Promise<string> {
  const { file, plan: { column }, parts: all } = store.state()
  const slice = all[index] as Part
  const body = requestOf(settings, await contactsOf(settings.input, file, { slice, column }))
  const now = parts.now ?? Date.now
  if (slice.sentAtMs === undefined) store.updatePart(index, { sentAtMs: now() })
  const send = () => parts.client.createJob(body, slice.idempotencyKey)
  const { id, preflight } = await patiently(send, parts).catch((error: unknown) => {
    if (isRefusal(error)) store.updatePart(index, { sentAtMs: undefined })
    throw shortBalance(error) ?? error
  })
  store.updatePart(index, { job: id })
  if (slice.agreedMicros !== undefined && preflight.maxQuoteMicros > slice.agreedMicros) {
    parts.say(`The maximum price of ${id} is ${money(preflight.maxQuoteMicros)}, not ` +
      `${money(slice.agreedMicros)}: prices have changed. "verification-jobs cancel" ends it.`)
  }
  return id
}

/** Such an answer to a key says that no job was made of it. */
function isRefusal (error: unknown): boolean {
  return error instanceof ApiError && error.status >= 400 && error.status < 500 &&
    ![408, 422].includes(error.status)
}

function shortBalance (error: unknown): CommandError | undefined {
  if (!(error instanceof ApiError) || error.status !== 402) return undefined
  const { requiredMicros = NaN, availableMicros = NaN } = error.amounts
  return Number.isNaN(requiredMicros + availableMicros)
    ? undefined
    : shortOf(requiredMicros, availableMicros)
}

type Counting = (index: number, rows: number) => void
type Waited = { readonly index: number, readonly job: string, readonly counting: Counting }

async function waitFor ({ parts, store }: Run, { index, job, counting }: Waited): Promise<void> {
  const onProgress = ({ successRecords, failedRecords }: JobStatusResource) =>
    counting(index, successRecords + failedRecords)
  const ended = await patiently(() => parts.client.waitForEnd(job, {
    onProgress, pollEveryMs: parts.pollEveryMs ?? POLL_EVERY_MS, timeoutMs: Infinity,
  }), parts)
  const { status, successRecords, failedRecords, chargedMicros, releasedMicros } = ended
  const end = { status, successRecords, failedRecords, chargedMicros, releasedMicros }
  store.updatePart(index, { end })
}

/** Adds up what the jobs tell of their rows. */
function createCounting ({ parts, store }: Run): Counting {
  const { parts: all, plan: { rows } } = store.state()
  const done = all.map(part => part.end === undefined ? 0 : part.rows)
  const sum = () => done.reduce((total, count) => total + count, 0)
  const known = new Set(all.flatMap(({ job }, index) => job === undefined ? [] : [index]))
  let before = sum()
  return (index, count) => {
    // What an earlier run of the command had done tells nothing of the rate of this one.
    if (known.delete(index)) before += count - (done[index] ?? 0)
    done[index] = count
    const endedJobs = store.state().parts.filter(({ end }) => end !== undefined).length
    parts.progress?.({ done: sum(), rows, before, jobs: all.length, endedJobs })
  }
}
