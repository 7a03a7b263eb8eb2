import type { Redis } from 'ioredis'
import type { OutgoingMessage, Producer } from '../runtime/kafka/bus.ts'
import type { Clock } from '../runtime/platform/clock.ts'
import { InfrastructureError, orIfUnavailable } from '../runtime/platform/errors.ts'
import { failpoint } from '../runtime/platform/failpoint.ts'
import { ACCEPTED_KEY_MS } from './job-keys.ts'
import { ERASURES_KEYS, jobKeys } from './redis-keys.ts'
import { tombstoneOf } from './wrapped-keys.ts'
import type { RedisClient } from '../runtime/platform/redis.ts'

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
  readonly redis: Pick<Redis, 'set' | 'del' | 'zadd' | 'get' | 'pexpiretime'>
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
  const known = await readErasure(redis, tenant, job)
  if (known?.completedAtMs !== undefined) return known
  const atMs = known?.erasedAtMs ?? clock.now()
  // First of all, so that ledger completes a request that a crash interrupts.
  await redis.zadd(ERASURES_KEYS.requested, atMs, memberOf(request))
  failpoint('erase.queued')
  await markErased(redis, { tenant, job, atMs })
  await record(deps, tombstoneOf(tenant, job, { atMs, cache }))
  failpoint('erase.recorded')
  await redis.del(jobKeys(tenant, job).dataKey)
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
  redis: Pick<Redis, 'set'>,
  { tenant, job, atMs }: { readonly tenant: string, readonly job: string, readonly atMs: number }
): Promise<void> {
  await redis.set(jobKeys(tenant, job).erased, PENDING, 'PXAT', atMs + ACCEPTED_KEY_MS, 'NX')
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
  const membersOf = async (key: string, limit: number) =>
    (await redis.zrange(key, '0', String(limit - 1))).map(requestOf)
  return {
    /** The erasures among these jobs of a tenant, by job. */
    find: async (
      tenant: string, jobs: readonly string[]
    ): Promise<ReadonlyMap<string, JobErasure>> => {
      const found = new Map<string, JobErasure>()
      await Promise.all(jobs.map(async job => {
        const erasure = await readErasure(redis, tenant, job)
        if (erasure !== undefined) found.set(job, erasure)
      }))
      return found
    },

    /** The oldest requests. */
    requested: (limit: number) => membersOf(ERASURES_KEYS.requested, limit),

    /** The erasures that wait for the brokers, and whether one of them is due by now. */
    compacting: async (limit: number, nowMs: number) => ({
      erasures: await membersOf(ERASURES_KEYS.compacting, limit),
      isDue: await redis.zcount(ERASURES_KEYS.compacting, '-inf', nowMs) > 0,
    }),

    /** How many are queued by phase, and when the oldest was requested; undefined without one. */
    backlog: async (limit: number) => {
      const { requested, compacting } = ERASURES_KEYS
      const counts = await Promise.all([redis.zcard(requested), redis.zcard(compacting)])
      const queued = [...await membersOf(requested, limit), ...await membersOf(compacting, limit)]
      const found = await Promise.all(queued.map(({ tenant, job }) =>
        readErasure(redis, tenant, job)))
      const times = found.flatMap(erasure => erasure?.erasedAtMs ?? [])
      return {
        requested: counts[0],
        compacting: counts[1],
        oldestAtMs: times.length === 0 ? undefined : Math.min(...times),
      }
    },

    /** Moves requests to the second phase, or postpones its next check. */
    await: async (requests: readonly ErasureRequest[], nextCheckMs: number): Promise<void> => {
      for (const request of requests) {
        // In this order, so that a crash in between repeats a phase and forgets nothing.
        await redis.zadd(ERASURES_KEYS.compacting, nextCheckMs, memberOf(request))
        await redis.zrem(ERASURES_KEYS.requested, memberOf(request))
      }
    },

    /** Records that no store has a copy of these keys any more. */
    complete: async (requests: readonly ErasureRequest[], nowMs: number): Promise<void> => {
      for (const request of requests) {
        const { erased } = jobKeys(request.tenant, request.job)
        const isDone = await redis.get(erased).then(value => value?.startsWith(DONE))
        if (isDone !== true) await redis.set(erased, `${DONE}${nowMs}`, 'KEEPTTL', 'XX')
        await redis.zrem(ERASURES_KEYS.compacting, memberOf(request))
      }
    },
  }
}

async function readErasure (
  redis: Pick<Redis, 'get' | 'pexpiretime'>, tenant: string, job: string
): Promise<JobErasure | undefined> {
  const { erased } = jobKeys(tenant, job)
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
  redis: Pick<Redis, 'get' | 'zadd'>, request: ErasureRequest, atMs: number
): Promise<void> {
  const value = await redis.get(jobKeys(request.tenant, request.job).erased)
    .catch(orIfUnavailable(null))
  if (value?.startsWith(DONE) === true) return
  await redis.zadd(ERASURES_KEYS.requested, atMs, memberOf(request))
}

const memberOf = ({ tenant, job, cache }: ErasureRequest): string =>
  [tenant, job, ...cache ? ['cache'] : []].join(' ')

function requestOf (member: string): ErasureRequest {
  const [tenant = '', job = '', cache] = member.split(' ')
  return { tenant, job, cache: cache === 'cache' }
}
