import type { Redis } from 'ioredis'
import { jobKeys } from '../jobs/redis-keys.ts'
import type { Clock } from '../lib/clock.ts'
import type { Metrics } from '../lib/metrics.ts'
import type { Archive } from '../records/archive.ts'
import { announceAgain, type AnnounceAgainParts } from './announce-again.ts'
import type { Desk, Mandate } from './desk.ts'
import type { EndedEntries, Fold } from './journal-fold.ts'
import { closedJobOf, hasTerms, openJobOf, type Rebuilt } from './rebuilt.ts'

export type RebuildParts = AnnounceAgainParts & {
  readonly redis: Pick<Redis, 'hmget'>
  readonly desk: Pick<Desk, 'rebuild'>
  readonly archive: Pick<Archive, 'find'>
  readonly clock: Clock
  readonly metrics: Pick<Metrics, 'count'>
}

export type RebuiltJobs =
  | {
    readonly kind: 'done'
    readonly made: number
    /** Jobs whose blocks are to be counted again -> when they reserved. */
    readonly since: ReadonlyMap<string, number>
  }
  | { readonly kind: 'moved' }
  | { readonly kind: 'faulty', readonly faults: readonly string[] }

/**
 * Makes sure that Redis has every job of a journal that matters: those that run, to be counted
 * again, and those that ended while their keys may still be sent again.
 */
export async function rebuildJobs (
  parts: RebuildParts, mandate: Mandate, { open, ended }: Pick<Fold, 'open' | 'ended'>
): Promise<RebuiltJobs> {
  let made = 0
  const faults: string[] = []
  const since = new Map([...open].map(([job, { at }]) => [job, at]))
  const write = async (job: Rebuilt): Promise<boolean> => {
    const step = await parts.desk.rebuild(mandate, job)
    if (step === 'made') made += 1
    return step !== 'moved'
  }
  const nowMs = parts.clock.now()
  for (const reserve of open.values()) {
    if (hasTerms(reserve)) {
      if (!await write(openJobOf(reserve, nowMs))) return { kind: 'moved' }
    } else if (!await isKnown(parts, reserve)) {
      faults.push(`nothing says what the open job ${reserve.job} was`)
    }
  }
  for (const entries of ended.values()) {
    const job = await endedJobOf(parts, entries, nowMs)
    if (job === undefined) continue
    if (!await write(job)) return { kind: 'moved' }
    if (!job.isClosed) since.set(job.job, entries.reserve.at)
  }
  if (made > 0) parts.metrics.count('recovered_total', { what: 'job' }, made)
  return faults.length > 0 ? { kind: 'faulty', faults } : { kind: 'done', made, since }
}

async function isKnown (parts: RebuildParts, { tenant, job }: { tenant: string, job: string }) {
  const [status] = await parts.redis.hmget(jobKeys(tenant, job).job, 'status')
  return status !== null
}

/**
 * A job whose money has moved for the last time. Where Redis has its end, whoever closes it does;
 * else it is closed from the archive, or counted to its end once more if that has nothing of it.
 */
async function endedJobOf (
  parts: RebuildParts, entries: EndedEntries, nowMs: number
): Promise<Rebuilt | undefined> {
  const { reserve, end } = entries
  const { tenant, job: id } = reserve
  const [ended] = await parts.redis.hmget(jobKeys(tenant, id).job, 'ended')
  if (ended === '1' || !hasTerms(reserve)) return undefined
  const archived = await parts.archive.find(tenant, id)
  if (archived === undefined) return openJobOf(reserve, nowMs, end)
  await announceAgain(parts, archived.job)
  return closedJobOf(entries, { job: archived.job, nowMs })
}
