import type { Redis } from 'ioredis'
import type { OutgoingMessage, Producer } from '../runtime/kafka/bus.ts'
import { type Clock, sleep } from '../runtime/platform/retry.ts'
import { InfrastructureError, orIfUnavailable } from '../runtime/platform/errors.ts'
import { failpoint } from '../runtime/platform/failpoint.ts'
import { ACCEPTED_KEY_MS } from './job-keys.ts'
import { ERASURES_KEYS, jobRedisKeys } from './job-record.ts'
import { type JobKeyCopy, type ReadTopic, toTombstone } from './wrapped-keys.ts'
import { listMasters, type RedisClient } from '../runtime/platform/redis.ts'
import type { Keys } from '../../schemas/types.ts'
import type { Codec } from '../runtime/kafka/registry.ts'
import { allTopics, messageKey, topicName } from '../runtime/platform/topics.ts'

/** When a job was erased; times are Redis times in ms. */
export type JobErasure = {
  /** From now on nothing of the job can be read. */
  readonly erasedAtMs: number
  /** When no store had a copy of the key any more; undefined before. */
  readonly completedAtMs: number | undefined
}

export type ErasureRequest = {
  readonly tenant: string
  readonly job: string
  /** Whether the records that its rows may have in the cache are deleted too. */
  readonly cache: boolean
}

export type Erasures = ReturnType<typeof createErasures>

type RequestDeps = {
  readonly redis: RedisClient
  readonly producer: Pick<Producer, 'send'>
  /** Redis time. */
  readonly clock: Clock
  readonly recordWithinMs?: number
}

/** Shorter than clients wait for an answer. */
const RECORD_WITHIN_MS = 20_000

/**
 * Erases a closed job: from now on nobody can open its contents. Idempotent: a repeated request
 * completes what a crash left, and keeps the time of the first one. Resolves once the erasure is in
 * the topic of keys, so that a loss of Redis does not forget it; `ledger` deletes the remaining
 * copies of the key.
 * @throws InfrastructureError when Redis or the brokers do not respond in time; the job may be
 * erased all the same.
 */
export async function requestErasure (
  deps: RequestDeps, request: ErasureRequest
): Promise<JobErasure> {
  const { redis, clock } = deps
  const { tenant, job, cache } = request
  const erasure = await readErasure(redis, tenant, job)
  if (erasure?.completedAtMs !== undefined) return erasure
  const atMs = erasure?.erasedAtMs ?? clock.now()
  // First of all, so that ledger completes a request that a crash interrupts.
  await redis.zadd(ERASURES_KEYS.requested, atMs, toMember(request))
  failpoint('erase.queued')
  await markErased(redis, { tenant, job, atMs })
  await record(deps, toTombstone(tenant, job, { atMs, cache }))
  failpoint('erase.recorded')
  await redis.del(jobRedisKeys(tenant, job).dataKey)
  return await readErasure(redis, tenant, job) ?? { erasedAtMs: atMs, completedAtMs: undefined }
}

async function record (
  { producer, recordWithinMs = RECORD_WITHIN_MS }: RequestDeps, tombstone: OutgoingMessage
): Promise<void> {
  const signal = AbortSignal.timeout(recordWithinMs)
  try {
    await producer.send([tombstone], signal)
  } catch (cause) {
    if (!signal.aborted) throw cause
    throw new InfrastructureError('the brokers did not acknowledge the erasure of a job within ' +
      `${recordWithinMs} ms; it stays queued`, { cause })
  }
}

/** The mark of an erased job, kept as long as its results would be; an earlier one stays. */
export async function markErased (
  redis: RedisClient,
  { tenant, job, atMs }: { readonly tenant: string, readonly job: string, readonly atMs: number }
): Promise<void> {
  await redis.set(jobRedisKeys(tenant, job).erased, PENDING, 'PXAT', atMs + ACCEPTED_KEY_MS, 'NX')
}

/** The values of a mark; the time of the erasure follows from its expiry. */
const PENDING = '1'
const DONE = 'done:'

/**
 * The erasures of jobs: their marks, and the queue of those whose keys still have copies. `ledger`
 * works off the queue in two phases: `requested`, then `compacting` until the brokers have deleted
 * their copies.
 */
