import type { Job } from '../jobs/job.ts'
import type { JobStore } from '../jobs/store.ts'
import type { Clock } from '../lib/clock.ts'
import type { Emitter } from '../lib/emit.ts'
import { FatalError } from '../lib/errors.ts'
import { failpoint } from '../lib/failpoint.ts'
import type { Log } from '../lib/log.ts'
import type { Metrics } from '../lib/metrics.ts'
import type { Outbox } from '../money/outbox.ts'
import type { Tenants } from '../money/tenants.ts'
import { finishJob, type EndedJob, type FinishParts } from '../records/finish.ts'
import { failStalled, type StalledParts } from './stalled.ts'

export type SweepParts = FinishParts & StalledParts & {
  readonly store: Pick<JobStore, 'openJobs' | 'read' | 'end'>
  readonly outbox: Pick<Outbox, 'pending' | 'tenantsWithPending'>
  readonly emitter: Pick<Emitter, 'emit'>
  readonly tenants: Pick<Tenants, 'active'>
  /** Redis time. */
  readonly clock: Clock
  readonly log: Pick<Log, 'warn' | 'error'>
  readonly metrics: Pick<Metrics, 'count' | 'watch'>
  /** Entries and ended jobs younger than this are left to whoever made them. */
  readonly leftOverAfterMs: number
  readonly stalledAfterMs: number
}

/**
 * Brings to its end what a crash left behind. Every step may be taken by several ledgers at once,
 * or again: entries are told apart by seq, and jobs are closed once. What fails is tried again by
 * the next sweep, and one job's fault keeps no other from being swept. Returns the entries left.
 * @throws FatalError when going on cannot heal it.
 */
export async function sweep (parts: SweepParts, signal?: AbortSignal): Promise<number> {
  return (await sweepAll(parts, signal)).entries
}

/** What a sweep has seen. */
export type Swept = { readonly entries: number, readonly stalledJobs: number }

/** A sweep that tells more of what it has seen. */
export async function sweepAll (parts: SweepParts, signal?: AbortSignal): Promise<Swept> {
  let [entries, stalledJobs] = [0, 0]
  const isOver = () => signal?.aborted === true
  for (const tenant of await parts.outbox.tenantsWithPending()) {
    if (isOver()) return { entries, stalledJobs }
    entries += await guarded(parts, { tenant }, () => shipLeftOvers(parts, tenant)) ?? 0
  }
  for (const { tenant } of await parts.tenants.active()) {
    const jobs = await parts.store.openJobs(tenant)
    const idleMs = (progressAtMs: number) => parts.clock.now() - progressAtMs
    const idle = jobs.filter(({ progressAtMs }) => idleMs(progressAtMs) >= parts.leftOverAfterMs)
    for (const { job, progressAtMs } of idle) {
      if (isOver()) return { entries, stalledJobs }
      const stalled = idleMs(progressAtMs) >= parts.stalledAfterMs
      if (stalled) stalledJobs += 1
      await guarded(parts, { tenant, job }, () => bringToEnd(parts, { tenant, job, stalled }))
    }
  }
  return { entries, stalledJobs }
}

/** Ships what the outbox of a tenant has kept for too long; returns what is left. */
async function shipLeftOvers (parts: SweepParts, tenant: string): Promise<number> {
  const pending = await parts.outbox.pending(tenant)
  const old = pending.filter(({ at }) => parts.clock.now() - at >= parts.leftOverAfterMs)
  const left = pending.length - old.length
  if (old.length === 0) return left
  failpoint('sweep.shipping')
  await parts.emitter.emit(old.map(value =>
    ({ topic: 'wallet.journal', lane: 'small', value, rows: undefined })))
  failpoint('sweep.shipped')
  await parts.outbox.remove(tenant, old.map(({ seq }) => seq))
  parts.metrics.count('recovered_total', { what: 'entry' }, old.length)
  return left
}

async function bringToEnd (
  parts: SweepParts, { tenant, job, stalled }: { tenant: string, job: string, stalled: boolean }
): Promise<void> {
  const found = await parts.store.read(tenant, job)
  if (found === undefined || found.closed) return
  // Its entry needs no care here: left-over entries are shipped by themselves.
  if (found.ended) return await finish(parts, { job: found, entry: undefined }, 'ended_job')
  const ended = isComplete(found) ? await endComplete(parts, found) : undefined
  if (ended !== undefined) return await finish(parts, ended, 'ended_job')
  const failed = stalled ? await failStalled(parts, found) : undefined
  if (failed !== undefined) await finish(parts, failed, 'stalled_job')
}

const isComplete = ({ counts, preflight, chunks }: Job) =>
  counts.finishedRows === preflight.totalRows && counts.inputBlocks === chunks

/** All its rows were counted while its tenant was frozen, and its money could not move. */
async function endComplete ({ store }: SweepParts, job: Job): Promise<EndedJob | undefined> {
  const ended = await store.end(job.tenant, job.id)
  if (ended.kind === 'skip' || !ended.ended) return undefined
  return { job: ended.job, entry: ended.entry }
}

async function finish (parts: SweepParts, ended: EndedJob, what: string): Promise<void> {
  const { emits, close } = await finishJob(parts, ended)
  if (emits.length === 0) return
  await parts.emitter.emit(emits)
  await close()
  parts.metrics.count('recovered_total', { what })
  parts.log.warn({ tenant: ended.job.tenant, job: ended.job.id, what }, 'a job was closed late')
}

async function guarded<T> (
  { log }: SweepParts, about: object, action: () => Promise<T>
): Promise<T | undefined> {
  try {
    return await action()
  } catch (error) {
    if (error instanceof FatalError) throw error
    log.error({ ...about, err: error }, 'left over until the next sweep')
    return undefined
  }
}
