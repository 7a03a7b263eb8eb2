import { Redis, type RedisOptions } from 'ioredis'

/** A connection of a test to one Redis; a command fails after one reconnection. */
export function openRedis (url: string, options: RedisOptions = {}): Redis {
  const redis = new Redis(url, { maxRetriesPerRequest: 1, commandTimeout: 5_000, ...options })
  // Each failed command rejects its own promise; without a listener ioredis prints the error too.
  redis.on('error', () => {})
  return redis
}
