import { rootKeysOf, type RootKeySettings } from '../../accounts/connect-organization-keys.ts'
import {
  createOrganizationKeyStore, ERASED_FIELD,
} from '../../accounts/organization-key-store.ts'
import { createOrganizationKeys, missingOrganizationKey } from '../../accounts/organization-keys.ts'
import { accountKey, createAccountRecords } from '../../accounts/records.ts'
import { partsOf } from '../../accounts/tenant.ts'
import { closedKeys } from '../../jobs/connect-keys.ts'
import { createJobKeys, type JobKeys } from '../../jobs/job-keys.ts'
import type { Job } from '../../jobs/job.ts'
import { jobKeys } from '../../jobs/redis-keys.ts'
import type { RedisClient } from '../../platform/redis.ts'
import type { Stores } from '../stores.ts'

/**
 * The data keys of jobs for an audit, which changes nothing: an organization without a key gets no
 * new one, which would open none of its results.
 */
export function createAuditKeys (
  config: RootKeySettings<'results'>,
  { redis, ...stores }: Pick<Stores, 'redis' | 'bus' | 'codec' | 'clickhouse' | 'recordMac'>
): JobKeys {
  const { read } = createOrganizationKeyStore(redis)
  const add = async (orgId: string) => {
    // Rejects while Redis has just started and may lack keys that ledger restores.
    await createAccountRecords(redis).readCurrent(`org:${orgId}`)
    throw missingOrganizationKey(`organization ${orgId} has no key "results"`, ['data keys'])
  }
  const keys = createOrganizationKeys({
    class: 'results', roots: rootKeysOf('results', config), store: { read, add },
  })
  return createJobKeys({ redis, part: 'results', keys, findClosed: closedKeys(stores) })
}

/** Whether the job was erased, or its organization: nothing can read its results. */
export async function areErased (
  redis: RedisClient, { tenant, id }: Pick<Job, 'tenant' | 'id'>
): Promise<boolean> {
  return await redis.exists(jobKeys(tenant, id).erased) === 1 ||
    await redis.hexists(accountKey(`org:${partsOf(tenant).orgId}`), ERASED_FIELD) === 1
}
