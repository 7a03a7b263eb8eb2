import type { Journal } from '../../schemas/types.ts'
import type { Clock } from '../platform/clock.ts'
import type { Metrics } from '../platform/metrics.ts'
import type { Archive } from '../results/archive.ts'
import { republish, type RepublishDeps } from './republish.ts'
import type { RecoveryStore, LeaderTerm } from './recovery-store.ts'
import type { EndedEntries, Fold } from './journal-fold.ts'
import type { OpenJob } from './reconcile.ts'
import { closedJobOf, hasTerms, openJobOf, type Rebuilt } from './rebuilt.ts'

export type RebuildDeps = RepublishDeps & {
  readonly recoveryStore: Pick<RecoveryStore, 'rebuild'>
  readonly archive: Pick<Archive, 'findAll'>
  readonly clock: Clock
  readonly metrics: Pick<Metrics, 'count'>
}

/** A job of a tenant that its journal knows to have ended and Redis does not. */
export type Ended = EndedEntries & {
  readonly term: LeaderTerm
  /** Whether Redis has the job, and takes it for open. */
  readonly isOpen: boolean
}

/** Ended jobs of one tenant; `openJobs` are those that Redis takes for open. */
export function endedOf (
  entries: Fold['ended'],
  { term, openJobs }: {
    readonly term: LeaderTerm, readonly openJobs: { readonly has: (job: string) => boolean },
  }
): readonly Ended[] {
  return [...entries.values()].map(one => (
    { ...one, term, isOpen: openJobs.has(one.end.job) }))
}

/** Jobs that were written, how many of them anew, and those that are to be counted again. */
export type RebuiltJobs = {
  readonly made: number
  readonly uncounted: readonly Journal[]
  /** True when somebody else acts now, or the server ended. */
  readonly moved: boolean
}

/**
 * Makes sure that Redis has the open jobs of a journal. Those that it takes for open and the entry
 * of which was not read stay as they are. Faults: jobs that it lacks and nothing says what they
 * were.
 */
export async function rebuildOpen (
  deps: RebuildDeps, term: LeaderTerm,
  { open, known }: Pick<Fold, 'open'> & { readonly known: ReadonlyMap<string, OpenJob> }
): Promise<RebuiltJobs & { readonly faults: readonly string[] }> {
  const nowMs = deps.clock.now()
  const faults: string[] = []
  const jobs: Rebuilt[] = []
  const uncounted: Journal[] = []
  for (const { job, entry } of open.values()) {
    if (entry !== undefined && hasTerms(entry)) {
      jobs.push(openJobOf(entry, nowMs))
      uncounted.push(entry)
    } else if ((known.get(job)?.state ?? 'gone') === 'gone') {
      faults.push(`nothing says what the open job ${job} was`)
    }
  }
  return { ...await write(deps, jobs.map(job => ({ job, term }))), uncounted, faults }
}

/**
 * Tells Redis that jobs have ended: one that is archived is closed, any other one is counted to its
 * end once more. One that Redis lacks and whose entries say too little is left out.
 */
export async function rebuildEnded (
  deps: RebuildDeps, ended: readonly Ended[]
): Promise<RebuiltJobs> {
  const nowMs = deps.clock.now()
  const jobs: { readonly job: Rebuilt, readonly term: LeaderTerm }[] = []
  const uncounted: Journal[] = []
  for (let from = 0; from < ended.length; from += JOBS_A_QUERY) {
    const some = ended.slice(from, from + JOBS_A_QUERY)
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

/** Each question has its price; so many jobs share one. */
const JOBS_A_QUERY = 1_000
const WRITTEN_AT_ONCE = 100

async function write (
  { recoveryStore, metrics }: RebuildDeps,
  jobs: readonly { readonly job: Rebuilt, readonly term: LeaderTerm }[]
): Promise<Pick<RebuiltJobs, 'made' | 'moved'>> {
  let [made, moved] = [0, false]
  for (let from = 0; from < jobs.length && !moved; from += WRITTEN_AT_ONCE) {
    const steps = await Promise.all(jobs.slice(from, from + WRITTEN_AT_ONCE)
      .map(({ job, term }) => recoveryStore.rebuild(term, job)))
    made += steps.filter(step => step === 'made').length
    moved = steps.includes('moved')
  }
  if (made > 0) metrics.count('recovery_actions_total', { kind: 'job' }, made)
  return { made, moved }
}
