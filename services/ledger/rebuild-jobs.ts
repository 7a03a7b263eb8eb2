import type { Journal } from '../../schemas/types.ts'
import { receiversOf, type Subscriptions } from '../accounts/webhook-endpoints.ts'
import type { Emitter } from '../engine/emit.ts'
import type { DeliveryHistory } from '../jobs/delivery-history.ts'
import { deliveryIdOf, eventIdOf, eventTypeOf } from '../jobs/events.ts'
import type { Job } from '../jobs/job.ts'
import type { Clock } from '../platform/clock.ts'
import type { Metrics } from '../platform/metrics.ts'
import type { Archive } from '../results/archive.ts'
import { settledOf } from '../results/finish-job.ts'
import type { EndedEntries, JournalState } from './journal-state.ts'
import { closedJobOf, hasTerms, openJobOf, type RebuiltJob } from './rebuilt-job.ts'
import type { JobInRedis } from './reconcile.ts'
import type { LeaderTerm, RecoveryStore } from './recovery-store.ts'

export type RebuildDeps = RepublishDeps & {
  readonly recoveryStore: Pick<RecoveryStore, 'rebuild'>
  readonly archive: Pick<Archive, 'findAll'>
  readonly clock: Clock
  readonly metrics: Pick<Metrics, 'count'>
}

/** A job that ended in the journal and not in Redis. */
export type Ended = EndedEntries & {
  readonly term: LeaderTerm
  /** Whether the job is open in Redis. */
  readonly isOpen: boolean
}

/** Ended jobs of one tenant; `openJobs` are those that are open in Redis. */
export function endedOf (
  entries: JournalState['ended'],
  { term, openJobs }: {
    readonly term: LeaderTerm, readonly openJobs: { readonly has: (job: string) => boolean },
  }
): readonly Ended[] {
  return [...entries.values()].map(one => (
    { ...one, term, isOpen: openJobs.has(one.end.job) }))
}

/** The number of jobs rebuilt, and entries of jobs whose blocks must be recounted. */
type RebuiltJobs = {
  readonly made: number
  readonly uncounted: readonly Journal[]
  /** True when another leader has taken over, or the server was restarted. */
  readonly superseded: boolean
}

/**
 * Rebuilds the open jobs of a journal that Redis lacks. Open jobs in Redis whose entry was not read
 * stay as they are. Faults: jobs that Redis lacks and no entry describes.
 */
export async function rebuildOpen (
  deps: RebuildDeps, term: LeaderTerm,
  { open, known }: Pick<JournalState, 'open'> & { readonly known: ReadonlyMap<string, JobInRedis> }
): Promise<RebuiltJobs & { readonly faults: readonly string[] }> {
  const nowMs = deps.clock.now()
  const faults: string[] = []
  const jobs: RebuiltJob[] = []
  const uncounted: Journal[] = []
  for (const { job, entry } of open.values()) {
    if (entry !== undefined && hasTerms(entry)) {
      jobs.push(openJobOf(entry, nowMs))
      uncounted.push(entry)
    } else if ((known.get(job)?.state ?? 'gone') === 'gone') {
      faults.push(`no entry describes the open job ${job}`)
    }
  }
  return { ...await write(deps, jobs.map(job => ({ job, term }))), uncounted, faults }
}

/**
 * Ends jobs in Redis: closes an archived job, and has any other one recounted to its end. A job
 * that Redis lacks and no entry describes is left out.
 */
