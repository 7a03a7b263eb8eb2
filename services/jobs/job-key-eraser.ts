import type { Redis } from 'ioredis'
import type { Keys } from '../../schemas/types.ts'
import type { Producer } from '../runtime/kafka/bus.ts'
import type { Codec } from '../runtime/kafka/registry.ts'
import { mastersOf } from '../runtime/platform/cells.ts'
import { sleep } from '../runtime/platform/retry.ts'
import { allTopics, messageKey, topicName } from '../runtime/platform/topics.ts'
import { createErasures, markErased } from './erasures.ts'
import type { JobKeyCopy } from './job-key-copy.ts'
import { jobKeys } from './redis-keys.ts'
import { tombstoneOf, type ReadTopic } from './wrapped-keys.ts'
import type { RedisClient } from '../runtime/platform/redis.ts'

export type JobKeyEraser = ReturnType<typeof createJobKeyEraser>

type Deps = {
  readonly redis: RedisClient
  readonly keyCopy: Pick<JobKeyCopy, 'erase' | 'rowsOf'>
  readonly codec: Pick<Codec, 'decode'>
  readonly producer: Pick<Producer, 'send'>
  readonly read: ReadTopic
  /** Redis time, or that of this machine. */
  readonly now?: () => number
}

/** Jobs of one tenant that are erased together. */
export type ErasedJobs = { readonly tenant: string, readonly jobs: readonly string[] }

/** How many copies of its key each job has. Jobs without copies have no entry. */
export type KeyCopies = ReadonlyMap<string, number>

/** Wrapped keys, by job. */
type WrappedKeys = ReadonlyMap<string, readonly Buffer[]>

const AOF_POLL_MS = 100
const DEAD_LETTER_TOPIC = /\.dead$/

/** Finds and deletes the wrapped data keys of jobs in every store. */
export function createJobKeyEraser (deps: Deps) {
  const { redis, keyCopy, now = Date.now } = deps
  const erasures = createErasures(redis)
  const writeTombstones = (erased: ErasedJobs) => sendTombstones(deps, erased)
  /** Deletes the keys from Redis and writes their tombstones. */
  const destroy = async ({ tenant, jobs }: ErasedJobs): Promise<void> => {
    for (const job of jobs) {
      // The mark comes before the deletion: a process that restores keys checks the mark after it
      // wrote one.
      await markErased(redis, { tenant, job, atMs: now() })
      await redis.del(jobKeys(tenant, job).dataKey)
    }
    await writeTombstones({ tenant, jobs })
  }
  return {
    writeTombstones,

    /** Deletes the keys from Redis and writes their tombstones; returns the wrapped keys. */
    remove: async (erased: ErasedJobs): Promise<WrappedKeys> => {
      const removed = await findWrapped(deps, erased)
      await destroy(erased)
      return removed
    },

    destroy,

    /** Deletes the keys from ClickHouse with one mutation. */
    removeCopies: ({ tenant, jobs }: ErasedJobs): Promise<void> => keyCopy.erase(tenant, jobs),

    /** Records that no store has a copy of these keys any more. */
    complete: ({ tenant, jobs }: ErasedJobs): Promise<void> =>
      erasures.complete(jobs.map(job => ({ tenant, job, cache: false })), now()),

    rewriteAof: () => rewriteAll(redis),

    copiesInRedis: async ({ tenant, jobs }: ErasedJobs): Promise<KeyCopies> => {
      const found = await Promise.all(jobs.map(async job =>
        await redis.exists(jobKeys(tenant, job).dataKey) === 1 ? [job] : []))
      return countsOf(found.flat())
    },

    /** `sinceMs`: when the oldest of the jobs was requested; it shortens the search. */
    copiesInTopic: async (jobs: readonly string[], sinceMs?: number): Promise<KeyCopies> =>
      countsOf((await valuesInTopic(deps, jobs, sinceMs)).map(({ job }) => job)),

    /** The wrapped key that the brokers have not deleted yet. */
    findInTopic: async (tenant: string, job: string): Promise<Buffer | undefined> =>
      (await valuesInTopic(deps, [job])).findLast(key => key.tenant === tenant)?.wrapped,

    copiesInClickhouse: async ({ tenant, jobs }: ErasedJobs): Promise<KeyCopies> =>
      countsOf(await keyCopy.rowsOf(tenant, jobs)),

    /**
     * Counts dead letters that contain a wrapped key of a job, or came from the topic of its keys.
     */
    copiesInDeadLetters: (wrapped: WrappedKeys): Promise<KeyCopies> =>
      countDeadLetters(deps, wrapped),
  }
}

