import type { Journal } from '../../schemas/types.ts'
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
import type { Owned, Owners } from './owners.ts'
import { failStalled, type StalledDeps } from './stalled.ts'

export type ReapDeps = FinishDeps & StalledDeps & {
  readonly store: Pick<JobStore, 'openJobs' | 'read' | 'end'>
  readonly outbox: Outbox
  readonly emitter: Pick<Emitter, 'emit'>
  readonly tenants: Pick<Tenants, 'active'>
  readonly owners: Owners
  /** Redis time. */
  readonly clock: Clock
  readonly log: Pick<Log, 'warn' | 'error'>
  readonly metrics: Pick<Metrics, 'count' | 'watch'>
  /** Younger entries and jobs are not looked at. */
  readonly orphanAgeMs: number
  readonly stalledAfterMs: number
}

/** The entries left in the outboxes, and the stalled jobs found. */
export type Reaped = { readonly entries: number, readonly stalledJobs: number }

const NOTHING: Reaped = { entries: 0, stalledJobs: 0 }

/** Without an owner it is an orphan at once. */
type MaybeOwned = { readonly owner: Owned | undefined }
type OldEntries = {
  readonly tenant: string
  /** The number of all entries of the outbox, young ones included. */
  readonly pending: number
  readonly old: readonly (MaybeOwned & { readonly seq: number })[]
}
type OldJob = OpenJob & MaybeOwned & { readonly tenant: string }

/**
 * Completes what crashed processes have left: ships orphaned outbox entries, closes ended jobs and
 * fails stalled ones. An entry or an ended job belongs to the stage that made it until that stage
 * cannot finish it, see `createOwners`: a slow stage keeps what is its own, as nothing may be sent
 * twice without a fault. Every step is idempotent. A failure of one tenant or job is logged and
 * retried by the next run.
 * @throws FatalError when a retry cannot help.
 */
export async function reap (deps: ReapDeps, signal?: AbortSignal): Promise<Reaped> {
  const isOver = () => signal?.aborted === true
  const outboxes = await findOldEntries(deps, isOver)
  const jobs = await findOldJobs(deps, isOver)
  // Read after the entries and jobs: what their stages were working on is in the topics by then.
  const orphans = await deps.owners.findOrphans(
    [...outboxes.flatMap(({ old }) => old), ...jobs].flatMap(({ owner }) => owner ?? []))
  const isOrphan = ({ owner }: MaybeOwned) => owner === undefined || orphans.has(owner.id)
  let [entries, stalledJobs] = [0, 0]
  for (const { tenant, pending, old } of outboxes) {
    if (isOver()) return { entries, stalledJobs }
    const seqs = new Set(old.filter(isOrphan).map(({ seq }) => seq))
    const shipped = await guarded(deps, { tenant }, () => shipOrphans(deps, tenant, seqs)) ?? 0
    entries += pending - shipped
  }
  for (const open of jobs) {
    if (isOver()) return { entries, stalledJobs }
    const about = { tenant: open.tenant, job: open.job }
    const completed = await guarded(deps, about, () => completeJob(deps, open, isOrphan(open)))
    if (completed === 'stalled') stalledJobs += 1
  }
  return { entries, stalledJobs }
}

async function findOldEntries (
  deps: ReapDeps, isOver: () => boolean
): Promise<readonly OldEntries[]> {
  const { outbox, clock, orphanAgeMs } = deps
  const outboxes: OldEntries[] = []
  for (const tenant of await outbox.tenantsWithPending()) {
    if (isOver()) break
    const entries = await guarded(deps, { tenant }, async () => {
      const pending = await outbox.pending(tenant)
      const old = pending.filter(({ at }) => clock.now() - at >= orphanAgeMs)
      return {
        tenant,
        pending: pending.length,
        old: await Promise.all(old.map(async entry =>
          ({ seq: entry.seq, owner: await findOwner(deps, entry) }))),
      }
    })
    if (entries !== undefined) outboxes.push(entries)
  }
  return outboxes
}

