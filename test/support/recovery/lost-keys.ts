import { createOrganizationKeyStore } from '../../../services/accounts/organization-keys.ts'
import { organizationKeyTombstone } from '../../../services/accounts/account-topics.ts'
import { withStores } from '../../../services/admin/deps.ts'

/** Deletes the keys of an organization in Redis and in their topic. */
export async function loseKeys (
  env: Readonly<Record<string, string>>, orgId: string
): Promise<void> {
  await withStores(env, async ({ redis, producer }) => {
    const store = createOrganizationKeyStore(redis)
    const keys = await store.read(orgId)
    await producer.send(keys.map(key => organizationKeyTombstone(orgId, key)))
    await store.erase(orgId)
  })
}
