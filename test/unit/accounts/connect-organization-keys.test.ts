import { afterEach, expect, it, vi } from 'vitest'
import { connectOrganizationKeys } from '../../../services/accounts/connect-organization-keys.ts'
import { organizationKeysKey } from '../../support/keys/organization-keys.ts'
import { withKeyId } from '../../../services/runtime/crypto/key-ring.ts'
import { InfrastructureError } from '../../../services/runtime/platform/errors.ts'
import { createMetrics } from '../../../services/runtime/platform/metrics.ts'
import { rootKeyCalls } from '../../support/keys/root-key-calls.ts'
import { memoryRedis } from './memory-redis.ts'

afterEach(() => vi.unstubAllEnvs())

it('the keys of organizations report calls of Vault to the metrics of their service', async () => {
  vi.stubEnv('VAULT_ADDR', 'http://127.0.0.1:1')
  vi.stubEnv('VAULT_TOKEN', 'token')
  const metrics = createMetrics()
  const { redis } = memoryRedis()
  const wrapped = withKeyId('v', Buffer.from('vault:v1:AAAA')).toString('base64')
  await redis.hset(organizationKeysKey('org_1'), { 'webhooks/1': JSON.stringify([wrapped, '', 0]) })
  const keys = connectOrganizationKeys('webhooks', {
    WEBHOOKS_ROOT_KEYS: { v: 'vault:transit/webhooks' }, WEBHOOKS_ROOT_KEY_ACTIVE: 'v',
  }, { state: redis, metrics })
  await expect(keys.wrap('org_1', Buffer.alloc(32), ['a secret'])).rejects
    .toThrow(InfrastructureError)
  expect(await rootKeyCalls(metrics)).toEqual({
    counted: { 'webhooks vault decrypt failed': 1 }, timed: { 'vault decrypt': 1 },
  })
})
