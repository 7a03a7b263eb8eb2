import { expect, it } from 'vitest'
import { createApiKeys } from '../../../services/accounts/api-keys.ts'
import { createPartners } from '../../../services/accounts/partners.ts'
import { ConfigError } from '../../../services/runtime/platform/config.ts'
import { revokeKeys } from '../../../services/admin/erase-organization.ts'
import { createAdminProgram } from '../../../services/admin/program.ts'
import { organizationKeysOf } from '../../support/keys/organization-keys.ts'
import { memoryRedis } from '../accounts/memory-redis.ts'

it('erasing an organization needs a time to wait, and the settings of its stores', async () => {
  const eraseWithin = (minutes: string) => createAdminProgram({ print: () => {} }).parseAsync([
    '--data', '/none', 'org', 'erase', '--org', 'org_1', '--yes', `--wait-minutes=${minutes}`,
  ], { from: 'user' })
  await expect(eraseWithin('-1')).rejects
    .toThrow('--wait-minutes must be a number of at least 0, not "-1"')
  await expect(eraseWithin('1')).rejects.toThrow(ConfigError)
})

it('the keys and partners of an organization are revoked, and those of no other', async () => {
  const { redis } = memoryRedis()
  const partners = createPartners({ redis, keys: organizationKeysOf(1) })
  const apiKeys = createApiKeys(redis)
  for (const orgId of ['org_1', 'org_2']) {
    await apiKeys.create({
      orgId, mode: 'live', scopes: ['jobs:read'], name: 'CRM', createdBy: 'per_1',
    })
    await partners.create({
      name: orgId.replace('_', '-'), orgId, mode: 'live', pricesMicros: {}, partitions: 1,
    })
  }
  await revokeKeys({ redis, partners }, 'org_1')
  const keysOf = async (orgId: string) => (await apiKeys.list(orgId)).map(
    ({ revokedAtMs, name, createdBy }) => [revokedAtMs > 0, name, createdBy])
  expect(await keysOf('org_1')).toEqual([[true, '', '']])
  expect(await keysOf('org_2')).toEqual([[false, 'CRM', 'per_1']])
  expect((await partners.list()).map(({ revokedAtMs }) => revokedAtMs > 0)).toEqual([true, false])
})
