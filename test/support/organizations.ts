import { createApiKeys } from '../../services/accounts/api-keys.ts'
import { SCOPES, type Scope } from '../../services/accounts/key-store.ts'
import { createOrganizations } from '../../services/accounts/organizations.ts'
import { tenantOf } from '../../services/accounts/tenant.ts'
import { connectRedis, type RedisClient } from '../../services/platform/redis.ts'
import { createWallet } from '../../services/money/wallet.ts'

type Env = Readonly<Record<string, string>>
type Wish = { readonly availableMicros: number, readonly scopes?: readonly Scope[] }

/** The live wallet of an organization, read by a connection of its own. */
export async function balanceOf (env: Env, orgId: string) {
  const redis = connectRedis(env.REDIS_STATE_URL ?? '')
  try {
    return await createWallet(redis).balance(tenantOf(orgId, 'live'))
  } finally {
    redis.disconnect()
  }
}

/** A new organization with a live key of these scopes and this balance. */
export async function createOrganizationWith (
  env: Env, { availableMicros, scopes = SCOPES }: Wish
) {
  const redis = connectRedis(env.REDIS_STATE_URL ?? '')
  try {
    const { id: orgId } = await createOrganizations(redis).create('a customer of the tests')
    const { secret } = await createApiKeys(redis).create({ orgId, mode: 'live', scopes })
    if (availableMicros > 0) {
      await createWallet(redis).topUp(tenantOf(orgId, 'live'), {
        id: 'start', amountMicros: availableMicros, reason: 'test',
      })
    }
    return { orgId, keys: { live: secret }, balance: () => balanceOf(env, orgId) }
  } finally {
    redis.disconnect()
  }
}

/** A key of test mode with every scope, for an organization that exists. */
export async function createTestKey (redis: RedisClient, orgId: string): Promise<string> {
  const { secret } = await createApiKeys(redis).create({ orgId, mode: 'test', scopes: SCOPES })
  return secret
}
