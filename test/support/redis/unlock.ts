import { Redis } from 'ioredis'
import { joinLua, type RedisClient } from '../../../services/runtime/platform/redis.ts'
import { ACCOUNTS_RUN_KEY } from '../../../services/accounts/records.ts'
import { GUARD_LUA } from '../../../services/money/wallet.ts'
import { moneyKeys, LOCKED_TENANTS_CHANNEL } from '../../../services/money/redis-keys.ts'

const UNLOCK_LUA = `${joinLua(GUARD_LUA)}
redis.call('HSET', KEYS[1], 'run', run_id())`
/** Lua: makes the accounts valid for this run of the server. */
export const MARK_COMPARED_LUA = `${joinLua(GUARD_LUA)}
redis.call('SET', KEYS[1], run_id())`

/** Unlocks tenants, like a ledger that has found none of their entries in the journal. */
export async function unlockAll (redis: RedisClient, tenants: readonly string[]): Promise<void> {
  for (const tenant of tenants) await redis.eval(UNLOCK_LUA, 1, moneyKeys(tenant).wallet)
}

/** Set: tenants that only a ledger unlocks. */
const LEFT_TO_LEDGER_KEY = 'test:left-to-ledger'

/** Leaves unlocking a tenant to the ledger, as in production. */
export async function leaveToLedger (redis: RedisClient, tenant: string): Promise<void> {
  await redis.sadd(LEFT_TO_LEDGER_KEY, tenant)
}

/** `keepUnlocked` for the Redis at an address; the answer ends it. */
export async function keepUnlockedAt (url: string): Promise<() => void> {
  const [redis, subscriber] = [new Redis(url), new Redis(url)]
  await keepUnlocked(redis, subscriber)
  return () => {
    redis.disconnect()
    subscriber.disconnect()
  }
}

/**
 * Unlocks every locked tenant, for tests without a ledger: the tenants they make up have no
 * entries, and neither have accounts. `subscriber` is a connection of its own.
 */
export async function keepUnlocked (redis: RedisClient, subscriber: RedisClient): Promise<void> {
  await redis.eval(MARK_COMPARED_LUA, 1, ACCOUNTS_RUN_KEY)
  const unlock = async (tenant: string) => {
    if (await redis.sismember(LEFT_TO_LEDGER_KEY, tenant) === 0) await unlockAll(redis, [tenant])
  }
  subscriber.on('message', (_channel, tenant) => {
    // A locked tenant fails visibly; here the connection may just be closing.
    unlock(tenant).catch(() => {})
  })
  await subscriber.subscribe(LOCKED_TENANTS_CHANNEL)
}