export function createErasures (redis: RedisClient) {
  const listFirst = async (key: string, limit: number) =>
    (await redis.zrange(key, '0', String(limit - 1))).map((member): ErasureRequest => {
      const [tenant = '', job = '', cache] = member.split(' ')
      return { tenant, job, cache: cache === 'cache' }
    })
  return {
    /** The erasures among these jobs of a tenant, by job. */
    find: async (
      tenant: string, jobs: readonly string[]
    ): Promise<ReadonlyMap<string, JobErasure>> => {
      const erasures = new Map<string, JobErasure>()
      await Promise.all(jobs.map(async job => {
        const erasure = await readErasure(redis, tenant, job)
        if (erasure !== undefined) erasures.set(job, erasure)
      }))
      return erasures
    },

    /** The oldest requests. */
    requested: (limit: number) => listFirst(ERASURES_KEYS.requested, limit),

    /** The erasures that wait for the brokers, and whether one of them is due by now. */
    compacting: async (limit: number, nowMs: number) => ({
      erasures: await listFirst(ERASURES_KEYS.compacting, limit),
      isDue: await redis.zcount(ERASURES_KEYS.compacting, '-inf', nowMs) > 0,
    }),

    /** How many are queued by phase, and when the oldest was requested; undefined without one. */
    backlog: async (limit: number) => {
      const { requested, compacting } = ERASURES_KEYS
      const counts = await Promise.all([redis.zcard(requested), redis.zcard(compacting)])
      const queued = [...await listFirst(requested, limit), ...await listFirst(compacting, limit)]
      const erasures = await Promise.all(queued.map(({ tenant, job }) =>
        readErasure(redis, tenant, job)))
      const times = erasures.flatMap(erasure => erasure?.erasedAtMs ?? [])
      return {
        requested: counts[0],
        compacting: counts[1],
        oldestAtMs: times.length === 0 ? undefined : Math.min(...times),
      }
    },

    /** Puts requests, in their order, behind all others, as they cannot be carried out now. */
    postpone: async (requests: readonly ErasureRequest[], nowMs: number): Promise<void> => {
      const scored = requests.flatMap((request, at) =>
        [nowMs + at / requests.length, toMember(request)])
      if (scored.length > 0) await redis.zadd(ERASURES_KEYS.requested, 'XX', ...scored)
    },

    /** Moves requests to the second phase, or postpones its next check. */
    await: async (requests: readonly ErasureRequest[], nextCheckMs: number): Promise<void> => {
      for (const request of requests) {
        // In this order, so that a crash in between repeats a phase and forgets nothing.
        await redis.zadd(ERASURES_KEYS.compacting, nextCheckMs, toMember(request))
        await redis.zrem(ERASURES_KEYS.requested, toMember(request))
      }
    },

    /** Records that no store has a copy of these keys any more. */
    complete: async (requests: readonly ErasureRequest[], nowMs: number): Promise<void> => {
      for (const request of requests) {
        const { erased } = jobRedisKeys(request.tenant, request.job)
        const isDone = await redis.get(erased).then(value => value?.startsWith(DONE))
        if (isDone !== true) await redis.set(erased, `${DONE}${nowMs}`, 'KEEPTTL', 'XX')
        await redis.zrem(ERASURES_KEYS.compacting, toMember(request))
      }
    },
  }
}

async function readErasure (
  redis: RedisClient, tenant: string, job: string
): Promise<JobErasure | undefined> {
  const { erased } = jobRedisKeys(tenant, job)
  const expiresMs = await redis.pexpiretime(erased)
  // Hardly any job is erased.
  const value = expiresMs < 0 ? null : await redis.get(erased)
  if (value === null) return undefined
  const isDone = value.startsWith(DONE)
  return {
    erasedAtMs: expiresMs - ACCEPTED_KEY_MS,
    completedAtMs: isDone ? Number(value.slice(DONE.length)) : undefined,
  }
}

/**
 * Queues an erasure that only the topic of keys still knows, unless it is complete. One whose mark
 * cannot be read is queued, as every step of it can be repeated.
 */
export async function queueErasure (
  redis: RedisClient, request: ErasureRequest, atMs: number
): Promise<void> {
  const value = await redis.get(jobRedisKeys(request.tenant, request.job).erased)
    .catch(orIfUnavailable(null))
  if (value?.startsWith(DONE) === true) return
  await redis.zadd(ERASURES_KEYS.requested, atMs, toMember(request))
}

const toMember = ({ tenant, job, cache }: ErasureRequest): string =>
  [tenant, job, ...cache ? ['cache'] : []].join(' ')

export type JobKeyEraser = ReturnType<typeof createJobKeyEraser>

