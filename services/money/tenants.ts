import { LRUCache } from 'lru-cache'
import type { Redis } from 'ioredis'
import { script } from '../platform/redis.ts'
import { ACTIVE_KEY, TENANTS_KEY } from './redis-keys.ts'

/** A tenant and the Redis time, in ms, at which it was marked as active last. */
export type ActiveTenant = { readonly tenant: string, readonly sinceMs: number }

export type Tenants = {
  /** Adds tenants to the list of all. */
  readonly add: (tenants: readonly string[]) => Promise<void>
  /** Marks tenants as active, and adds them to the list of all. */
  readonly activate: (tenants: readonly string[]) => Promise<void>
  /** Tenants that may have pending entries or open jobs, and all whose money moved lately. */
  readonly active: () => Promise<readonly ActiveTenant[]>
  /** Takes the mark away, unless the tenant was marked again since. */
  readonly deactivate: (tenant: ActiveTenant) => Promise<void>
  readonly all: () => Promise<readonly string[]>
}

/** Idle tenants keep their mark for so long: longer than any script runs behind its mark. */
export const IDLE_AFTER_MS = 600_000

const MARK_EVERY_MS = 60_000
const TENANTS_A_ROUND = 500

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
 * All tenants, and the few of them that periodic work has to visit: its cost depends on what is
 * under way and not on how many tenants there are.
 */
export function createTenants (redis: Redis): Tenants {
  const mark = script(redis, { name: 'activate', source: ACTIVATE, numberOfKeys: 1 })
  const unmark = script(redis, { name: 'deactivate', source: DEACTIVATE, numberOfKeys: 1 })
  const add = (tenants: readonly string[]) =>
    inRounds(tenants, round => redis.sadd(TENANTS_KEY, ...round))
  return {
    add,
    activate: async tenants => {
      await add(tenants)
      await inRounds(tenants, round => mark([ACTIVE_KEY], round))
    },
    active: async () => {
      const found = await redis.zrange(ACTIVE_KEY, '0', '-1', 'WITHSCORES')
      return Array.from({ length: found.length / 2 }, (_, index) =>
        ({ tenant: found[2 * index] ?? '', sinceMs: Number(found[2 * index + 1]) }))
    },
    deactivate: async ({ tenant, sinceMs }) => {
      await unmark([ACTIVE_KEY], [tenant, String(sinceMs)])
    },
    all: () => redis.smembers(TENANTS_KEY),
  }
}

async function inRounds (
  tenants: readonly string[], work: (round: readonly string[]) => Promise<unknown>
): Promise<void> {
  for (let from = 0; from < tenants.length; from += TENANTS_A_ROUND) {
    await work(tenants.slice(from, from + TENANTS_A_ROUND))
  }
}

/**
 * Marks a tenant before a script that leaves work: an entry in the outbox or an open job. Each
 * process marks a tenant once a minute at most. When Redis loses the mark meanwhile, `ledger` makes
 * it again before it lets the tenant in, if its money moved lately.
 */
export function createActivation (redis: Redis): (tenant: string) => Promise<void> {
  const tenants = createTenants(redis)
  const marked = new LRUCache<string, true>({ max: 10_000, ttl: MARK_EVERY_MS })
  return async tenant => {
    if (marked.has(tenant)) return
    await tenants.activate([tenant])
    marked.set(tenant, true)
  }
}
