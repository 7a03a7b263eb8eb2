import type { Redis } from 'ioredis'
import type { Keys } from '../../schemas/types.ts'
import { ACCEPTED_KEY_MS } from '../jobs/job-keys.ts'
import { jobKeys } from '../jobs/redis-keys.ts'
import { tombstoneOf, type ReadTopic } from '../jobs/wrapped-keys.ts'
import type { Producer } from '../lib/bus.ts'
import type { Codec } from '../lib/registry.ts'
import { sleep } from '../lib/retry.ts'
import { allTopics, messageKey, topicName } from '../lib/topics.ts'

type Parts = {
  readonly redis: Redis
  readonly codec: Pick<Codec, 'decode'>
  readonly producer: Pick<Producer, 'send'>
  readonly read: ReadTopic
}

export type ErasableKey = ReturnType<typeof createErasableKey>

const AOF_POLL_MS = 100
const DEAD = /\.dead$/

/** The wrapped data key of a job, everywhere it is stored. */
export function createErasableKey (parts: Parts) {
  const { redis, producer, read } = parts
  const writeTombstone = (tenant: string, job: string) => producer.send([tombstoneOf(tenant, job)])
  return {
    writeTombstone,

    /** Deletes it from Redis and marks it as gone in its topic; returns its bytes as they were. */
    remove: async (tenant: string, job: string): Promise<readonly Buffer[]> => {
      const { dataKey, erased } = jobKeys(tenant, job)
      const inRedis = await redis.getBuffer(dataKey)
      const inTopic = (await valuesInTopic(parts, job)).map(({ wrapped }) => wrapped)
      // Marked first: whoever puts keys back looks for the mark behind that.
      await redis.set(erased, '1', 'PX', ACCEPTED_KEY_MS)
      await redis.del(dataKey)
      await writeTombstone(tenant, job)
      return inRedis === null ? inTopic : [inRedis, ...inTopic]
    },

    isInRedis: async (tenant: string, job: string): Promise<boolean> =>
      await redis.exists(jobKeys(tenant, job).dataKey) === 1,

    rewriteAof: () => rewriteAof(redis),

    copiesInTopic: async (job: string): Promise<number> => (await valuesInTopic(parts, job)).length,

    /** Dead letters that hold one of these bytes, or came from the topic of keys. */
    copiesInDeadLetters: async (job: string, wrapped: readonly Buffer[]): Promise<number> => {
      let copies = 0
      for (const { name } of allTopics().filter(({ name }) => DEAD.test(name))) {
        await read(name, messages => {
          copies += messages.filter(({ value, headers }) =>
            wrapped.some(bytes => value?.includes(bytes)) ||
            (headers['job'] === job && headers['dead_topic'] === topicName('job.keys'))).length
        })
      }
      return copies
    },
  }
}

async function valuesInTopic ({ codec, read }: Parts, job: string): Promise<readonly Keys[]> {
  const name = messageKey('job.keys', { job })
  const found: Buffer[] = []
  await read(topicName('job.keys'), messages => {
    for (const { key, value } of messages) {
      if (value !== null && String(key) === name) found.push(value)
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