type Deps = {
  readonly redis: RedisClient
  readonly keyCopy: JobKeyCopy
  readonly codec: Codec
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
  /** Tombstones repeat the time of the erasure, which is lost with Redis otherwise. */
  const writeTombstones = async ({ tenant, jobs }: ErasedJobs): Promise<void> => {
    const marks = await erasures.find(tenant, jobs)
    await deps.producer.send(jobs.map(job => toTombstone(tenant, job, {
      atMs: marks.get(job)?.erasedAtMs ?? now(), cache: false,
    })))
  }
  /** Deletes the keys from Redis and writes their tombstones. */
  const destroy = async ({ tenant, jobs }: ErasedJobs): Promise<void> => {
    for (const job of jobs) {
      // The mark comes before the deletion: a process that restores keys checks the mark after it
      // wrote one.
      await markErased(redis, { tenant, job, atMs: now() })
      await redis.del(jobRedisKeys(tenant, job).dataKey)
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

    /** Rewrites the append-only file of every server, as any may have had keys of the jobs. */
    rewriteAof: async (): Promise<'rewritten' | 'none'> => {
      const done = await Promise.all((await listMasters(redis)).map(rewriteAof))
      return done.includes('rewritten') ? 'rewritten' : 'none'
    },

    copiesInRedis: async ({ tenant, jobs }: ErasedJobs): Promise<KeyCopies> => {
      const withKey = await Promise.all(jobs.map(async job =>
        await redis.exists(jobRedisKeys(tenant, job).dataKey) === 1 ? [job] : []))
      return countCopies(withKey.flat())
    },

    /** `sinceMs`: when the oldest of the jobs was requested; it shortens the search. */
    copiesInTopic: async (jobs: readonly string[], sinceMs?: number): Promise<KeyCopies> =>
      countCopies((await valuesInTopic(deps, jobs, sinceMs)).map(({ job }) => job)),

    /** The wrapped key that the brokers have not deleted yet. */
    findInTopic: async (tenant: string, job: string): Promise<Buffer | undefined> =>
      (await valuesInTopic(deps, [job])).findLast(key => key.tenant === tenant)?.wrapped,

    copiesInClickhouse: async ({ tenant, jobs }: ErasedJobs): Promise<KeyCopies> =>
      countCopies(await keyCopy.rowsOf(tenant, jobs)),

    /**
     * Counts dead letters that contain a wrapped key of a job, or came from the topic of its keys.
     */
    copiesInDeadLetters: (wrapped: WrappedKeys): Promise<KeyCopies> =>
      countDeadLetters(deps, wrapped),
  }
}

/** The wrapped keys in Redis and in the topic. */
async function findWrapped (deps: Deps, { tenant, jobs }: ErasedJobs): Promise<WrappedKeys> {
  const inTopic = Map.groupBy(await valuesInTopic(deps, jobs), ({ job }) => job)
  const keys = new Map<string, readonly Buffer[]>()
  for (const job of jobs) {
    const inRedis = await deps.redis.getBuffer(jobRedisKeys(tenant, job).dataKey)
    const wrapped = inTopic.get(job)?.map(it => it.wrapped) ?? []
    keys.set(job, inRedis === null ? wrapped : [inRedis, ...wrapped])
  }
  return keys
}

async function countDeadLetters ({ read }: Deps, wrapped: WrappedKeys): Promise<KeyCopies> {
  const letters: string[] = []
  for (const { name } of allTopics().filter(({ name }) => DEAD_LETTER_TOPIC.test(name))) {
    await read(name, messages => {
      for (const { value, headers } of messages) {
        const isKey = headers['dead_topic'] === topicName('job.keys')
        for (const [job, bytes] of wrapped) {
          const isCopy = bytes.some(wrappedKey => value?.includes(wrappedKey))
          if (isCopy || (isKey && headers['job'] === job)) letters.push(job)
        }
      }
    })
  }
  return countCopies(letters)
}

function countCopies (jobs: readonly string[]): KeyCopies {
  const counts = new Map<string, number>()
  for (const job of jobs) counts.set(job, (counts.get(job) ?? 0) + 1)
  return counts
}

async function valuesInTopic (
  { codec, read }: Deps, jobs: readonly string[], sinceMs?: number
): Promise<readonly Keys[]> {
  const names = new Set(jobs.map(job => messageKey('job.keys', { job })))
  const wrapped: Buffer[] = []
  await read(topicName('job.keys'), messages => {
    for (const { key, value } of messages) {
      if (value !== null && names.has(String(key))) wrapped.push(value)
    }
  }, { sinceMs })
  return await Promise.all(wrapped.map(async value =>
    await codec.decode('job.keys', value) as Keys))
}

/**
 * Makes Redis rewrite its append-only file and waits until it is done. `none` when Redis keeps no
 * such file, or its operator alone handles it.
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
      if (!(error instanceof Error)) throw error
      // A managed Redis has files of its own, which no client rewrites.
      if (/^ERR unknown command/i.test(error.message)) return 'none'
      if (!error.message.includes('already in progress')) throw error
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
