import { createHash, createHmac } from 'node:crypto'
import { createKeyRing, type KeyRing } from '../runtime/crypto/key-ring.ts'
import type { MessageKeySettings } from '../runtime/crypto/mac.ts'
import { type Binding, subkey } from '../runtime/crypto/seal.ts'
import { taggedTenant } from '../money/redis-keys.ts'
import type { Clock } from '../runtime/platform/clock.ts'
import type { VerificationBatch } from './batch.ts'
import type { Submissions, VendorSubmission } from './provider.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import type { RedisClient } from '../runtime/platform/redis.ts'

/** As long as a topic keeps the batch, which could be delivered again until then. */
const KEEP_MS = 7 * 86_400_000

/** A submission with the indices of its rows within the chunk, which no retry changes. */
type Recorded = VendorSubmission & { readonly rows: readonly number[] }

type SubmissionStore = (batch: VerificationBatch) => Promise<Submissions>

/**
 * The submissions of verification batches in the Redis for state: a hash for each batch, reference
 * to submission. They are sealed, because the form of a task can name its vendor. The keys
 * derive from those of messages, which are kept forever, so that no rotation loses a task.
 */
export function redisSubmissions (
  redis: RedisClient, settings: MessageKeySettings & { readonly clock: Clock }
): SubmissionStore {
  const ring = ringOf(settings)
  const secret = subkeyOf(settings.MESSAGE_KEYS[settings.MESSAGE_KEY_ACTIVE] ?? '', 'reference')
  return async (batch) => {
    const { key, binding } = namesOf(batch)
    const known = recordedOf(await redis.hgetallBuffer(key), { ring, binding })
    const write = async (submission: Recorded) => {
      const value = ring.wrap(Buffer.from(JSON.stringify(submission)), binding)
      await Promise.all([
        redis.hset(key, submission.reference, value), redis.pexpire(key, KEEP_MS),
      ])
    }
    return submissionsOf(batch, known, {
      now: () => settings.clock.now(),
      write,
      remove: async (reference) => { await redis.hdel(key, reference) },
      referenceOf: (text) => createHmac('sha256', secret).update(text).digest('hex').slice(0, 32),
    })
  }
}

type Records = {
  readonly now: () => number
  readonly write: (submission: Recorded) => Promise<void>
  readonly remove: (reference: string) => Promise<void>
  readonly referenceOf: (text: string) => string
}

/** The submissions of a batch from what is recorded; every write changes both. */
export function submissionsOf (
  batch: VerificationBatch, recorded: readonly Recorded[], records: Records
): Submissions {
  const all = new Map<string, Recorded>()
  const { rows } = batch.rows
  /** The few submissions with each row, by reference. */
  const byIndex = new Map<number, Map<string, Recorded>>()
  const change = (submission: Recorded, isRecorded = true) => {
    if (isRecorded) all.set(submission.reference, submission)
    else all.delete(submission.reference)
    for (const index of submission.rows) {
      const some = byIndex.get(index) ?? new Map<string, Recorded>()
      if (isRecorded) byIndex.set(index, some.set(submission.reference, submission))
      else some.delete(submission.reference)
    }
  }
  for (const submission of recorded) change(submission)
  return {
    now: records.now,
    of: (row) => newestOf(byIndex.get(rows[row] ?? -1)),
    begin: async (positions, terms) => {
      const indices = positions.map((position) => rows[position] ?? -1)
      const reference = records.referenceOf(nameOf(batch, terms.provider, indices))
      const submission = { ...terms, reference, rows: indices, submittedAtMs: records.now() }
      await records.write(submission)
      change(submission)
      return submission
    },
    accept: async ({ reference }, task) => {
      const submission = all.get(reference)
      if (submission === undefined) return
      const accepted = { ...submission, task }
      await records.write(accepted)
      change(accepted)
    },
    drop: async ({ reference }) => {
      await records.remove(reference)
      const submission = all.get(reference)
      if (submission !== undefined) change(submission, false)
    },
  }
}

