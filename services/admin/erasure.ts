import { createApiKeys } from '../accounts/api-keys.ts'
import { eraseContactLists } from '../accounts/contact-lists.ts'
import { copiesInTopic, organizationKeyTombstone } from '../accounts/account-topics.ts'
import {
  type KeyVersion, ORGANIZATION_KEYS_CACHE_MS, OrganizationKeyStore,
} from '../accounts/organization-keys.ts'
import { createOrganizations } from '../accounts/organizations.ts'
import type { Partners } from '../accounts/partners.ts'
import { erasePeople } from '../accounts/people.ts'
import { ACCOUNTS_CACHE_MS } from '../accounts/records.ts'
import { parseTenant, tenantsOf } from '../accounts/tenant.ts'
import { countTenantRecords, eraseTenantRecords } from '../cache/cache.ts'
import { createJobKeyEraser, type ErasedJobs } from '../jobs/erasures.ts'
import { KEY_CACHE_MS } from '../jobs/job-keys.ts'
import type { Job } from '../jobs/job.ts'
import { createArchive, findStoredJob } from '../jobs/results/archive.ts'
import { createJobStore } from '../jobs/store.ts'
import type { RedisClient } from '../runtime/platform/redis.ts'
import { type Sleep, sleep as realSleep } from '../runtime/platform/retry.ts'
import { CommandFailure, UsageError } from '../runtime/platform/run-command.ts'
import type { Stores } from './deps.ts'

const POLL_MS = 1_000
/** A process opens a data key with a key of the organization, and keeps that as well. */
const MAX_KEY_USE_MS = ORGANIZATION_KEYS_CACHE_MS + KEY_CACHE_MS

/** Whether the state Redis rewrote its append-only file; `none` when it keeps none. */
type Aof = 'rewritten' | 'none'

const NO_AOF = 'Redis keeps no append-only file; delete its snapshots by hand.'

export type OrganizationErasure = {
  /** True when the final scan found no copy of any of its keys, no cached record, no open job. */
  readonly done: boolean
  readonly cancelledJobs: number
  readonly deletedRecords: number
  readonly aof: Aof
  readonly copiesInRedis: number
  readonly copiesInTopic: number
  readonly recordsInCache: number
  /** Jobs that were accepted all the same after the others had ended. */
  readonly openJobs: number
  readonly note: string
}

type ErasureDeps = Stores & {
  /** The real clock by default. */
  readonly sleep?: Sleep
}

/** Also the cache of records, and the partners of all organizations. */
type OrganizationErasureDeps = ErasureDeps & {
  readonly cache: RedisClient
  readonly partners: Partners
}

type OrganizationErasureOptions = {
  /** How long to wait for what others do. */
  readonly deadlineMs: number
  /** Called with each step, in words, before it begins. */
  readonly onProgress: (line: string) => void
}

/**
 * Ends all use of an organization, then deletes its keys, so that nothing of it can be decrypted
 * any more, in any store or backup: jobs, results, webhooks, and keys of partners. Its money stays
 * accounted for. Every step can be repeated, and a repetition completes what was interrupted.
 * @throws UsageError for jobs that do not end in time.
 */
