import { createApiKeys } from '../accounts/api-keys.ts'
import { createOrganizations } from '../accounts/organizations.ts'
import type { Partners } from '../accounts/partners.ts'
import { erasePeople } from '../accounts/people.ts'
import { ACCOUNTS_CACHE_MS } from '../accounts/records.ts'
import { MODES, tenantOf } from '../accounts/tenant.ts'
import { createJobStore } from '../jobs/store.ts'
import type { RedisClient } from '../runtime/platform/redis.ts'
import { sleep as realSleep, type Sleep } from '../runtime/platform/retry.ts'
import { CommandFailure } from '../runtime/platform/run-command.ts'

const POLL_MS = 1_000

export type ClosingDeps = {
  readonly redis: RedisClient
  readonly partners: Pick<Partners, 'list' | 'revoke'>
  /** The real clock by default. */
  readonly sleep?: Sleep
}

export type ClosingOptions = {
  /** How long to wait for what others do. */
  readonly deadlineMs: number
  /** Called with each step, in words, before it begins. */
  readonly onProgress: (line: string) => void
}

/**
 * Ends all use of an organization, and returns how many jobs were cancelled once they are closed.
 * The mark comes first, so that nothing new begins while the rest ends.
 * @throws UsageError for jobs that do not end in time.
 */
export async function closeOrganization (
  deps: ClosingDeps, orgId: string, { deadlineMs, onProgress }: ClosingOptions
): Promise<number> {
  const { redis, sleep = realSleep } = deps
  onProgress('marking it as erased: its API keys, sessions and sign-in links end, and commands ' +
    'refuse it')
  await createOrganizations(redis).markErased(orgId)
  onProgress('revoking its API keys and partners, deleting its people')
  await revokeKeys(deps, orgId)
  await erasePeople(redis, orgId)
  onProgress('cancelling its jobs, and waiting for their end')
  // Until then a process may not know the mark, and accept a job.
  await sleep(2 * ACCOUNTS_CACHE_MS)
  return await cancelJobs(deps, orgId, deadlineMs)
}

/** Revokes all API keys and partners of the organization. */
export async function revokeKeys (
  { redis, partners }: ClosingDeps, orgId: string
): Promise<void> {
  for (const { name, orgId: owner, revokedAtMs } of await partners.list()) {
    if (owner === orgId && revokedAtMs === 0) await partners.revoke(name)
  }
  await createApiKeys(redis).revokeAll(orgId)
}

/** Cancels running jobs, and returns their number once all are closed. */
export async function cancelJobs (
  { redis, sleep = realSleep }: Pick<ClosingDeps, 'redis' | 'sleep'>, orgId: string,
  deadlineMs: number
): Promise<number> {
  const store = createJobStore(redis)
  const cancelled = new Set<string>()
  for (;;) {
    const jobs = await openJobsOf(redis, orgId)
    if (jobs.length === 0) return cancelled.size
    for (const { tenant, job } of jobs) {
      if (!cancelled.has(job)) await store.cancel(tenant, job)
      cancelled.add(job)
    }
    if (Date.now() >= deadlineMs) {
      throw new CommandFailure(`cancelled, but not closed in time: ${jobs.length} jobs. No key ` +
        `is deleted yet. To continue, run "org erase --org ${orgId}" again.`)
    }
    await sleep(POLL_MS)
  }
}

/** The jobs of an organization that are accepted and not closed, of both modes. */
export async function openJobsOf (
  redis: RedisClient, orgId: string
): Promise<readonly { readonly tenant: string, readonly job: string }[]> {
  const store = createJobStore(redis)
  const open = await Promise.all(MODES.map(mode => tenantOf(orgId, mode)).map(async tenant =>
    (await store.openJobs(tenant)).map(({ job }) => ({ tenant, job }))))
  return open.flat()
}
