import type { Redis } from 'ioredis'
import { GATE_LUA, joinLua } from '../../services/money/lua.ts'
import { moneyKeys, UNBLESSED_CHANNEL } from '../../services/money/redis-keys.ts'

const OPEN = `${joinLua(GATE_LUA)}
redis.call('HSET', KEYS[1], 'run', run_id())`

/** Lets tenants in as a ledger would that has found nothing of them in the journal. */
export async function openGates (redis: Redis, tenants: readonly string[]): Promise<void> {
  for (const tenant of tenants) await redis.eval(OPEN, 1, moneyKeys(tenant).gate)
}

/**
 * Lets in whoever asks, for tests without a ledger: tenants whose names they make up have no past.
 * `subscriber` is a connection of its own.
 */
export async function keepGatesOpen (redis: Redis, subscriber: Redis): Promise<void> {
  subscriber.on('message', (_channel, tenant) => {
    // Whoever is not let in fails and says so; here the connection may just be closing.
    openGates(redis, [tenant]).catch(() => {})
  })
  await subscriber.subscribe(UNBLESSED_CHANNEL)
}
