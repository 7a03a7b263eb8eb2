import {
  connectOrganizationKeys, type RootKeySettings,
} from '../../accounts/connect-organization-keys.ts'
import { ERASED_FIELD } from '../../accounts/organization-key-store.ts'
import { accountKey } from '../../accounts/records.ts'
import { partsOf } from '../../accounts/tenant.ts'
import { closedKeys } from '../../jobs/connect-keys.ts'
import { createJobKeys, type JobKeys } from '../../jobs/job-keys.ts'
import type { Job } from '../../jobs/job.ts'
import { jobKeys } from '../../jobs/redis-keys.ts'
import type { RedisClient } from '../../runtime/platform/redis.ts'
import type { Stores } from '../stores.ts'

/** The data keys of jobs for an audit, which changes nothing. */
export function createAuditKeys (
  config: RootKeySettings<'results'>,
  { redis, ...stores }: Pick<Stores, 'redis' | 'bus' | 'codec' | 'clickhouse' | 'recordMac'>
): JobKeys {
  const keys = connectOrganizationKeys('results', config, { state: redis })
  return createJobKeys({ redis, part: 'results', keys, findClosed: closedKeys(stores) })
}

/** Whether the job was erased, or its organization: nothing can read its results. */
export async function areErased (
  redis: RedisClient, { tenant, id }: Pick<Job, 'tenant' | 'id'>
): Promise<boolean> {
  return await redis.exists(jobKeys(tenant, id).erased) === 1 ||
    await redis.hexists(accountKey(`org:${partsOf(tenant).orgId}`), ERASED_FIELD) === 1
}
