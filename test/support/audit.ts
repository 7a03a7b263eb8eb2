import { runAudit as runOnce } from '../../services/admin/audit/run.ts'
import { ACTIVE_KEY, TENANTS_KEY } from '../../services/money/redis-keys.ts'
import { createTenants } from '../../services/money/wallet.ts'
import type { RedisClient } from '../../services/runtime/platform/redis.ts'

/** The audit as commands run it, but as patient with tenants that do not rest as a test may be. */
export const runAudit: typeof runOnce = (env, options) =>
  runOnce(env, { waitMs: 240_000, ...options })

/**
 * Runs work that damages what Redis has of these tenants, and repairs it. `ledger` visits all
 * tenants once a minute: it would freeze their wallets, or restore their keys, before the repair.
 */
export async function unseenByLedger<T> (
  redis: RedisClient, tenants: readonly string[], work: () => Promise<T>
): Promise<T> {
  await Promise.all([redis.srem(TENANTS_KEY, ...tenants), redis.zrem(ACTIVE_KEY, ...tenants)])
  try {
    return await work()
  } finally {
    await createTenants(redis).activate(tenants)
  }
}
