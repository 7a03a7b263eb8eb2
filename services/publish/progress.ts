import type { RedisClient } from '../platform/redis.ts'
import { taggedTenant } from '../money/redis-keys.ts'
import type { PublishProgress } from './publish-job.ts'

/** A job that is settled twice is settled within seconds, so this is long after the second time. */
const KEPT_S = 86_400
const ALL = 'all'

/** String: the number of acknowledged pieces of results of a job, or `all`. */
const keyOf = (tenant: string, job: string) => `published:${taggedTenant(tenant)}:${job}`

/** The progress of publishing, in Redis for a day after the last acknowledgement. */
export function createPublishProgress (
  redis: Pick<RedisClient, 'get' | 'set'>
): PublishProgress {
  return {
    read: async (tenant, job) => {
      const pieces = await redis.get(keyOf(tenant, job))
      return pieces === ALL ? Infinity : Number(pieces ?? 0)
    },
    write: async (tenant, job, pieces) => {
      await redis.set(keyOf(tenant, job), pieces === Infinity ? ALL : pieces, 'EX', KEPT_S)
    },
  }
}
