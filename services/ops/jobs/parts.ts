import Type from 'typebox'
import { createJobStore } from '../../jobs/store.ts'
import type { Environment } from '../../lib/command-environment.ts'
import { commonConfig, loadConfig, pick } from '../../lib/config.ts'
import { connectRedis } from '../../lib/redis.ts'
import { TENANTS_KEY } from '../../money/redis-keys.ts'
import type { OpenJobsParts } from './open-jobs.ts'

const config = Type.Object(pick(commonConfig, ['REDIS_STATE_URL']))

/** Connects to the Redis that knows the jobs, for one piece of work. */
export async function withJobs<T> (
  env: Environment, work: (parts: OpenJobsParts) => Promise<T>
): Promise<T> {
  const { REDIS_STATE_URL: url } = loadConfig(config, env)
  const redis = connectRedis(url)
  const nowMs = async () => {
    const [seconds, micros] = await redis.time()
    return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000)
  }
  try {
    const tenants = () => redis.smembers(TENANTS_KEY)
    return await work({ store: createJobStore(redis), tenants, nowMs })
  } finally {
    redis.disconnect()
  }
}