/** Tombstones repeat the time of the erasure, which is lost with Redis otherwise. */
async function sendTombstones (
  { redis, producer, now = Date.now }: Deps, { tenant, jobs }: ErasedJobs
): Promise<void> {
  const marks = await createErasures(redis).find(tenant, jobs)
  await producer.send(jobs.map(job => tombstoneOf(tenant, job, {
    atMs: marks.get(job)?.erasedAtMs ?? now(), cache: false,
  })))
}

/** The wrapped keys in Redis and in the topic. */
async function findWrapped (deps: Deps, { tenant, jobs }: ErasedJobs): Promise<WrappedKeys> {
  const inTopic = Map.groupBy(await valuesInTopic(deps, jobs), ({ job }) => job)
  const found = new Map<string, readonly Buffer[]>()
  for (const job of jobs) {
    const inRedis = await deps.redis.getBuffer(jobKeys(tenant, job).dataKey)
    const wrapped = inTopic.get(job)?.map(it => it.wrapped) ?? []
    found.set(job, inRedis === null ? wrapped : [inRedis, ...wrapped])
  }
  return found
}

async function countDeadLetters (
  { read }: Pick<Deps, 'read'>, wrapped: WrappedKeys
): Promise<KeyCopies> {
  const found: string[] = []
  for (const { name } of allTopics().filter(({ name }) => DEAD_LETTER_TOPIC.test(name))) {
    await read(name, messages => {
      for (const { value, headers } of messages) {
        const isKey = headers['dead_topic'] === topicName('job.keys')
        for (const [job, bytes] of wrapped) {
          const isCopy = bytes.some(one => value?.includes(one))
          if (isCopy || (isKey && headers['job'] === job)) found.push(job)
        }
      }
    })
  }
  return countsOf(found)
}

function countsOf (jobs: readonly string[]): KeyCopies {
  const counts = new Map<string, number>()
  for (const job of jobs) counts.set(job, (counts.get(job) ?? 0) + 1)
  return counts
}

async function valuesInTopic (
  { codec, read }: Deps, jobs: readonly string[], sinceMs?: number
): Promise<readonly Keys[]> {
  const names = new Set(jobs.map(job => messageKey('job.keys', { job })))
  const found: Buffer[] = []
  await read(topicName('job.keys'), messages => {
    for (const { key, value } of messages) {
      if (value !== null && names.has(String(key))) found.push(value)
    }
  }, { sinceMs })
  return await Promise.all(found.map(async value => await codec.decode('job.keys', value) as Keys))
}

/** Rewrites the append-only file of every server, as any may have had keys of the jobs. */
async function rewriteAll (redis: RedisClient): Promise<'rewritten' | 'none'> {
  const done = await Promise.all((await mastersOf(redis)).map(rewriteAof))
  return done.includes('rewritten') ? 'rewritten' : 'none'
}

/**
 * Makes Redis rewrite its append-only file and waits until it is done. `none` when Redis keeps no
 * such file.
 * @throws Error when the rewrite failed.
 */
async function rewriteAof (redis: Redis): Promise<'rewritten' | 'none'> {
  if ((await persistence(redis)).get('aof_enabled') !== '1') return 'none'
  for (;;) {
    await waitForRewrite(redis)
    try {
      await redis.bgrewriteaof()
      break
    } catch (error) {
      // A rewrite in progress may have started before the keys were deleted, so another one follows
      // it.
      if (!(error instanceof Error) || !error.message.includes('already in progress')) throw error
    }
  }
  await waitForRewrite(redis)
  const status = (await persistence(redis)).get('aof_last_bgrewrite_status')
  if (status === 'ok') return 'rewritten'
  throw new Error('Redis failed to rewrite its append-only file (aof_last_bgrewrite_status ' +
    `"${status}"). Find the cause in the log of Redis, then run the command again.`)
}

async function waitForRewrite (redis: Redis): Promise<void> {
  for (;;) {
    const info = await persistence(redis)
    const isIdle = ['aof_rewrite_in_progress', 'aof_rewrite_scheduled']
      .every(name => info.get(name) === '0')
    if (isIdle) return
    await sleep(AOF_POLL_MS)
  }
}

async function persistence (redis: Redis): Promise<ReadonlyMap<string, string>> {
  const lines = (await redis.info('persistence')).split('\r\n')
  return new Map(lines.map(line => line.split(':') as [string, string]))
}
