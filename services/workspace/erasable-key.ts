import type { Redis } from 'ioredis'
import type { Keys } from '../../schemas/types.ts'
import { ACCEPTED_KEY_MS } from '../jobs/job-keys.ts'
import { jobKeys } from '../jobs/redis-keys.ts'
import { tombstoneOf, type ReadTopic } from '../jobs/wrapped-keys.ts'
import type { Producer } from '../lib/bus.ts'
import type { Codec } from '../lib/registry.ts'
import { sleep } from '../lib/retry.ts'
import { allTopics, messageKey, topicName } from '../lib/topics.ts'
import type { JobKeyCopy } from '../records/job-key-copy.ts'

type Parts = {
  readonly redis: Redis
  readonly keyCopy: Pick<JobKeyCopy, 'erase' | 'rowsOf'>
  readonly codec: Pick<Codec, 'decode'>
  readonly producer: Pick<Producer, 'send'>
  readonly read: ReadTopic
}

/** The jobs of a tenant that are erased together. */
export type ErasedJobs = { readonly tenant: string, readonly jobs: readonly string[] }

/** How many there are of each job; those of which there are none are left out. */
export type Counts = ReadonlyMap<string, number>

/** Bytes of wrapped keys, by job. */
export type WrappedKeys = ReadonlyMap<string, readonly Buffer[]>

export type ErasableKeys = ReturnType<typeof createErasableKeys>

const AOF_POLL_MS = 100
const DEAD = /\.dead$/

/** The wrapped data keys of jobs, everywhere they are stored. */
export function createErasableKeys (parts: Parts) {
  const { redis, keyCopy, producer } = parts
  const writeTombstones = ({ tenant, jobs }: ErasedJobs) =>
    producer.send(jobs.map(job => tombstoneOf(tenant, job)))
  return {
    writeTombstones,

    /** Deletes them from Redis and marks them as gone in their topic; returns them as they were. */
    remove: async ({ tenant, jobs }: ErasedJobs): Promise<WrappedKeys> => {
      const inTopic = Map.groupBy(await valuesInTopic(parts, jobs), ({ job }) => job)
      const removed = new Map<string, readonly Buffer[]>()
      for (const job of jobs) {
        const { dataKey, erased } = jobKeys(tenant, job)
        const inRedis = await redis.getBuffer(dataKey)
        const wrapped = inTopic.get(job)?.map(it => it.wrapped) ?? []
        removed.set(job, inRedis === null ? wrapped : [inRedis, ...wrapped])
        // Marked first: whoever puts keys back looks for the mark behind that.
        await redis.set(erased, '1', 'PX', ACCEPTED_KEY_MS)
        await redis.del(dataKey)
      }
      await writeTombstones({ tenant, jobs })
      return removed
    },

    /** Deletes them from ClickHouse, all at once. */
    removeCopies: ({ tenant, jobs }: ErasedJobs): Promise<void> => keyCopy.erase(tenant, jobs),

    rewriteAof: () => rewriteAof(redis),

    copiesInRedis: async ({ tenant, jobs }: ErasedJobs): Promise<Counts> => {
      const found = await Promise.all(jobs.map(async job =>
        await redis.exists(jobKeys(tenant, job).dataKey) === 1 ? [job] : []))
      return countsOf(found.flat())
    },

    copiesInTopic: async (jobs: readonly string[]): Promise<Counts> =>
      countsOf((await valuesInTopic(parts, jobs)).map(({ job }) => job)),

    copiesInClickhouse: async ({ tenant, jobs }: ErasedJobs): Promise<Counts> =>
      countsOf(await keyCopy.rowsOf(tenant, jobs)),

    /** Dead letters that hold one of the bytes of a job, or came from the topic of keys. */
    copiesInDeadLetters: (wrapped: WrappedKeys): Promise<Counts> =>
      countDeadLetters(parts, wrapped),
  }
}

async function countDeadLetters (
  { read }: Pick<Parts, 'read'>, wrapped: WrappedKeys
): Promise<Counts> {
  const found: string[] = []
  for (const { name } of allTopics().filter(({ name }) => DEAD.test(name))) {
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

function countsOf (jobs: readonly string[]): Counts {
  const counts = new Map<string, number>()
  for (const job of jobs) counts.set(job, (counts.get(job) ?? 0) + 1)
  return counts
}

async function valuesInTopic (
  { codec, read }: Parts, jobs: readonly string[]
): Promise<readonly Keys[]> {
  const names = new Set(jobs.map(job => messageKey('job.keys', { job })))
  const found: Buffer[] = []
  await read(topicName('job.keys'), messages => {
    for (const { key, value } of messages) {
      if (value !== null && names.has(String(key))) found.push(value)
    }
  })
  return await Promise.all(found.map(async value => await codec.decode('job.keys', value) as Keys))
}

/**
 * Has Redis write its append-only file anew, from what it holds now, and waits until it is done.
 * `none`: it keeps no such file.
 * @throws Error when Redis could not write it.
 */
async function rewriteAof (redis: Redis): Promise<'rewritten' | 'none'> {
  if ((await persistence(redis)).get('aof_enabled') !== '1') return 'none'
  for (;;) {
    await untilNoRewrite(redis)
    try {
      await redis.bgrewriteaof()
      break
    } catch (error) {
      // One that was under way already may have begun before the key was deleted.
      if (!(error instanceof Error) || !error.message.includes('already in progress')) throw error
    }
  }
  await untilNoRewrite(redis)
  const status = (await persistence(redis)).get('aof_last_bgrewrite_status')
  if (status === 'ok') return 'rewritten'
  throw new Error(`Redis could not rewrite its append-only file: ${status}. Mend it (its log ` +
    'says why) and run the command again.')
}

async function untilNoRewrite (redis: Redis): Promise<void> {
  for (;;) {
    const info = await persistence(redis)
    const isQuiet = ['aof_rewrite_in_progress', 'aof_rewrite_scheduled']
      .every(name => info.get(name) === '0')
    if (isQuiet) return
    await sleep(AOF_POLL_MS)
  }
}

async function persistence (redis: Redis): Promise<ReadonlyMap<string, string>> {
  const lines = (await redis.info('persistence')).split('\r\n')
  return new Map(lines.map(line => line.split(':') as [string, string]))
}
