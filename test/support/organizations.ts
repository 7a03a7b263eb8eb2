import { organizationKeyTombstone } from '../../services/accounts/account-topics.ts'
import { createApiKeys, type Scope, SCOPES } from '../../services/accounts/api-keys.ts'
import { OrganizationKeyStore } from '../../services/accounts/organization-keys.ts'
import { tenantOf } from '../../services/accounts/tenant.ts'
import { createDemo, type DemoOrganization } from '../../services/admin/demo.ts'
import { withStores, withWorkspace } from '../../services/admin/deps.ts'
import { addOrganization } from '../../services/admin/organizations.ts'
import { isInfrastructure } from '../../services/runtime/platform/errors.ts'
import type { RedisClient } from '../../services/runtime/platform/redis.ts'
import { retryForever } from '../../services/runtime/platform/retry.ts'

type Env = Readonly<Record<string, string>>
type Wish = { readonly availableMicros: number, readonly scopes?: readonly Scope[] }

/** The live wallet of an organization, read by a connection of its own. */
export const balanceOf = (env: Env, orgId: string) =>
  withWorkspace(env, ({ wallet }) => wallet.balance(tenantOf(orgId, 'live')))

/** The id of a new organization with its keys, as "org create" makes it. */
export const newOrganization = async (env: Env): Promise<string> =>
  await withWorkspace(env, async deps =>
    (await addOrganization(deps, 'a customer of the tests')).id)

/** A new organization with a live key of these scopes and this balance. */
export async function createOrganizationWith (
  env: Env, { availableMicros, scopes = SCOPES }: Wish
) {
  const orgId = await newOrganization(env)
  const secret = await withWorkspace(env, async ({ apiKeys, wallet }) => {
    if (availableMicros > 0) {
      await wallet.topUp(tenantOf(orgId, 'live'), {
        id: 'start', amountMicros: availableMicros, reason: 'test',
      })
    }
    return (await apiKeys.create({ orgId, mode: 'live', scopes })).secret
  })
  return { orgId, keys: { live: secret }, balance: () => balanceOf(env, orgId) }
}

/** A key of test mode with every scope, for an organization that exists. */
export async function createTestKey (redis: RedisClient, orgId: string): Promise<string> {
  const { secret } = await createApiKeys(redis).create({ orgId, mode: 'test', scopes: SCOPES })
  return secret
}

/** Deletes the keys of an organization in Redis and in their topic. */
export async function loseKeys (env: Env, orgId: string): Promise<void> {
  await withStores(env, async ({ redis, producer }) => {
    const store = new OrganizationKeyStore(redis)
    const keys = await store.read(orgId)
    await producer.send(keys.map(key => organizationKeyTombstone(orgId, key)))
    await store.erase(orgId)
  })
}

/** 10,000 USD. */
const PLENTY = { id: 'plenty', amountMicros: 10_000_000_000, reason: 'test' }

/** An organization with keys and plenty of money, once its money may be written to. */
export async function createRichDemo (env: Env): Promise<DemoOrganization> {
  return await retryForever(async () => {
    const demo = await createDemo(env)
    await withWorkspace(env, ({ wallet }) => wallet.topUp(tenantOf(demo.orgId, 'live'), PLENTY))
    return demo
  }, { when: isInfrastructure, maxMs: 500 })
}