export async function rebuildEnded (
  deps: RebuildDeps, ended: readonly Ended[]
): Promise<RebuiltJobs> {
  const nowMs = deps.clock.now()
  const jobs: { readonly job: RebuiltJob, readonly term: LeaderTerm }[] = []
  const uncounted: Journal[] = []
  for (let from = 0; from < ended.length; from += JOBS_PER_QUERY) {
    const some = ended.slice(from, from + JOBS_PER_QUERY)
    const tenants = [...new Set(some.map(({ end }) => end.tenant))]
    const archived = await deps.archive.findAll(tenants, some.map(({ end }) => end.job))
    await republish(deps, [...archived.values()])
    for (const { reserve, end, term, isOpen } of some) {
      const job = archived.get(end.job)
      const entry = reserve ?? end
      if (job !== undefined) {
        jobs.push({ job: closedJobOf(job, { reserve, end, nowMs }), term })
      } else if (hasTerms(entry) || isOpen) {
        jobs.push({ job: openJobOf(entry, nowMs, end), term })
        uncounted.push(entry)
      }
    }
  }
  return { ...await write(deps, jobs), uncounted }
}

/** Jobs per query, as each query has a fixed cost. */
const JOBS_PER_QUERY = 1_000
const MAX_CONCURRENT_WRITES = 100

async function write (
  { recoveryStore, metrics }: RebuildDeps,
  jobs: readonly { readonly job: RebuiltJob, readonly term: LeaderTerm }[]
): Promise<Pick<RebuiltJobs, 'made' | 'superseded'>> {
  let [made, superseded] = [0, false]
  for (let from = 0; from < jobs.length && !superseded; from += MAX_CONCURRENT_WRITES) {
    const steps = await Promise.all(jobs.slice(from, from + MAX_CONCURRENT_WRITES)
      .map(({ job, term }) => recoveryStore.rebuild(term, job)))
    made += steps.filter(step => step === 'made').length
    superseded = steps.includes('superseded')
  }
  if (made > 0) metrics.count('recovery_actions_total', { kind: 'job' }, made)
  return { made, superseded }
}

export type RepublishDeps = {
  readonly subscriptions: Subscriptions
  readonly history: Pick<DeliveryHistory, 'listAll'>
  readonly emitter: Pick<Emitter, 'emit'>
}

/**
 * Republishes the end events of jobs that ended before Redis was lost, except jobs without a
 * receiver and events all of whose deliveries are completed. Redis lost pending deliveries, and
 * whether an event was produced is unknown. Completed deliveries are in the history; consumers know
 * repeats by event id.
 */
export async function republish (deps: RepublishDeps, jobs: readonly Job[]): Promise<void> {
  const open = await withOpenDeliveries(deps, jobs)
  if (open.length === 0) return
  await deps.emitter.emit(open.map(job =>
    ({ topic: 'jobs.settled', lane: job.lane, value: settledOf(job), rows: undefined })))
}

/** The jobs whose end has a receiver, of which a delivery is not completed in the history. */
export async function withOpenDeliveries (
  { history, subscriptions }: Pick<RepublishDeps, 'history' | 'subscriptions'>,
  jobs: readonly Job[]
): Promise<readonly Job[]> {
  const all = await Promise.all(jobs.map(async job =>
    [job, await expectedDeliveries(subscriptions, job)] as const))
  const expected = all.filter(([, deliveries]) => deliveries.length > 0)
  if (expected.length === 0) return []
  const tenants = [...new Set(expected.map(([{ tenant }]) => tenant))]
  const attempts = await history.listAll(tenants, expected.map(([{ id }]) => id))
  const last = new Map(attempts.map(({ event, outcome }) => [event, outcome]))
  return expected.filter(([, deliveries]) =>
    deliveries.some(id => (last.get(id) ?? 'failed') === 'failed')).map(([job]) => job)
}

/** The deliveries of the end of a job, by id: to its own receiver, and to subscribed endpoints. */
async function expectedDeliveries (
  subscriptions: Subscriptions, { id, tenant, status, header, feed, endedAtMs }: Job
): Promise<readonly string[]> {
  const type = eventTypeOf(status)
  if (type === undefined) return []
  const event = eventIdOf(id, type)
  const endpoints = receiversOf(await subscriptions(tenant), type, endedAtMs)
  return [
    ...header.length > 0 || feed !== undefined ? [event] : [],
    ...endpoints.map(endpoint => deliveryIdOf(event, endpoint)),
  ]
}
