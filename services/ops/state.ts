import type { Redis } from 'ioredis'
import Type from 'typebox'
import type { Environment } from '../lib/command-environment.ts'
import { commonConfig, loadConfig, pick } from '../lib/config.ts'
import { connectRedis } from '../lib/redis.ts'

const config = Type.Object(pick(commonConfig, ['REDIS_STATE_URL']))

/**
 * Connects to the Redis that keeps state, for one piece of work.
 * @throws ConfigError when the environment does not name it.
 */
export async function withState<T> (
  env: Environment, work: (redis: Redis) => Promise<T>
): Promise<T> {
  const redis = connectRedis(loadConfig(config, env).REDIS_STATE_URL)
  try {
    return await work(redis)
  } finally {
    redis.disconnect()
  }
}
