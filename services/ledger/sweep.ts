import type { JobStore } from '../jobs/store.ts'
import type { Clock } from '../lib/clock.ts'
import type { Emitter } from '../lib/emit.ts'
import { FatalError } from '../lib/errors.ts'
import type { Log } from '../lib/log.ts'
import type { Metrics } from '../lib/metrics.ts'
import type { Outbox } from '../money/outbox.ts'
import { finishJob, type EndedJob, type FinishParts } from '../records/finish.ts'
import { failStalled, type StalledParts } from './stalled.ts'

export type SweepParts = FinishParts & StalledParts & {
  readonly store: Pick<JobStore, 'openJobs' | 'read'>
  readonly outbox: Pick<Outbox, 'pending' | 'tenantsWithPending'>
  readonly emitter: Pick<Emitter, 'emit'>
  readonly tenants: () => Promise<readonly string[]>
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
  let left = 0
  for (const tenant of await parts.outbox.tenantsWithPending()) {
    if (signal?.aborted === true) return left
    left += await guarded(parts, { tenant }, () => shipLeftOvers(parts, tenant)) ?? 0
  }
  for (const tenant of await parts.tenants()) {
    const jobs = await parts.store.openJobs(tenant)
    const idleMs = (progressAtMs: number) => parts.clock.now() - progressAtMs
    const idle = jobs.filter(({ progressAtMs }) => idleMs(progressAtMs) >= parts.leftOverAfterMs)
    for (const { job, progressAtMs } of idle) {
      if (signal?.aborted === true) return left
      const stalled = idleMs(progressAtMs) >= parts.stalledAfterMs
      await guarded(parts, { tenant, job }, () => bringToEnd(parts, { tenant, job, stalled }))
    }
  }
  return left
}

/** Ships what the outbox of a tenant has kept for too long; returns how many are left. */
async function shipLeftOvers (parts: SweepParts, tenant: string): Promise<number> {
  const pending = await parts.outbox.pending(tenant)
  const old = pending.filter(({ at }) => parts.clock.now() - at >= parts.leftOverAfterMs)
  if (old.length === 0) return pending.length
  await parts.emitter.emit(old.map(value =>
    ({ topic: 'wallet.journal', lane: 'small', value, rows: undefined })))
  await parts.outbox.remove(tenant, old.map(({ seq }) => seq))
  parts.metrics.count('recovered_total', { what: 'entry' }, old.length)
  return pending.length - old.length
}

async function bringToEnd (
  parts: SweepParts, { tenant, job, stalled }: { tenant: string, job: string, stalled: boolean }
): Promise<void> {
  const found = await parts.store.read(tenant, job)
  if (found === undefined || found.closed) return
  // Its entry needs no care here: left-over entries are shipped by themselves.
  if (found.ended) return await finish(parts, { job: found, entry: undefined }, 'ended_job')
  const failed = stalled ? await failStalled(parts, found) : undefined
  if (failed !== undefined) await finish(parts, failed, 'stalled_job')
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
