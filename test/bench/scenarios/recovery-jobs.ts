import type { Redis } from 'ioredis'
import { setTimeout as delay } from 'node:timers/promises'
import { tenantOf } from '../../../services/accounts/tenant.ts'
import { createClient } from '../../../services/client/client.ts'
import { openJobIn } from '../../../services/jobs/redis-keys.ts'
import { LEADER_KEY } from '../../../services/money/redis-keys.ts'
import { moneyKeys } from '../../../services/money/redis-keys.ts'
import { createDemo } from '../../../services/admin/demo.ts'
import { withWorkspace } from '../../../services/admin/deps.ts'
import { freshPhones } from '../jobs.ts'
import { TOP_UP } from '../services.ts'

type Env = Readonly<Record<string, string>>

/** One-row jobs of an organization, through the whole service. */
export type RealJobs = {
  readonly apiKey: string
  /** Creates jobs from concurrent clients of this address; resolves with the last 202. */
  readonly create: (baseUrl: string, count: number) => Promise<void>
  /** Resolves when no job is open any more. */
  readonly untilClosed: () => Promise<void>
}

const CLIENTS = 32
const POLL_EVERY_MS = 100

/** Creates an organization with enough balance for all its jobs. */
export async function createRealJobs (
  { env, redis }: { readonly env: Env, readonly redis: Redis }
): Promise<RealJobs> {
  const { orgId, keys: { live: apiKey } } = await createDemo(env)
  const tenant = tenantOf(orgId, 'live')
  await withWorkspace(env, ({ wallet }) => wallet.topUp(tenant, TOP_UP))
  return {
    apiKey,
    create: async (baseUrl, count) => {
      const client = createClient({ baseUrl, apiKey })
      let left = count
      const work = async () => {
        while (left-- > 0) {
          const inputs = freshPhones(1)
          await client.createJob({ service: 'phone-validation', inputs, countryCode: 'US' })
        }
      }
      await Promise.all(Array.from({ length: CLIENTS }, work))
    },
    untilClosed: async () => {
      const isOpen = async () => (await redis.hkeys(moneyKeys(tenant).wallet))
        .some(field => openJobIn(field) !== undefined)
      while (await isOpen()) await delay(POLL_EVERY_MS)
    },
  }
}

/** What is deleted within the hour after a job was closed. */
const HOUR_MS = 3_600_000
const KEYS_PER_SCAN = 1_000

/**
 * Creates jobs, and measures by how many bytes the memory of Redis has grown for each of them an
 * hour after its end: keys that expire within the hour are deleted now. The first half of the jobs
 * is not measured: it grows the table of all keys, which the jobs of the last minutes need.
 */
export async function measureBytesPerJob (
  { redis, jobs, services: { baseUrl }, count }: {
    readonly redis: Redis
    readonly jobs: RealJobs
    readonly services: { readonly baseUrl: string }
    readonly count: number
  }
): Promise<number> {
  const run = async (some: number) => {
    await jobs.create(baseUrl, some)
    await jobs.untilClosed()
    return await usedBytes(redis)
  }
  const half = Math.floor(count / 2)
  const before = await run(count - half)
  return (await run(half) - before) / half
}

/** The memory of Redis without keys that expire within an hour, and without its buffers. */
async function usedBytes (redis: Redis): Promise<number> {
  for (let cursor = '0', isFirst = true; isFirst || cursor !== '0'; isFirst = false) {
    const [next, keys] = await redis.scan(cursor, 'COUNT', KEYS_PER_SCAN)
    const left = await Promise.all(keys.map(key => redis.pttl(key)))
    const expiring = keys.filter((key, index) =>
      key !== LEADER_KEY && left[index]! >= 0 && left[index]! <= HOUR_MS)
    if (expiring.length > 0) await redis.del(expiring)
    cursor = next
  }
  const info = await redis.info('memory')
  const bytesOf = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1])
  return bytesOf('used_memory') - bytesOf('mem_clients_normal') - bytesOf('mem_aof_buffer')
}
