import { expect, it } from 'vitest'
import {
  ERASED_FIELD, organizationKeysKey,
} from '../../../services/accounts/organization-key-store.ts'
import { accountKey } from '../../../services/accounts/records.ts'
import { watchOrganizationKeys } from '../../../services/ledger/key-meters.ts'
import { createLog } from '../../../services/platform/log.ts'
import { createMetrics } from '../../../services/platform/metrics.ts'
import { KEY_CLASSES } from '../../../services/topology.ts'
import { memoryRedis } from '../accounts/memory-redis.ts'

it('ledger counts the organizations without keys, but no erased ones', async () => {
  const { redis } = memoryRedis()
  const give = async (orgId: string, classes: readonly string[]) => {
    const fields = classes.map(name => [`${name}/1`, JSON.stringify(['', '', 0])])
    await redis.hset(organizationKeysKey(orgId), Object.fromEntries(fields))
  }
  await give('org_whole', KEY_CLASSES)
  await give('org_partial', KEY_CLASSES.slice(1))
  await redis.hset(accountKey('org:org_erased'), { [ERASED_FIELD]: '1' })
  const metrics = createMetrics()
  const ids = ['org_whole', 'org_partial', 'org_none', 'org_erased']
  watchOrganizationKeys({
    redis,
    tenants: { all: async () => ids.flatMap(id => [`${id}.live`, `${id}.test`]) },
    metrics,
    log: createLog('test', { level: 'silent' }),
  })
  expect(await metrics.text()).toContain('\norganizations_without_keys 2\n')
})
