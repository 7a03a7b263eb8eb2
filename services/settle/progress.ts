import { LRUCache } from 'lru-cache'
import type { Emission } from '../runtime/engine/stage.ts'
import { finishedTenths } from '../jobs/events.ts'
import type { Job } from '../jobs/job.ts'
import type { Tallied } from '../jobs/store-types.ts'

/** The progress to emit; `remember` must be called once it is acknowledged. */
export type Advanced = {
  readonly emits: readonly Emission<'jobs.events'>[]
  readonly remember: () => void
}

/** Jobs under way at a time, per process; an evicted one repeats an event, which counts once. */
const MAX_JOBS = 10_000

/**
 * Which progress of jobs to emit: each tenth of the rows once, and of several in one batch only the
 * latest. Only jobs that had a subscriber when they were accepted report any; an ended one reports
 * none. After a restart a tenth is emitted again, with the id it had.
 */
export class JobProgress {
  readonly #emitted = new LRUCache<string, number>({
    maxSize: MAX_JOBS, sizeCalculation: () => 1,
  })

  advance (tallied: readonly Tallied[]): Advanced {
    const latest = new Map<string, Job>()
    for (const count of tallied) {
      if (count.kind === 'skip' || count.job.events?.includes('job.progress') !== true) continue
      if (count.ended) latest.delete(count.job.id)
      else latest.set(count.job.id, count.job)
    }
    const jobs = [...latest.values()].filter(job =>
      finishedTenths(job) > (this.#emitted.get(job.id) ?? 0))
    return {
      emits: jobs.map(progressOf),
      remember: () => {
        for (const job of jobs) this.#emitted.set(job.id, finishedTenths(job))
      },
    }
  }
}

function progressOf (job: Job): Emission<'jobs.events'> {
  const { tenant, id, lane, updatedAtMs } = job
  const tenth = finishedTenths(job)
  return {
    topic: 'jobs.events',
    lane,
    value: { tenant, job: id, type: 'job.progress', tenth, at: updatedAtMs },
    rows: undefined,
  }
}
