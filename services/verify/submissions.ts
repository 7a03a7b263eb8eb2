import { createHash, createHmac } from 'node:crypto'
import { createKeyRing } from '../runtime/crypto/key-ring.ts'
import type { MessageKeySettings } from '../runtime/crypto/mac.ts'
import { type Binding, subkey } from '../runtime/crypto/seal.ts'
import { taggedTenant } from '../money/redis-keys.ts'
import type { Clock } from '../runtime/platform/retry.ts'
import type { VerificationBatch } from './batch.ts'
import type { Submissions, VendorSubmission } from './provider.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import type { RedisClient } from '../runtime/platform/redis.ts'

/** As long as a topic keeps the batch, which could be delivered again until then. */
const KEEP_MS = 7 * 86_400_000

/** A submission with the indices of its rows within the chunk, which no retry changes. */
type Recorded = VendorSubmission & { readonly rows: readonly number[] }

/**
 * The submissions of verification batches in the Redis for state: a hash for each batch, reference
 * to submission. They are sealed, because the form of a task can name its vendor. The keys
 * derive from those of messages, which are kept forever, so that no rotation loses a task.
 */
export function redisSubmissions (
  redis: RedisClient, settings: MessageKeySettings & { readonly clock: Clock }
): (batch: VerificationBatch) => Promise<Submissions> {
  const { MESSAGE_KEYS, MESSAGE_KEY_ACTIVE, clock } = settings
  const ring = createKeyRing({
    name: 'MESSAGE_KEYS',
    keys: new Map(Object.entries(MESSAGE_KEYS).map(([id, key]) => [id, deriveSubkey(key, 'seal')])),
    active: MESSAGE_KEY_ACTIVE,
  })
  const secret = deriveSubkey(MESSAGE_KEYS[MESSAGE_KEY_ACTIVE] ?? '', 'reference')
  return async (batch) => {
    const { tenant, job, chunk, batch: number } = batch.value
    const key = `submissions:${taggedTenant(tenant)}:${job}:${chunk}:${number}`
    const binding: Binding = ['submission', tenant, job, chunk, number]
    const sealed = Object.values(await redis.hgetallBuffer(key))
    const recorded = sealed.map((value) =>
      JSON.parse(ring.unwrap(value, binding).toString()) as Recorded)
    return new BatchSubmissions(batch, recorded, {
      now: () => clock.now(),
      write: async (submission) => {
        const value = ring.wrap(Buffer.from(JSON.stringify(submission)), binding)
        await Promise.all([
          redis.hset(key, submission.reference, value), redis.pexpire(key, KEEP_MS),
        ])
      },
      remove: async (reference) => { await redis.hdel(key, reference) },
      sign: (text) => createHmac('sha256', secret).update(text).digest('hex').slice(0, 32),
    })
  }
}

const deriveSubkey = (secret: string, purpose: string) =>
  subkey(Buffer.from(secret, 'base64'), `submissions ${purpose}`)

type Records = {
  readonly now: () => number
  readonly write: (submission: Recorded) => Promise<void>
  readonly remove: (reference: string) => Promise<void>
  readonly sign: (text: string) => string
}

/** The submissions of a batch, from what is recorded; every change is recorded first. */
class BatchSubmissions implements Submissions {
  readonly now: () => number
  readonly #batch: VerificationBatch
  readonly #records: Records
  readonly #all = new Map<string, Recorded>()
  /** The few submissions with each row of the chunk, by reference. */
  readonly #byIndex = new Map<number, Map<string, Recorded>>()

  constructor (batch: VerificationBatch, recorded: readonly Recorded[], records: Records) {
    this.#batch = batch
    this.#records = records
    this.now = records.now
    for (const submission of recorded) this.#set(submission)
  }

  of (row: number): VendorSubmission | undefined {
    const submissions = this.#byIndex.get(this.#indexOf(row))?.values() ?? []
    return [...submissions].reduce<Recorded | undefined>((newest, submission) =>
      newest !== undefined && newest.submittedAtMs > submission.submittedAtMs
        ? newest
        : submission, undefined)
  }

  async begin (
    positions: readonly number[],
    terms: Pick<VendorSubmission, 'provider' | 'deadlineMs' | 'pollMs'>
  ): Promise<VendorSubmission> {
    const { tenant, job, chunk, batch } = this.#batch.value
    const rows = positions.map((position) => this.#indexOf(position))
    // The same for the same rows of the same batch at the same provider, in every attempt.
    const digest = createHash('sha256').update(rows.join()).digest('hex')
    const name = [tenant, job, chunk, batch, terms.provider, digest].join('\n')
    const reference = this.#records.sign(name)
    const submission = { ...terms, reference, rows, submittedAtMs: this.now() }
    await this.#records.write(submission)
    this.#set(submission)
    return submission
  }

  async accept ({ reference }: VendorSubmission, task: string): Promise<void> {
    const submission = this.#all.get(reference)
    if (submission === undefined) return
    const accepted = { ...submission, task }
    await this.#records.write(accepted)
    this.#set(accepted)
  }

  async drop ({ reference }: VendorSubmission): Promise<void> {
    await this.#records.remove(reference)
    for (const index of this.#all.get(reference)?.rows ?? []) {
      this.#byIndex.get(index)?.delete(reference)
    }
    this.#all.delete(reference)
  }

  #set (submission: Recorded): void {
    this.#all.set(submission.reference, submission)
    for (const index of submission.rows) {
      const submissions = this.#byIndex.get(index) ?? new Map<string, Recorded>()
      this.#byIndex.set(index, submissions.set(submission.reference, submission))
    }
  }

  #indexOf (position: number): number {
    return this.#batch.rows.rows[position] ?? -1
  }
}

/**
 * The tasks that vendors have of verification batches, as this process saw each batch last. They
 * are in memory alone: a process that takes over a batch learns its tasks when it asks for them.
 */
export class TasksInFlight {
  readonly #byBatch = new Map<string, readonly Task[]>()

  /** Records what vendors have of a batch now; nothing once it has ended. */
  record (
    { value }: Pick<VerificationBatch, 'value'>, tasks: readonly VendorSubmission[]
  ): void {
    const { tenant, job, chunk, batch, service } = value
    const name = [tenant, job, chunk, batch].join()
    this.#byBatch.delete(name)
    if (tasks.length > 0) this.#byBatch.set(name, tasks.map(task => ({ ...task, service })))
  }

  /** Forgets all tasks: other processes have the batches. */
  forget (): void {
    this.#byBatch.clear()
  }

  /** Reports the tasks when metrics are scraped; `now` is Redis time. */
  watch (metrics: Pick<Metrics, 'watchAll'>, now: () => number): void {
    metrics.watchAll('vendor_tasks', async () => this.#measure(({ length }) => length))
    metrics.watchAll('vendor_task_oldest_seconds', async () => this.#measure(tasks => {
      const oldestAtMs = Math.min(...tasks.map(({ submittedAtMs }) => submittedAtMs))
      return Math.max(0, now() - oldestAtMs) / 1_000
    }))
  }

  /** A value for the tasks of each service and provider. */
  #measure (valueOf: (tasks: readonly Task[]) => number) {
    const groups = Map.groupBy([...this.#byBatch.values()].flat(),
      ({ service, provider }) => `${service}:${provider}`)
    return [...groups.values()].flatMap(tasks => tasks.slice(0, 1).map(({ service, provider }) =>
      ({ labels: { service, provider: String(provider) }, value: valueOf(tasks) })))
  }
}

type Task = VendorSubmission & { readonly service: string }