export async function eraseOrganization (
  deps: OrganizationErasureDeps, orgId: string, options: OrganizationErasureOptions
): Promise<OrganizationErasure> {
  const { sleep = realSleep, cache, redis } = deps
  const { onProgress } = options
  // The mark comes first, so that nothing new begins while the rest ends.
  onProgress('marking it as erased: its API keys, sessions and sign-in links end, and commands ' +
    'refuse it')
  await createOrganizations(redis).markErased(orgId)
  onProgress('revoking its API keys and partners, deleting its people and lists')
  for (const { name, orgId: owner, revokedAtMs } of await deps.partners.list()) {
    if (owner === orgId && revokedAtMs === 0) await deps.partners.revoke(name)
  }
  await createApiKeys(redis).revokeAll(orgId)
  await erasePeople(redis, orgId)
  await eraseContactLists(redis, orgId)
  onProgress('cancelling its jobs, and waiting for their end')
  // Until then a process may not know the mark, and accept a job.
  await sleep(2 * ACCOUNTS_CACHE_MS)
  const cancelledJobs = await cancelJobs(deps, orgId, options)
  onProgress('deleting its keys')
  const store = new OrganizationKeyStore(redis)
  // The tombstones come first: a crash in between leaves keys in Redis, which a repetition finds.
  await writeTombstones(deps, orgId, [
    ...await store.read(orgId), ...await copiesInTopic(deps, orgId),
  ])
  await store.erase(orgId)
  onProgress('rewriting the append-only file of the state Redis')
  const aof = await createJobKeyEraser(deps).rewriteAof()
  // After this time no process uses a key that it has in its memory.
  await sleep(MAX_KEY_USE_MS)
  onProgress('deleting its cached records')
  const inAllTenants = async (count: typeof eraseTenantRecords) =>
    (await Promise.all(tenantsOf(orgId).map(tenant => count(cache, tenant))))
      .reduce((sum, records) => sum + records, 0)
  const deletedRecords = await inAllTenants(eraseTenantRecords)
  onProgress('waiting until the brokers have deleted its keys from the topic organization.keys')
  const left = {
    copiesInTopic: await waitUntilCompacted(deps, orgId, options),
    copiesInRedis: (await store.read(orgId)).length,
    recordsInCache: await inAllTenants(countTenantRecords),
    openJobs: (await readOpenJobs(redis, orgId)).length,
  }
  const done = Object.values(left).every(count => count === 0)
  return { done, cancelledJobs, deletedRecords, aof, ...left, note: nextStep(orgId, left, aof) }
}

