import type { Job } from '../jobs/job.ts'
import type { JobStore } from '../jobs/store.ts'
import type { OpenJob } from '../jobs/store-types.ts'
import type { Clock } from '../platform/clock.ts'
import type { Emitter } from '../engine/emit.ts'
import type { RunningStage } from '../engine/engine.ts'
import { FatalError, orIfUnavailable } from '../platform/errors.ts'
import { failpoint } from '../platform/failpoint.ts'
import type { Log } from '../platform/log.ts'
import type { Metrics } from '../platform/metrics.ts'
import { sleep } from '../platform/retry.ts'
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
  /** Younger entries and ended jobs are left to the process that made them. */
  readonly orphanAgeMs: number
  readonly stalledAfterMs: number
}

/** The entries left in the outboxes, and the stalled jobs found. */
export type Reaped = { readonly entries: number, readonly stalledJobs: number }

/**
 * Completes what crashed processes have left: ships old outbox entries, closes ended jobs and fails
 * stalled ones. Several ledgers may run it at once, as every step is idempotent. A failure of one
 * tenant or job is logged and retried by the next run.
 * @throws FatalError when a retry cannot help.
 */
export async function reap (deps: ReapDeps, signal?: AbortSignal): Promise<Reaped> {
  let [entries, stalledJobs] = [0, 0]
  const isOver = () => signal?.aborted === true
  for (const tenant of await deps.outbox.tenantsWithPending()) {
    if (isOver()) return { entries, stalledJobs }
    entries += await guarded(deps, { tenant }, () => shipOrphans(deps, tenant)) ?? 0
  }
  for (const { tenant } of await deps.tenants.active()) {
    const jobs = await deps.store.openJobs(tenant).catch(orIfUnavailable([]))
    const old = jobs.filter(({ sinceMs }) => deps.clock.now() - sinceMs >= deps.orphanAgeMs)
    for (const open of old) {
      if (isOver()) return { entries, stalledJobs }
      const about = { tenant, job: open.job }
      if (await guarded(deps, about, () => completeJob(deps, tenant, open)) === 'stalled') {
        stalledJobs += 1
      }
    }
  }
  return { entries, stalledJobs }
}

/** Ships old entries of a tenant's outbox; returns the number of entries left. */
async function shipOrphans (deps: ReapDeps, tenant: string): Promise<number> {
  const pending = await deps.outbox.pending(tenant)
  const old = pending.filter(({ at }) => deps.clock.now() - at >= deps.orphanAgeMs)
  const left = pending.length - old.length
  if (old.length === 0) return left
  failpoint('reaper.shipping')
  await deps.emitter.emit(old.map(value =>
    ({ topic: 'wallet.journal', lane: 'small', value, rows: undefined })))
  failpoint('reaper.shipped')
  await deps.outbox.remove(tenant, old.map(({ seq }) => seq))
  deps.metrics.count('recovery_actions_total', { kind: 'entry' }, old.length)
  return left
}

async function completeJob (
  deps: ReapDeps, tenant: string, { job, sinceMs }: OpenJob
): Promise<'stalled' | undefined> {
  const found = await deps.store.read(tenant, job)
  if (found === undefined || found.closed) return undefined
  // Its entry is shipped with the other orphans.
  const ended = found.ended ? { job: found, entry: undefined } : await endComplete(deps, found)
  const idleMs = deps.clock.now() - Math.max(sinceMs, found.updatedAtMs)
  const isIdle = idleMs >= deps.stalledAfterMs
  if (ended !== undefined) {
    const isFinished = await finish(deps, ended, 'ended_job')
    return isFinished || !isIdle ? undefined : 'stalled'
  }
  if (!isIdle) return undefined
  const failed = await failStalled(deps, found)
  if (failed !== undefined) await finish(deps, failed, 'stalled_job')
  return 'stalled'
}

const isComplete = ({ counts, preflight, chunks }: Job) =>
  counts.finishedRows === preflight.totalRows && counts.inputBlocks === chunks

/** Ends a job whose rows were all counted while its wallet was frozen. */
async function endComplete ({ store }: ReapDeps, job: Job): Promise<EndedJob | undefined> {
  if (!isComplete(job)) return undefined
  const ended = await store.end(job.tenant, job.id)
  if (ended.kind === 'skip' || !ended.ended) return undefined
  return { job: ended.job, entry: ended.entry }
}

const EVENTS = {
  ended_job: 'ended job closed',
  stalled_job: 'stalled job failed, its open rows ended as unknown',
} as const

type Kind = keyof typeof EVENTS

/** False if blocks of the job are not stored. */
async function finish (deps: ReapDeps, ended: EndedJob, kind: Kind): Promise<boolean> {
  const finishing = await finishJob(deps, ended)
  if (finishing === undefined) return false
  await deps.emitter.emit(finishing.emits)
  await finishing.close()
  deps.metrics.count('recovery_actions_total', { kind })
  deps.log.warn({ tenant: ended.job.tenant, job: ended.job.id, kind }, EVENTS[kind])
  return true
}

async function guarded<T> (
  { log }: ReapDeps, about: object, action: () => Promise<T>
): Promise<T | undefined> {
  try {
    return await action()
  } catch (error) {
    if (error instanceof FatalError) throw error
    log.error({ ...about, err: error }, 'reaper failed for one tenant or job; retrying')
    return undefined
  }
}

/**
 * Runs in a loop beside the running stage, with a pause of `everyMs`. A failed run is logged
 * and makes the service not ready until one succeeds; a FatalError is passed to `fatal` and ends
 * the loop. `stop` resolves when the current run has reached its next step.
 */
export function startReaper (
  stage: RunningStage, deps: ReapDeps & { readonly fatal: (error: unknown) => void },
  everyMs: number
): RunningStage {
  const stopping = new AbortController()
  let healthy = true
  let last: Reaped = { entries: 0, stalledJobs: 0 }
  deps.metrics.watch('jobs_stalled', {}, () => last.stalledJobs)
  const loop = async () => {
    while (!stopping.signal.aborted) {
      try {
        last = await reap(deps, stopping.signal)
        healthy = true
      } catch (error) {
        healthy = false
        if (error instanceof FatalError) return deps.fatal(error)
        deps.log.warn({ err: error }, 'reaper run failed; retrying')
      }
      await sleep(everyMs, stopping.signal).catch(() => {})
    }
  }
  const ended = loop()
  const stop = async () => {
    stopping.abort()
    await Promise.all([ended, stage.stop()])
  }
  return { ready: () => healthy && stage.ready(), stop }
}
