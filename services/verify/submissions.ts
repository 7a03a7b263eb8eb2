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

type Store = {
  readonly redis: RedisClient
  readonly clock: Clock
  readonly ring: ReturnType<typeof createKeyRing>
  /** Signs references. */
  readonly secret: Buffer
}

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
    const submissions = new BatchSubmissions(batch, { redis, clock, ring, secret })
    await submissions.read()
    return submissions
  }
}

const deriveSubkey = (secret: string, purpose: string) =>
  subkey(Buffer.from(secret, 'base64'), `submissions ${purpose}`)

/** The submissions of a batch; every change is recorded first. */
class BatchSubmissions implements Submissions {
  readonly #batch: VerificationBatch
  readonly #store: Store
  /** Of the hash in Redis. */
  readonly #key: string
  readonly #binding: Binding
  readonly #all = new Map<string, Recorded>()
  /** The few submissions with each row of the chunk, by reference. */
  readonly #byRow = new Map<number, Map<string, Recorded>>()

  constructor (batch: VerificationBatch, store: Store) {
    const { tenant, job, chunk, batch: number } = batch.value
    this.#batch = batch
    this.#store = store
    this.#key = `submissions:${taggedTenant(tenant)}:${job}:${chunk}:${number}`
    this.#binding = ['submission', tenant, job, chunk, number]
  }

  async read (): Promise<void> {
    const { redis, ring } = this.#store
    for (const sealed of Object.values(await redis.hgetallBuffer(this.#key))) {
      this.#set(JSON.parse(ring.unwrap(sealed, this.#binding).toString()) as Recorded)
    }
  }

  now (): number {
    return this.#store.clock.now()
  }

  of (position: number): VendorSubmission | undefined {
    const submissions = this.#byRow.get(this.#rowAt(position))?.values() ?? []
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
    const rows = positions.map((position) => this.#rowAt(position))
    // The same for the same rows of the same batch at the same provider, in every attempt.
    const digest = createHash('sha256').update(rows.join()).digest('hex')
    const name = [tenant, job, chunk, batch, terms.provider, digest].join('\n')
    const reference =
      createHmac('sha256', this.#store.secret).update(name).digest('hex').slice(0, 32)
    const submission = { ...terms, reference, rows, submittedAtMs: this.now() }
    await this.#record(submission)
    return submission
  }

  async accept ({ reference }: VendorSubmission, task: string): Promise<void> {
    const submission = this.#all.get(reference)
    if (submission !== undefined) await this.#record({ ...submission, task })
  }

  async drop ({ reference }: VendorSubmission): Promise<void> {
    await this.#store.redis.hdel(this.#key, reference)
    for (const row of this.#all.get(reference)?.rows ?? []) this.#byRow.get(row)?.delete(reference)
    this.#all.delete(reference)
  }

  async #record (submission: Recorded): Promise<void> {
    const { redis, ring } = this.#store
    const sealed = ring.wrap(Buffer.from(JSON.stringify(submission)), this.#binding)
    await Promise.all([
      redis.hset(this.#key, submission.reference, sealed), redis.pexpire(this.#key, KEEP_MS),
    ])
    this.#set(submission)
  }

  #set (submission: Recorded): void {
    this.#all.set(submission.reference, submission)
    for (const row of submission.rows) {
      const submissions = this.#byRow.get(row) ?? new Map<string, Recorded>()
      this.#byRow.set(row, submissions.set(submission.reference, submission))
    }
  }

  #rowAt (position: number): number {
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
  watch (metrics: Metrics, now: () => number): void {
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