/** Cancels running jobs, and returns their number once all are closed. */
async function cancelJobs (
  { redis, sleep = realSleep }: OrganizationErasureDeps, orgId: string,
  { deadlineMs }: OrganizationErasureOptions
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

/** The jobs of an organization that are accepted and not closed, of all its tenants. */
async function readOpenJobs (
  redis: RedisClient, orgId: string
): Promise<readonly { readonly tenant: string, readonly job: string }[]> {
  const store = createJobStore(redis)
  const open = await Promise.all(tenantsOf(orgId).map(async tenant =>
    (await store.openJobs(tenant)).map(({ job }) => ({ tenant, job }))))
  return open.flat()
}

async function writeTombstones (
  { producer }: OrganizationErasureDeps, orgId: string,
  keys: readonly KeyVersion[]
): Promise<void> {
  const messages = keys.map(key => organizationKeyTombstone(orgId, key))
  if (messages.length > 0) await producer.send(messages)
}

/** Returns how many copies of its keys the brokers still have at the deadline. */
async function waitUntilCompacted (
  deps: OrganizationErasureDeps, orgId: string, { deadlineMs }: OrganizationErasureOptions
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
function nextStep (orgId: string, left: Left, aof: Aof): string {
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
  return aof === 'none' ? NO_AOF : 'Done.'
}

/** Jobs, and until when to wait for their end and the deletion of copies of their keys. */
type JobErasureRequest = ErasedJobs & { readonly waitMs: number }

/** A job, and how many copies of its wrapped key the final scan found. */
type ErasedJob = {
  readonly job: string
  readonly status: string
  readonly copiesInRedis: number
  /** Messages in the topic `job.keys` that contain the wrapped key. */
  readonly copiesInTopic: number
  readonly copiesInClickhouse: number
  readonly copiesInDeadLetters: number
}

type JobErasure = {
  /** True when the final scan found no copy of any wrapped key. */
  readonly done: boolean
  readonly aof: Aof
  readonly jobs: readonly ErasedJob[]
  /** The next step for the operator, in words. */
  readonly note: string
}

/**
 * Deletes the data keys of jobs, which makes everything encrypted with them permanently
 * unreadable: inputs, results, labels and webhook addresses. Running jobs are cancelled first and
 * settle as usual; their money remains accounted for. Every step can be repeated.
 * @throws UsageError for an unknown job, and when jobs do not end within `waitMs`.
 */
export async function eraseJobs (
  deps: ErasureDeps, request: JobErasureRequest
): Promise<JobErasure> {
  const { sleep = realSleep } = deps
  const keys = createJobKeyEraser(deps)
  const deadlineMs = Date.now() + request.waitMs
  const closed = await waitUntilClosed(deps, request, deadlineMs)
  const wrapped = await keys.remove(request)
  const removedAtMs = Date.now()
  const aof = await keys.rewriteAof()
  // After this time no process has a key in its memory any more.
  await sleep(Math.max(0, removedAtMs + KEY_CACHE_MS - Date.now()))
  // Brokers never compact the active segment, so each poll writes the tombstones again: that makes
  // a quiet topic roll its segment.
  let inTopic = await keys.copiesInTopic(request.jobs)
  while (inTopic.size > 0 && Date.now() < deadlineMs) {
    await sleep(POLL_MS)
    await keys.writeTombstones({ tenant: request.tenant, jobs: [...inTopic.keys()] })
    inTopic = await keys.copiesInTopic(request.jobs)
  }
  // ClickHouse comes after the topic, because ledger copies keys from the topic to ClickHouse.
  await keys.removeCopies(request)
  const inClickhouse = await keys.copiesInClickhouse(request)
  const inDeadLetters = await keys.copiesInDeadLetters(wrapped)
  const inRedis = await keys.copiesInRedis(request)
  const jobs = closed.map(({ id, status }) => ({
    job: id,
    status,
    copiesInRedis: inRedis.get(id) ?? 0,
    copiesInTopic: inTopic.get(id) ?? 0,
    copiesInClickhouse: inClickhouse.get(id) ?? 0,
    copiesInDeadLetters: inDeadLetters.get(id) ?? 0,
  }))
  const copies = [inRedis, inTopic, inClickhouse, inDeadLetters]
  const gone = request.jobs.filter(job => copies.every(byJob => !byJob.has(job)))
  await keys.complete({ tenant: request.tenant, jobs: gone })
  const done = gone.length === request.jobs.length
  const note = done
    ? aof === 'none' ? NO_AOF : 'Done.'
    : 'The jobs are unreadable, but copies of wrapped keys remain. Brokers delete their ' +
      'copies within max.compaction.lag.ms of job.keys: run the command again after that.'
  return { done, aof, jobs, note }
}

/** Cancels running jobs once, then returns all jobs when they are closed. */
async function waitUntilClosed (
  { redis, clickhouse, recordMac, sleep = realSleep }: ErasureDeps,
  { tenant, jobs, waitMs }: JobErasureRequest, deadlineMs: number
): Promise<readonly Job[]> {
  const store = createJobStore(redis)
  const archive = createArchive(clickhouse, recordMac)
  const find = async (id: string): Promise<Job> => {
    const job = await findStoredJob({ store, archive }, tenant, id)
    if (job !== undefined) return job
    const { orgId, mode } = parseTenant(tenant)
    throw new UsageError(`${orgId} has no job ${id} in mode ${mode}. Check --org, --job and ` +
      '--mode.')
  }
  for (let isCancelled = false; ; isCancelled = true) {
    const current = await Promise.all(jobs.map(find))
    const open = current.filter(({ closed }) => !closed)
    if (open.length === 0) return current
    const running = isCancelled ? [] : open.filter(({ ended }) => !ended)
    for (const { id } of running) await store.cancel(tenant, id)
    if (Date.now() >= deadlineMs) {
      const ids = open.map(({ id }) => id).join(', ')
      throw new CommandFailure(`cancelled, but not closed within ${waitMs / 60_000} minutes: ` +
        `${ids}. Nothing is erased. Run the command again.`)
    }
    await sleep(POLL_MS)
  }
}
