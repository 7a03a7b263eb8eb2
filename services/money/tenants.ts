import { LRUCache } from 'lru-cache'
import { batchesOf } from '../runtime/platform/batch-writes.ts'
import { isInfrastructure } from '../runtime/platform/errors.ts'
import { type RedisClient, script } from '../runtime/platform/redis.ts'
import { ACTIVE_KEY, TENANTS_KEY } from './redis-keys.ts'

/** A tenant and the time of its last mark as active (Redis time, ms). */
type ActiveTenant = { readonly tenant: string, readonly sinceMs: number }

export type Tenants = ReturnType<typeof createTenants>

/** An idle tenant keeps its mark for this long, which exceeds the time of any script after it. */
export const IDLE_AFTER_MS = 600_000

const MARK_EVERY_MS = 60_000
/** A process trusts its mark for so long when it cannot repeat it, as it outlasts that. */
export const MARK_LASTS_MS = IDLE_AFTER_MS / 2
const TENANTS_PER_BATCH = 500

const ACTIVATE = `
  local time = redis.call('TIME')
  local now = string.format('%.0f', tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000))
  for _, tenant in ipairs(ARGV) do
    redis.call('ZADD', KEYS[1], now, tenant)
  end`
const DEACTIVATE = `
  if redis.call('ZSCORE', KEYS[1], ARGV[1]) == ARGV[2] then
    redis.call('ZREM', KEYS[1], ARGV[1])
  end`

/**
 * All tenants, and the active ones. Periodic work visits only these, so its cost depends on the
 * activity and not on the number of tenants.
 */
export function createTenants (redis: RedisClient) {
  const mark = script(redis, { name: 'activate', source: ACTIVATE, numberOfKeys: 1 })
  const unmark = script(redis, { name: 'deactivate', source: DEACTIVATE, numberOfKeys: 1 })
  const add = async (tenants: readonly string[]): Promise<void> => {
    for (const batch of batchesOf(tenants, TENANTS_PER_BATCH)) {
      await redis.sadd(TENANTS_KEY, ...batch)
    }
  }
  return {
    /** Adds tenants to the list of all. */
    add,

    /** Marks tenants as active, and adds them to the list of all. */
    activate: async (tenants: readonly string[]): Promise<void> => {
      await add(tenants)
      for (const batch of batchesOf(tenants, TENANTS_PER_BATCH)) await mark([ACTIVE_KEY], batch)
    },

    /** Tenants that may have pending entries or open jobs, or whose money moved recently. */
    active: async (): Promise<readonly ActiveTenant[]> => {
      const pairs = await redis.zrange(ACTIVE_KEY, '0', '-1', 'WITHSCORES')
      return Array.from({ length: pairs.length / 2 }, (_, index) =>
        ({ tenant: pairs[2 * index] ?? '', sinceMs: Number(pairs[2 * index + 1]) }))
    },

    /** Removes the mark, unless the tenant was marked again since. */
    deactivate: async ({ tenant, sinceMs }: ActiveTenant): Promise<void> => {
      await unmark([ACTIVE_KEY], [tenant, String(sinceMs)])
    },

    all: (): Promise<readonly string[]> => redis.smembers(TENANTS_KEY),
  }
}

/**
 * Marks a tenant as active. Must be called before a script that adds an outbox entry or an open
 * job: `ledger` ships only the outboxes of active tenants, and looks only at their jobs. Each
 * process marks a tenant at most once a minute. If Redis loses the mark, `ledger` restores it.
 * While the server with the marks does not respond, tenants on other servers keep theirs of the
 * last minutes.
 */
export function createMarkActive (
  redis: RedisClient, now = () => performance.now()
): (tenant: string) => Promise<void> {
  const tenants = createTenants(redis)
  const markedAtMs = new LRUCache<string, number>({ max: 10_000 })
  return async tenant => {
    const ageMs = now() - (markedAtMs.get(tenant) ?? -Infinity)
    if (ageMs < MARK_EVERY_MS) return
    const startedMs = now()
    try {
      await tenants.activate([tenant])
      markedAtMs.set(tenant, startedMs)
    } catch (error) {
      if (ageMs >= MARK_LASTS_MS || !isInfrastructure(error)) throw error
    }
  }
}
