import { partsOf } from '../accounts/tenant.ts'
import { REMEMBERED_MS } from '../jobs/job-keys.ts'
import type { Job } from '../jobs/job.ts'
import type { JobStore } from '../jobs/store.ts'
import { sleep } from '../lib/retry.ts'
import { UsageError } from '../lib/run-command.ts'
import type { ErasableKey } from './erasable-key.ts'

export type EraseParts = {
  readonly store: Pick<JobStore, 'read' | 'cancel'>
  readonly findArchived: (tenant: string, job: string) => Promise<Job | undefined>
  readonly key: ErasableKey
  /** Milliseconds of any clock. */
  readonly now: () => number
  readonly sleep: typeof sleep
}

export type EraseOptions = {
  readonly tenant: string
  readonly job: string
  /** How long to wait for a running job to end, and for the copies of its key to go. */
  readonly waitMs: number
  readonly pollMs: number
}

export type Erasure = {
  readonly job: string
  readonly status: string
  /** True once a scan found no copy of the wrapped key anywhere. */
  readonly done: boolean
  readonly redis: 'gone' | 'there'
  /** What the state Redis did with its append-only file. */
  readonly aof: 'rewritten' | 'none'
  /** Messages with the wrapped key that the topic `job.keys` still holds. */
  readonly copiesInTopic: number
  readonly copiesInDeadLetters: number
}

/**
 * Makes everything that was sealed for a job unreadable for good: inputs, results, labels and
 * webhook address, wherever their bytes lie. A running job is cancelled first and comes to its end
 * as ever, so that its money is settled; that part of it stays. Any step may be taken again.
 */
export async function eraseJob (parts: EraseParts, options: EraseOptions): Promise<Erasure> {
  const { tenant, job: id } = options
  const { key, now } = parts
  const deadlineMs = now() + options.waitMs
  const job = await closedJob(parts, options, deadlineMs)
  const wrapped = await key.remove(tenant, id)
  const removedAtMs = now()
  const aof = await key.rewriteAof()
  // Processes that have just used the key forget it by themselves.
  await parts.sleep(Math.max(0, removedAtMs + REMEMBERED_MS - now()))
  const copiesInTopic = await untilCompacted(parts, options, deadlineMs)
  const copiesInDeadLetters = await key.copiesInDeadLetters(id, wrapped)
  const redis = await key.isInRedis(tenant, id) ? 'there' : 'gone'
  const done = redis === 'gone' && copiesInTopic === 0 && copiesInDeadLetters === 0
  return { job: id, status: job.status, done, redis, aof, copiesInTopic, copiesInDeadLetters }
}

/** The job once it is closed; one that runs is asked to end early. */
async function closedJob (
  { store, findArchived, now, sleep: pause }: EraseParts,
  { tenant, job: id, pollMs }: EraseOptions, deadlineMs: number
): Promise<Job> {
  for (let isAsked = false; ; isAsked = true) {
    const job = await store.read(tenant, id) ?? await findArchived(tenant, id)
    if (job === undefined) {
      const { orgId, mode } = partsOf(tenant)
      throw new UsageError(`${orgId} has no job ${id} in mode ${mode}.`)
    }
    if (job.closed) return job
    if (!isAsked && !job.ended) await store.cancel(tenant, id)
    if (now() >= deadlineMs) {
      throw new UsageError(`The job ${id} is cancelled and has not ended yet; nothing is erased. ` +
        'Run the command again.')
    }
    await pause(pollMs)
  }
}

/**
 * Brokers compact a topic in their own time, and never the segment that is written to: every look
 * writes once more that the key is gone, so that a quiet topic moves on to the next segment.
 */
async function untilCompacted (
  { key, now, sleep: pause }: EraseParts, { tenant, job, pollMs }: EraseOptions, deadlineMs: number
): Promise<number> {
  for (;;) {
    const copies = await key.copiesInTopic(job)
    if (copies === 0 || now() >= deadlineMs) return copies
    await pause(pollMs)
    await key.writeTombstone(tenant, job)
  }
}