/** The stage that ships an entry; none for a movement without a job, or of a job that is gone. */
async function findOwner (
  { store }: ReapDeps, { tenant, seq, type, job }: Journal
): Promise<Owned | undefined> {
  if (type === 'topup' || type === 'adjust') return undefined
  const found = await store.read(tenant, job)
  if (found === undefined) return undefined
  const stage = type === 'reserve' ? 'lookup' : 'settle'
  return { id: `entry ${tenant} ${seq}`, stage, lane: found.lane }
}

/** Open jobs, with the stage that closes them if all of their rows are counted. */
async function findOldJobs (
  { tenants, store, clock, orphanAgeMs, ...deps }: ReapDeps, isOver: () => boolean
): Promise<readonly OldJob[]> {
  const jobs: OldJob[] = []
  for (const { tenant } of await tenants.active()) {
    const open = await store.openJobs(tenant).catch(orIfUnavailable([]))
    for (const job of open.filter(({ sinceMs }) => clock.now() - sinceMs >= orphanAgeMs)) {
      if (isOver()) return jobs
      const about = { tenant, job: job.job }
      const found = await guarded(deps, about, () => store.read(tenant, job.job))
      const owner = found !== undefined && (found.ended || isComplete(found))
        ? { id: `job ${tenant} ${job.job}`, stage: 'settle', lane: found.lane } as const
        : undefined
      jobs.push({ ...job, tenant, owner })
    }
  }
  return jobs
}

/** Ships orphaned entries of a tenant that are still in its outbox; returns their number. */
async function shipOrphans (
  deps: ReapDeps, tenant: string, seqs: ReadonlySet<number>
): Promise<number> {
  if (seqs.size === 0) return 0
  // Read again: their owner may have shipped them just before it committed its last messages.
  const orphans = (await deps.outbox.pending(tenant)).filter(({ seq }) => seqs.has(seq))
  if (orphans.length === 0) return seqs.size
  failpoint('reaper.shipping')
  await deps.emitter.emit(orphans.map(value =>
    ({ topic: 'wallet.journal', lane: 'small', value, rows: undefined })))
  failpoint('reaper.shipped')
  await deps.outbox.remove(tenant, orphans.map(({ seq }) => seq))
  deps.metrics.count('recovery_actions_total', { kind: 'entry' }, orphans.length)
  return seqs.size
}

async function completeJob (
  deps: ReapDeps, { tenant, job, sinceMs, owner }: OldJob, isOrphan: boolean
): Promise<'stalled' | undefined> {
  const found = await deps.store.read(tenant, job)
  if (found === undefined || found.closed) return undefined
  const hasAllRows = found.ended || isComplete(found)
  // Its last row was counted after this run began, or its stage still closes it.
  if (hasAllRows && (owner === undefined || !isOrphan)) return undefined
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
  { log }: Pick<ReapDeps, 'log'>, about: object, action: () => Promise<T>
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
 * Runs in a loop beside the running stage, with a pause of `everyMs`, while this ledger leads: two
 * reapers would send the same twice. A failed run is logged and makes the service not ready until
 * one succeeds; a FatalError is passed to `fatal` and ends the loop. `stop` resolves when the
 * current run has reached its next step.
 */
export function startReaper (
  stage: RunningStage,
  deps: ReapDeps & {
    readonly isLeader: () => boolean
    readonly fatal: (error: unknown) => void
  },
  everyMs: number
): RunningStage {
  const stopping = new AbortController()
  let healthy = true
  let last = NOTHING
  deps.metrics.watch('jobs_stalled', {}, () => last.stalledJobs)
  const loop = async () => {
    while (!stopping.signal.aborted) {
      try {
        last = deps.isLeader() ? await reap(deps, stopping.signal) : NOTHING
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
