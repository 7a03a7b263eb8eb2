import { createApiKeys } from '../accounts/api-keys.ts'
import { createOrganizationKeyStore } from '../accounts/organization-key-store.ts'
import { copiesInTopic, organizationKeyTombstone } from '../accounts/organization-keys-topic.ts'
import { ORGANIZATION_KEYS_CACHE_MS } from '../accounts/organization-keys.ts'
import { createOrganizations } from '../accounts/organizations.ts'
import type { Partners } from '../accounts/partners.ts'
import { erasePeople } from '../accounts/people.ts'
import { ACCOUNTS_CACHE_MS } from '../accounts/records.ts'
import { MODES, tenantOf } from '../accounts/tenant.ts'
import { countTenantRecords, eraseTenantRecords } from '../cache/cache.ts'
import { createJobKeyEraser } from '../jobs/job-key-eraser.ts'
import { KEY_CACHE_MS } from '../jobs/job-keys.ts'
import { createJobStore } from '../jobs/store.ts'
import type { RedisClient } from '../runtime/platform/redis.ts'
import { sleep as realSleep, type Sleep } from '../runtime/platform/retry.ts'
import { CommandFailure } from '../runtime/platform/run-command.ts'
import type { Stores } from './connections.ts'

const POLL_MS = 1_000
/** A process opens a data key with a key of the organization, and keeps that as well. */
const MAX_KEY_USE_MS = ORGANIZATION_KEYS_CACHE_MS + KEY_CACHE_MS

export type OrganizationErasure = {
  /** True when the final scan found no copy of any of its keys, no cached record, no open job. */
  readonly done: boolean
  readonly cancelledJobs: number
  readonly deletedRecords: number
  /** Whether the state Redis rewrote its append-only file; `none` when it keeps none. */
  readonly aof: 'rewritten' | 'none'
  readonly copiesInRedis: number
  readonly copiesInTopic: number
  readonly recordsInCache: number
  /** Jobs that were accepted all the same after the others had ended. */
  readonly openJobs: number
  readonly note: string
}

/** The stores, the cache of records, and the partners of all organizations. */
type OrganizationErasureDeps = Stores & ClosingDeps & { readonly cache: RedisClient }

/**
 * Ends all use of an organization, then deletes its keys, so that nothing of it can be decrypted
 * any more, in any store or backup: jobs, results, webhooks, and keys of partners. Its money stays
 * accounted for. Every step can be repeated, and a repetition completes what was interrupted.
 * @throws UsageError for jobs that do not end in time.
 */
export async function eraseOrganization (
  deps: OrganizationErasureDeps, orgId: string, options: ClosingOptions
): Promise<OrganizationErasure> {
  const { sleep = realSleep, cache, redis } = deps
  const { onProgress } = options
  const cancelledJobs = await closeOrganization(deps, orgId, options)
  onProgress('deleting its keys')
  await deleteKeys(deps, orgId)
  onProgress('rewriting the append-only file of the state Redis')
  const aof = await createJobKeyEraser(deps).rewriteAof()
  // After this time no process uses a key that it has in its memory.
  await sleep(MAX_KEY_USE_MS)
  onProgress('deleting its cached records')
  const inBothModes = async (count: typeof eraseTenantRecords) =>
    sumOf(await Promise.all(MODES.map(mode => count(cache, tenantOf(orgId, mode)))))
  const deletedRecords = await inBothModes(eraseTenantRecords)
  onProgress('waiting until the brokers have deleted its keys from the topic organization.keys')
  const left = {
    copiesInTopic: await waitUntilCompacted(deps, orgId, options),
    copiesInRedis: (await createOrganizationKeyStore(redis).read(orgId)).length,
    recordsInCache: await inBothModes(countTenantRecords),
    openJobs: (await readOpenJobs(redis, orgId)).length,
  }
  const done = Object.values(left).every(count => count === 0)
  return { done, cancelledJobs, deletedRecords, aof, ...left, note: nextStep(orgId, left, aof) }
}

const sumOf = (counts: readonly number[]) => counts.reduce((sum, count) => sum + count, 0)

/** The tombstones come first: a crash in between leaves keys in Redis, which a repetition finds. */
async function deleteKeys (deps: OrganizationErasureDeps, orgId: string): Promise<void> {
  const store = createOrganizationKeyStore(deps.redis)
  const keys = [...await store.read(orgId), ...await copiesInTopic(deps, orgId)]
  await writeTombstones(deps, orgId, keys)
  await store.erase(orgId)
}

async function writeTombstones (
  { producer }: OrganizationErasureDeps, orgId: string,
  keys: Awaited<ReturnType<typeof copiesInTopic>>
): Promise<void> {
  const messages = keys.map(key => organizationKeyTombstone(orgId, key))
  if (messages.length > 0) await producer.send(messages)
}

/** Returns how many copies of its keys the brokers still have at the deadline. */
async function waitUntilCompacted (
  deps: OrganizationErasureDeps, orgId: string, { deadlineMs }: ClosingOptions
): Promise<number> {
  const { sleep = realSleep } = deps
  for (;;) {
    const keys = await copiesInTopic(deps, orgId)
    if (keys.length === 0 || Date.now() >= deadlineMs) return keys.length
    await sleep(POLL_MS)
    // Brokers never compact the active segment: writing makes a quiet topic roll its segment.
    await writeTombstones(deps, orgId, keys)
  }
}

type Left = Pick<OrganizationErasure,
  'copiesInRedis' | 'copiesInTopic' | 'recordsInCache' | 'openJobs'>

/** The next step for the operator, in words. */
function nextStep (orgId: string, left: Left, aof: OrganizationErasure['aof']): string {
  const again = `to continue, run "org erase --org ${orgId}" again`
  if (left.openJobs > 0) {
    return 'A job was accepted while the others ended, and cannot end without its key: ledger ' +
      `fails it after STALLED_AFTER_MS and releases its money: ${again} after that.`
  }
  if (left.copiesInRedis + left.copiesInTopic > 0) {
    return 'Nothing of the organization can be decrypted by the services, but copies of its ' +
      'wrapped keys remain. Brokers delete them within max.compaction.lag.ms of ' +
      `organization.keys: ${again} then, or with a longer --wait-minutes.`
  }
  if (left.recordsInCache > 0) return `Cached records remain: ${again}.`
  return aof === 'none' ? 'Redis keeps no append-only file; delete its snapshots by hand.' : 'Done.'
}

type ClosingDeps = {
  readonly redis: RedisClient
  readonly partners: Pick<Partners, 'list' | 'revoke'>
  /** The real clock by default. */
  readonly sleep?: Sleep
}

type ClosingOptions = {
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
async function closeOrganization (
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
    const jobs = await readOpenJobs(redis, orgId)
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
async function readOpenJobs (
  redis: RedisClient, orgId: string
): Promise<readonly { readonly tenant: string, readonly job: string }[]> {
  const store = createJobStore(redis)
  const open = await Promise.all(MODES.map(mode => tenantOf(orgId, mode)).map(async tenant =>
    (await store.openJobs(tenant)).map(({ job }) => ({ tenant, job }))))
  return open.flat()
}
