import { createApiKeys } from '../accounts/api-keys.ts'
import type { Partners } from '../accounts/partners.ts'
import { MODES, tenantOf } from '../accounts/tenant.ts'
import { createJobStore } from '../jobs/store.ts'
import type { RedisClient } from '../platform/redis.ts'
import { sleep } from '../platform/retry.ts'
import { UsageError } from '../platform/run-command.ts'

const POLL_MS = 1_000

type Deps = {
  readonly redis: RedisClient
  readonly partners: Pick<Partners, 'list' | 'revoke'>
}

/** Revokes all API keys and partners of the organization. */
export async function revokeKeys (
  { redis, partners }: Deps, orgId: string
): Promise<void> {
  for (const { name, orgId: owner } of await partners.list()) {
    if (owner === orgId) await partners.revoke(name)
  }
  const apiKeys = createApiKeys(redis)
  for (const { id, revokedAtMs } of await apiKeys.list(orgId)) {
    if (revokedAtMs === 0) await apiKeys.revoke(orgId, id)
  }
}

/** Cancels running jobs, and returns their number once all are closed. */
export async function cancelJobs (
  { redis }: Pick<Deps, 'redis'>, orgId: string, deadlineMs: number
): Promise<number> {
  const store = createJobStore(redis)
  const tenants = MODES.map(mode => tenantOf(orgId, mode))
  const cancelled = new Set<string>()
  for (;;) {
    const open = await Promise.all(tenants.map(async tenant =>
      (await store.openJobs(tenant)).map(({ job }) => ({ tenant, job }))))
    const jobs = open.flat()
    if (jobs.length === 0) return cancelled.size
    for (const { tenant, job } of jobs) {
      if (!cancelled.has(job)) await store.cancel(tenant, job)
      cancelled.add(job)
    }
    if (Date.now() >= deadlineMs) {
      throw new UsageError(`cancelled, but not closed in time: ${jobs.length} jobs. ` +
        'Nothing is erased. Run the command again.')
    }
    await sleep(POLL_MS)
  }
}
