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
  readonly archive: Pick<Archive, 'findAll'>
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
  const all = [...ended.values()]
  for (let from = 0; from < all.length; from += JOBS_AT_ONCE) {
    const some = await endedJobsOf(parts, all.slice(from, from + JOBS_AT_ONCE), nowMs)
    const written = await Promise.all(some.map(({ job }) => write(job)))
    if (written.includes(false)) return { kind: 'moved' }
    for (const { job, atMs } of some) if (!job.isClosed) since.set(job.job, atMs)
  }
  if (made > 0) parts.metrics.count('recovered_total', { what: 'job' }, made)
  return faults.length > 0 ? { kind: 'faulty', faults } : { kind: 'done', made, since }
}

/** Each question has its price; so many jobs share one. */
const JOBS_AT_ONCE = 100

async function isKnown (parts: RebuildParts, { tenant, job }: { tenant: string, job: string }) {
  const [status] = await parts.redis.hmget(jobKeys(tenant, job).job, 'status')
  return status !== null
}

/**
 * Jobs of a tenant whose money has moved for the last time, and when they reserved. Where Redis has
 * the end of one, whoever closes it does; else it is closed from the archive, or counted to its end
 * once more if that has nothing of it.
 */
async function endedJobsOf (
  parts: RebuildParts, entries: readonly EndedEntries[], nowMs: number
): Promise<readonly { readonly job: Rebuilt, readonly atMs: number }[]> {
  const isLost = await Promise.all(entries.map(async ({ reserve }) => {
    const { tenant, job } = reserve
    const [ended] = await parts.redis.hmget(jobKeys(tenant, job).job, 'ended')
    return ended !== '1' && hasTerms(reserve)
  }))
  const lost = entries.filter((_, index) => isLost[index])
  const [first] = lost
  if (first === undefined) return []
  const { tenant } = first.reserve
  const archived = await parts.archive.findAll(tenant, lost.map(({ reserve }) => reserve.job))
  await announceAgain(parts, tenant, [...archived.values()])
  return lost.map(one => {
    const { reserve, end } = one
    const job = archived.get(reserve.job)
    const rebuilt = job === undefined
      ? openJobOf(reserve, nowMs, end)
      : closedJobOf(one, { job, nowMs })
    return { job: rebuilt, atMs: reserve.at }
  })
}
