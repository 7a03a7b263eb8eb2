import { createApiKeys } from '../../../services/accounts/api-keys.ts'
import { createOrganizations } from '../../../services/accounts/organizations.ts'
import { createPartners } from '../../../services/accounts/partners.ts'
import type { Options } from '../../../services/admin/command-line.ts'
import type { WorkspaceDeps } from '../../../services/admin/deps.ts'
import { createWebhookEndpoints } from '../../../services/webhooks/endpoints.ts'
import { createOutbox } from '../../../services/money/wallet.ts'
import { commandOn } from '../../support/admin.ts'
import { organizationKeysOf } from '../../support/keys/organization-keys.ts'
import { peopleOn } from '../../support/page/stored-people.ts'
import { workerRedis as redis, emptyRedis } from '../../support/redis/worker.ts'

/** An organization in an empty Redis, and its commands, which print JSON. */
export async function openWorkspace (replaced: object = {}) {
  await emptyRedis()
  const keys = organizationKeysOf(7)
  const deps = {
    organizations: createOrganizations(redis),
    apiKeys: createApiKeys(redis),
    people: peopleOn(redis),
    partners: createPartners({ redis, keys, now: () => 1 }),
    endpoints: createWebhookEndpoints({ redis, keys, sleep: async () => {} }),
    outbox: createOutbox(redis),
    webhookRules: { allowHttp: false, allowLoopback: false },
    ...replaced,
  } as unknown as WorkspaceDeps
  const { id: org } = await deps.organizations.create('Example')
  const run = async (words: string, options: Options) => await commandOn(words)(deps, options)
  return { deps, org, run }
}

export type Workspace = Awaited<ReturnType<typeof openWorkspace>>
