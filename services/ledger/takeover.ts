import type { Journal } from '../../schemas/types.ts'
import type { RunningStage } from '../runtime/engine/engine.ts'
import type { JobStore } from '../jobs/store.ts'
import type { Outbox } from '../money/outbox.ts'
import type { Tenants } from '../money/tenants.ts'
import { FatalError, orIfUnavailable } from '../runtime/platform/errors.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import { sleep } from '../runtime/platform/retry.ts'
import { shipOrphans, type WalletShippingDeps } from './outbox-shipper.ts'
import type { Owned, Owners } from './owners.ts'
import { completeJob, hasAllRows, type StalledJobsDeps } from './stalled-jobs.ts'

export type TakeoverDeps = WalletShippingDeps & StalledJobsDeps & {
  readonly store: Pick<JobStore, 'openJobs'>
  readonly outbox: Pick<Outbox, 'tenantsWithPending'>
  readonly tenants: Pick<Tenants, 'active'>
  readonly owners: Pick<Owners, 'findOrphans'>
  readonly metrics: Pick<Metrics, 'watch'>
  /** Younger entries and jobs are not looked at. */
  readonly orphanAgeMs: number
}

/** The entries left in the outboxes, and the stalled jobs found. */
export type TakenOver = { readonly entries: number, readonly stalledJobs: number }

const NOTHING: TakenOver = { entries: 0, stalledJobs: 0 }

/** Without an owner it is an orphan at once. */
type MaybeOwned = { readonly owner: Owned | undefined }
type OldEntries = {
  readonly tenant: string
  /** The number of all entries of the outbox, young ones included. */
  readonly pending: number
  readonly old: readonly (MaybeOwned & { readonly seq: number })[]
}
type OldJob = MaybeOwned & {
  readonly tenant: string, readonly job: string, readonly sinceMs: number,
}

/**
 * Completes what crashed processes have left: ships orphaned outbox entries, closes ended jobs and
 * fails stalled ones. An entry or an ended job belongs to the stage that made it until that stage
 * cannot finish it, see `Owners`: a slow stage keeps what is its own, as nothing may be sent twice
 * without a fault. Every step is idempotent. A failure of one tenant or job is logged and retried
 * by the next run.
 * @throws FatalError when a retry cannot help.
 */
export async function takeOver (deps: TakeoverDeps, signal?: AbortSignal): Promise<TakenOver> {
  const isOver = () => signal?.aborted === true
  const outboxes = await findOldEntries(deps, isOver)
  const jobs = await findOldJobs(deps, isOver)
  // Read after the entries and jobs: what their stages were working on is in the topics by then.
  const orphans = await deps.owners.findOrphans(
    [...outboxes.flatMap(({ old }) => old), ...jobs].flatMap(({ owner }) => owner ?? []))
  let [entries, stalledJobs] = [0, 0]
  for (const { tenant, pending, old } of outboxes) {
    if (isOver()) return { entries, stalledJobs }
    const seqs = new Set(old
      .filter(({ owner }) => owner === undefined || orphans.has(owner.id)).map(({ seq }) => seq))
    const shipped = await guarded(deps, { tenant }, () => shipOrphans(deps, tenant, seqs)) ?? 0
    entries += pending - shipped
  }
  for (const { tenant, job, sinceMs, owner } of jobs) {
    if (isOver()) return { entries, stalledJobs }
    const isOrphan = owner !== undefined && orphans.has(owner.id)
    const completed = await guarded(deps, { tenant, job },
      () => completeJob(deps, { tenant, job, sinceMs, isOrphan }))
    if (completed === 'stalled') stalledJobs += 1
  }
  return { entries, stalledJobs }
}

async function findOldEntries (
  deps: TakeoverDeps, isOver: () => boolean
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
  { store }: TakeoverDeps, { tenant, seq, type, job: id }: Journal
): Promise<Owned | undefined> {
  if (type === 'topup' || type === 'adjust') return undefined
  const job = await store.read(tenant, id)
  if (job === undefined) return undefined
  const stage = type === 'reserve' ? 'lookup' : 'settle'
  return { id: `entry ${tenant} ${seq}`, stage, lane: job.lane }
}

/** Open jobs, with the stage that closes them if all of their rows are counted. */
async function findOldJobs (
  { tenants, store, clock, orphanAgeMs, ...deps }: TakeoverDeps, isOver: () => boolean
): Promise<readonly OldJob[]> {
  const jobs: OldJob[] = []
  for (const { tenant } of await tenants.active()) {
    const open = await store.openJobs(tenant).catch(orIfUnavailable([]))
    const old = open.filter(({ sinceMs }) => clock.now() - sinceMs >= orphanAgeMs)
    for (const { job: id, sinceMs } of old) {
      if (isOver()) return jobs
      const job = await guarded(deps, { tenant, job: id }, () => store.read(tenant, id))
      const owner = job !== undefined && hasAllRows(job)
        ? { id: `job ${tenant} ${id}`, stage: 'settle', lane: job.lane } as const
        : undefined
      jobs.push({ tenant, job: id, sinceMs, owner })
    }
  }
  return jobs
}

async function guarded<T> (
  { log }: Pick<TakeoverDeps, 'log'>, about: object, action: () => Promise<T>
): Promise<T | undefined> {
  try {
    return await action()
  } catch (error) {
    if (error instanceof FatalError) throw error
    log.error({ ...about, err: error }, 'takeover failed for one tenant or job; retrying')
    return undefined
  }
}

/**
 * Takes over in a loop beside the running stage, with a pause of `everyMs`, while this ledger
 * leads: two that take over would send the same twice. A failed run is logged and makes the service
 * not ready until one succeeds; a FatalError is passed to `fatal` and ends the loop. `stop`
 * resolves when the current run has reached its next step.
 */
export function startTakingOver (
  stage: RunningStage,
  deps: TakeoverDeps & {
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
        last = deps.isLeader() ? await takeOver(deps, stopping.signal) : NOTHING
        healthy = true
      } catch (error) {
        healthy = false
        if (error instanceof FatalError) return deps.fatal(error)
        deps.log.warn({ err: error }, 'takeover failed; retrying')
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
