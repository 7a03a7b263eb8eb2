import { partsOf } from '../accounts/tenant.ts'
import { REMEMBERED_MS } from '../jobs/job-keys.ts'
import type { Job } from '../jobs/job.ts'
import type { JobStore } from '../jobs/store.ts'
import { sleep } from '../lib/retry.ts'
import { UsageError } from '../lib/run-command.ts'
import type { Counts, ErasableKeys, ErasedJobs } from './erasable-key.ts'

export type EraseParts = {
  readonly store: Pick<JobStore, 'read' | 'cancel'>
  readonly findArchived: (tenant: string, job: string) => Promise<Job | undefined>
  readonly keys: ErasableKeys
  /** Milliseconds of any clock. */
  readonly now: () => number
  readonly sleep: typeof sleep
}

export type EraseOptions = ErasedJobs & {
  /** How long to wait for running jobs to end, and for the copies of their keys to go. */
  readonly waitMs: number
  readonly pollMs: number
}

/** A job and how many copies of its wrapped key a scan found. */
export type ErasedJob = {
  readonly job: string
  readonly status: string
  readonly copiesInRedis: number
  /** Messages with the wrapped key that the topic `job.keys` still holds. */
  readonly copiesInTopic: number
  readonly copiesInClickhouse: number
  readonly copiesInDeadLetters: number
}

export type Erasure = {
  /** True once a scan found no copy of any of the wrapped keys anywhere. */
  readonly done: boolean
  /** What the state Redis did with its append-only file. */
  readonly aof: 'rewritten' | 'none'
  readonly jobs: readonly ErasedJob[]
}

/**
 * Makes everything that was sealed for jobs unreadable for good: inputs, results, labels and
 * webhook addresses, wherever their bytes lie. Running jobs are cancelled first and come to their
 * end as ever, so that their money is settled; that part of them stays. Any step may be repeated.
 */
export async function eraseJobs (parts: EraseParts, options: EraseOptions): Promise<Erasure> {
  const { keys, now } = parts
  const deadlineMs = now() + options.waitMs
  const closed = await closedJobs(parts, options, deadlineMs)
  const wrapped = await keys.remove(options)
  const removedAtMs = now()
  const aof = await keys.rewriteAof()
  // Processes that have just used a key forget it by themselves.
  await parts.sleep(Math.max(0, removedAtMs + REMEMBERED_MS - now()))
  const inTopic = await untilCompacted(parts, options, deadlineMs)
  // Behind the topic, which ledger copies the keys from.
  await keys.removeCopies(options)
  const inClickhouse = await keys.copiesInClickhouse(options)
  const inDeadLetters = await keys.copiesInDeadLetters(wrapped)
  const inRedis = await keys.copiesInRedis(options)
  const jobs = closed.map(({ id, status }) => ({
    job: id,
    status,
    copiesInRedis: inRedis.get(id) ?? 0,
    copiesInTopic: inTopic.get(id) ?? 0,
    copiesInClickhouse: inClickhouse.get(id) ?? 0,
    copiesInDeadLetters: inDeadLetters.get(id) ?? 0,
  }))
  const left = inRedis.size + inTopic.size + inClickhouse.size + inDeadLetters.size
  return { done: left === 0, aof, jobs }
}

/** The jobs once all are closed; those that run are asked to end early. */
async function closedJobs (
  { store, findArchived, now, sleep: pause }: EraseParts,
  { tenant, jobs, pollMs }: EraseOptions, deadlineMs: number
): Promise<readonly Job[]> {
  const find = async (id: string): Promise<Job> => {
    const job = await store.read(tenant, id) ?? await findArchived(tenant, id)
    if (job !== undefined) return job
    const { orgId, mode } = partsOf(tenant)
    throw new UsageError(`${orgId} has no job ${id} in mode ${mode}.`)
  }
  for (let isAsked = false; ; isAsked = true) {
    const found = await Promise.all(jobs.map(find))
    const open = found.filter(({ closed }) => !closed)
    if (open.length === 0) return found
    const running = isAsked ? [] : open.filter(({ ended }) => !ended)
    for (const { id } of running) await store.cancel(tenant, id)
    if (now() >= deadlineMs) {
      const names = open.map(({ id }) => id).join(', ')
      throw new UsageError(`Cancelled and not ended yet: ${names}. Nothing is erased; run the ` +
        'command again.')
    }
    await pause(pollMs)
  }
}

/**
 * Brokers compact a topic in their own time, and never the segment that is written to: every look
 * writes once more that the keys are gone, so that a quiet topic moves on to the next segment.
 */
async function untilCompacted (
  { keys, now, sleep: pause }: EraseParts, { tenant, jobs, pollMs }: EraseOptions,
  deadlineMs: number
): Promise<Counts> {
  for (;;) {
    const copies = await keys.copiesInTopic(jobs)
    if (copies.size === 0 || now() >= deadlineMs) return copies
    await pause(pollMs)
    await keys.writeTombstones({ tenant, jobs: [...copies.keys()] })
  }
}
