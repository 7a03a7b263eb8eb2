import type { Job } from '../jobs/job.ts'
import type { JobStore } from '../jobs/store.ts'
import type { Clock } from '../platform/clock.ts'
import type { Emitter } from '../engine/emit.ts'
import { FatalError } from '../platform/errors.ts'
import { failpoint } from '../platform/failpoint.ts'
import type { Log } from '../platform/log.ts'
import type { Metrics } from '../platform/metrics.ts'
import type { Outbox } from '../money/outbox.ts'
import type { Tenants } from '../money/tenants.ts'
import { finishJob, type EndedJob, type FinishDeps } from '../results/finish-job.ts'
import { failStalled, type StalledDeps } from './stalled.ts'

export type ReapDeps = FinishDeps & StalledDeps & {
  readonly store: Pick<JobStore, 'openJobs' | 'read' | 'end'>
  readonly outbox: Outbox
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
export async function reap (deps: ReapDeps, signal?: AbortSignal): Promise<number> {
  return (await reapAll(deps, signal)).entries
}

/** What a sweep has seen. */
export type Reaped = { readonly entries: number, readonly stalledJobs: number }

/** A sweep that tells more of what it has seen. */
export async function reapAll (deps: ReapDeps, signal?: AbortSignal): Promise<Reaped> {
  let [entries, stalledJobs] = [0, 0]
  const isOver = () => signal?.aborted === true
  for (const tenant of await deps.outbox.tenantsWithPending()) {
    if (isOver()) return { entries, stalledJobs }
    entries += await guarded(deps, { tenant }, () => shipLeftOvers(deps, tenant)) ?? 0
  }
  for (const { tenant } of await deps.tenants.active()) {
    const jobs = await deps.store.openJobs(tenant)
    const idleMs = (progressAtMs: number) => deps.clock.now() - progressAtMs
    const idle = jobs.filter(({ progressAtMs }) => idleMs(progressAtMs) >= deps.leftOverAfterMs)
    for (const { job, progressAtMs } of idle) {
      if (isOver()) return { entries, stalledJobs }
      const stalled = idleMs(progressAtMs) >= deps.stalledAfterMs
      if (stalled) stalledJobs += 1
      await guarded(deps, { tenant, job }, () => bringToEnd(deps, { tenant, job, stalled }))
    }
  }
  return { entries, stalledJobs }
}

/** Ships what the outbox of a tenant has kept for too long; returns what is left. */
async function shipLeftOvers (deps: ReapDeps, tenant: string): Promise<number> {
  const pending = await deps.outbox.pending(tenant)
  const old = pending.filter(({ at }) => deps.clock.now() - at >= deps.leftOverAfterMs)
  const left = pending.length - old.length
  if (old.length === 0) return left
  failpoint('sweep.shipping')
  await deps.emitter.emit(old.map(value =>
    ({ topic: 'wallet.journal', lane: 'small', value, rows: undefined })))
  failpoint('sweep.shipped')
  await deps.outbox.remove(tenant, old.map(({ seq }) => seq))
  deps.metrics.count('recovery_actions_total', { kind: 'entry' }, old.length)
  return left
}

async function bringToEnd (
  deps: ReapDeps, { tenant, job, stalled }: { tenant: string, job: string, stalled: boolean }
): Promise<void> {
  const found = await deps.store.read(tenant, job)
  if (found === undefined || found.closed) return
  // Its entry needs no care here: left-over entries are shipped by themselves.
  if (found.ended) return await finish(deps, { job: found, entry: undefined }, 'ended_job')
  const ended = isComplete(found) ? await endComplete(deps, found) : undefined
  if (ended !== undefined) return await finish(deps, ended, 'ended_job')
  const failed = stalled ? await failStalled(deps, found) : undefined
  if (failed !== undefined) await finish(deps, failed, 'stalled_job')
}

const isComplete = ({ counts, preflight, chunks }: Job) =>
  counts.finishedRows === preflight.totalRows && counts.inputBlocks === chunks

/** All its rows were counted while its tenant was frozen, and its money could not move. */
async function endComplete ({ store }: ReapDeps, job: Job): Promise<EndedJob | undefined> {
  const ended = await store.end(job.tenant, job.id)
  if (ended.kind === 'skip' || !ended.ended) return undefined
  return { job: ended.job, entry: ended.entry }
}

async function finish (deps: ReapDeps, ended: EndedJob, what: string): Promise<void> {
  const { emits, close } = await finishJob(deps, ended)
  if (emits.length === 0) return
  await deps.emitter.emit(emits)
  await close()
  deps.metrics.count('recovery_actions_total', { kind: what })
  deps.log.warn({ tenant: ended.job.tenant, job: ended.job.id, what }, 'a job was closed late')
}

async function guarded<T> (
  { log }: ReapDeps, about: object, action: () => Promise<T>
): Promise<T | undefined> {
  try {
    return await action()
  } catch (error) {
    if (error instanceof FatalError) throw error
    log.error({ ...about, err: error }, 'left over until the next sweep')
    return undefined
  }
}
