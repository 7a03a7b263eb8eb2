import { createOrganizationKeyStore, ERASED_FIELD } from '../accounts/organization-key-store.ts'
import { copiesInTopic, organizationKeyTombstone } from '../accounts/organization-keys-topic.ts'
import { ORGANIZATION_KEYS_CACHE_MS } from '../accounts/organization-keys.ts'
import type { Partners } from '../accounts/partners.ts'
import { createAccountRecords } from '../accounts/records.ts'
import { MODES, tenantOf } from '../accounts/tenant.ts'
import { countTenantRecords, eraseTenantRecords } from '../cache/erase-tenant.ts'
import { createJobKeyEraser } from '../jobs/job-key-eraser.ts'
import type { RedisClient } from '../platform/redis.ts'
import { sleep } from '../platform/retry.ts'
import { UsageError } from '../platform/run-command.ts'
import { cancelJobs, revokeKeys } from './close-organization.ts'
import type { Stores } from './stores.ts'

const POLL_MS = 1_000

export type OrganizationErasure = {
  /** True when the final scan found no copy of any of its keys, and no cached record. */
  readonly done: boolean
  readonly cancelledJobs: number
  readonly deletedRecords: number
  /** Whether the state Redis rewrote its append-only file; `none` when it keeps none. */
  readonly aof: 'rewritten' | 'none'
  readonly copiesInRedis: number
  readonly copiesInTopic: number
  readonly recordsInCache: number
  readonly note: string
}

/** The stores, the cache of records, and the partners of all organizations. */
export type OrganizationErasureDeps =
  Stores & { readonly cache: RedisClient, readonly partners: Pick<Partners, 'list' | 'revoke'> }

/**
 * Deletes the keys of an organization, so that nothing of it can be decrypted any more, in any
 * store or backup: jobs, results, webhooks, and keys of partners. Its API keys and partners are
 * revoked and its jobs cancelled first; its money stays accounted for. Every step can be repeated.
 * @throws UsageError for an unknown organization, and jobs that do not end in time.
 */
export async function eraseOrganization (
  deps: OrganizationErasureDeps, orgId: string, deadlineMs: number
): Promise<OrganizationErasure> {
  const { redis, producer } = deps
  const records = createAccountRecords(redis)
  const name = `org:${orgId}`
  if (await records.read(name) === undefined) {
    throw new UsageError(`organization "${orgId}" does not exist. Pass the id that "org create" ` +
      'printed: --org <id>.')
  }
  await revokeKeys(deps, orgId)
  const cancelledJobs = await cancelJobs(deps, orgId, deadlineMs)
  // From here on no process creates new keys for it.
  if ((await records.read(name))?.fields[ERASED_FIELD] === undefined) {
    await records.change({ name, fields: { [ERASED_FIELD]: String(Date.now()) } })
  }
  const store = createOrganizationKeyStore(redis)
  const writeTombstones = async (keys: Awaited<ReturnType<typeof copiesInTopic>>) => {
    const messages = keys.map(key => organizationKeyTombstone(orgId, key))
    if (messages.length > 0) await producer.send(messages)
  }
  const keys = [...await store.read(orgId), ...await copiesInTopic(deps, orgId)]
  await writeTombstones(keys)
  await store.erase(orgId)
  const aof = await createJobKeyEraser(deps).rewriteAof()
  // After this time no process has a key in its memory any more.
  await sleep(ORGANIZATION_KEYS_CACHE_MS)
  const inBothModes = async (count: typeof eraseTenantRecords) =>
    sumOf(await Promise.all(MODES.map(mode => count(deps.cache, tenantOf(orgId, mode)))))
  const deletedRecords = await inBothModes(eraseTenantRecords)
  let inTopic = await copiesInTopic(deps, orgId)
  while (inTopic.length > 0 && Date.now() < deadlineMs) {
    await sleep(POLL_MS)
    // Brokers never compact the active segment: writing makes a quiet topic roll its segment.
    await writeTombstones(inTopic)
    inTopic = await copiesInTopic(deps, orgId)
  }
  const inRedis = await store.read(orgId)
  const recordsInCache = await inBothModes(countTenantRecords)
  const done = inRedis.length === 0 && inTopic.length === 0 && recordsInCache === 0
  return {
    done,
    cancelledJobs,
    deletedRecords,
    aof,
    copiesInRedis: inRedis.length,
    copiesInTopic: inTopic.length,
    recordsInCache,
    note: noteOf(done, aof),
  }
}

const sumOf = (counts: readonly number[]) => counts.reduce((sum, count) => sum + count, 0)

function noteOf (done: boolean, aof: OrganizationErasure['aof']): string {
  if (!done) {
    return 'Nothing of the organization can be decrypted by the services, but copies of its ' +
      'wrapped keys remain. Brokers delete them within max.compaction.lag.ms of ' +
      'organization.keys: run the command again after that.'
  }
  return aof === 'none' ? 'Redis keeps no append-only file; delete its snapshots by hand.' : 'Done.'
}