function newestOf (some: ReadonlyMap<string, Recorded> = new Map()): Recorded | undefined {
  return [...some.values()].reduce<Recorded | undefined>((newest, submission) =>
    newest !== undefined && newest.submittedAtMs > submission.submittedAtMs ? newest : submission,
  undefined)
}

/** The key of a batch in Redis, and what the seals of its submissions are bound to. */
function namesOf ({ value }: VerificationBatch): { key: string, binding: Binding } {
  const { tenant, job, chunk, batch } = value
  return {
    key: `submissions:${taggedTenant(tenant)}:${job}:${chunk}:${batch}`,
    binding: ['submission', tenant, job, chunk, batch],
  }
}

/** Names the same rows of the same batch at the same provider, in every attempt. */
function nameOf (
  { value: { tenant, job, chunk, batch } }: VerificationBatch, provider: number,
  indices: readonly number[]
): string {
  const rows = createHash('sha256').update(indices.join()).digest('hex')
  return [tenant, job, chunk, batch, provider, rows].join('\n')
}

function recordedOf (
  fields: Readonly<Record<string, Buffer>>,
  { ring, binding }: { readonly ring: KeyRing, readonly binding: Binding }
): readonly Recorded[] {
  return Object.values(fields).map((value) =>
    JSON.parse(ring.unwrap(value, binding).toString()) as Recorded)
}

function ringOf ({ MESSAGE_KEYS, MESSAGE_KEY_ACTIVE }: MessageKeySettings): KeyRing {
  const keys = Object.entries(MESSAGE_KEYS).map(([id, secret]) =>
    [id, subkeyOf(secret, 'seal')] as const)
  return createKeyRing({
    name: 'MESSAGE_KEYS', keys: new Map(keys), active: MESSAGE_KEY_ACTIVE,
  })
}

const subkeyOf = (secret: string, purpose: string) =>
  subkey(Buffer.from(secret, 'base64'), `submissions ${purpose}`)

export type TasksInFlight = ReturnType<typeof createTasksInFlight>

/**
 * The tasks that vendors have of verification batches, as this process saw each batch last. They
 * are in memory alone: a process that takes over a batch learns its tasks when it asks for them.
 */
export function createTasksInFlight () {
  const byBatch = new Map<string, readonly Task[]>()
  return {
    /** Records what vendors have of a batch now; nothing once it has ended. */
    record: ({ value }: Pick<VerificationBatch, 'value'>, tasks: readonly VendorSubmission[]) => {
      const { tenant, job, chunk, batch, service } = value
      const name = [tenant, job, chunk, batch].join()
      byBatch.delete(name)
      if (tasks.length > 0) byBatch.set(name, tasks.map(task => ({ ...task, service })))
    },
    /** Forgets all tasks: other processes have the batches. */
    forget: () => byBatch.clear(),
    /** Count and oldest submission (Redis time in ms) by service and provider. */
    figures: (): readonly Figures[] => {
      const all = [...byBatch.values()].flat()
      const groups = Map.groupBy(all, ({ service, provider }) => `${service}:${provider}`)
      return [...groups.values()].flatMap(tasks => tasks.slice(0, 1).map(
        ({ service, provider }) => ({
          service,
          provider: String(provider),
          count: tasks.length,
          oldestAtMs: Math.min(...tasks.map(({ submittedAtMs }) => submittedAtMs)),
        })))
    },
  }
}

type Task = VendorSubmission & { readonly service: string }

type Figures = {
  readonly service: string
  readonly provider: string
  readonly count: number
  readonly oldestAtMs: number
}

/** Reports the tasks when metrics are scraped; `now` is Redis time. */
export function watchTasks (
  metrics: Pick<Metrics, 'watchAll'>, tasks: Pick<TasksInFlight, 'figures'>, now: () => number
): void {
  const reportOf = (valueOf: (figures: Figures) => number) => async () =>
    tasks.figures().map(figures => ({
      labels: { service: figures.service, provider: figures.provider }, value: valueOf(figures),
    }))
  metrics.watchAll('vendor_tasks', reportOf(({ count }) => count))
  metrics.watchAll('vendor_task_oldest_seconds', reportOf(({ oldestAtMs }) =>
    Math.max(0, now() - oldestAtMs) / 1_000))
}
