import Type from 'typebox'
import { createApiKeys } from '../accounts/api-keys.ts'
import { createOrganizations } from '../accounts/organizations.ts'
import { connectAllKeys } from '../accounts/connect-organization-keys.ts'
import { copiesInTopic } from '../accounts/organization-keys-topic.ts'
import { createPartners } from '../accounts/partners.ts'
import { createPeople } from '../accounts/people.ts'
import { createAccountRecords } from '../accounts/records.ts'
import { createWebhookEndpoints } from '../webhooks/endpoints.ts'
import { createWebhookSecrets, createWebhookSigningKeys } from '../webhooks/secrets.ts'
import {
  defineConfig, loadConfig, pick, commonConfig, rootKeys,
} from '../runtime/platform/config.ts'
import { connectCommandRedis } from '../runtime/platform/redis.ts'
import { createRecoveryGuards } from '../money/recovery-guard.ts'
import { createWallet } from '../money/wallet.ts'
import { withStores } from './connections.ts'
import { createPartnerTopics, type PartnerTopicsOptions } from './partner-topics.ts'

type Environment = Parameters<typeof loadConfig>[1]

export type WorkspaceDeps = Awaited<ReturnType<typeof connectWorkspace>>

const config = defineConfig({
  ...pick(commonConfig, [
    'REDIS_STATE_URL', 'MESSAGE_KEYS',
    ...rootKeys.results, ...rootKeys.webhooks, ...rootKeys.partners,
  ]),
  WEBHOOK_ALLOW_HTTP: Type.Boolean({ default: false }),
  WEBHOOK_ALLOW_LOOPBACK: Type.Boolean({ default: false }),
})

/** Connects to the state Redis, runs `work`, and closes the connection in any case. */
export async function withWorkspace<T> (
  env: Environment, work: (deps: WorkspaceDeps) => Promise<T>
): Promise<T> {
  const deps = await connectWorkspace(env)
  try {
    return await work(deps)
  } finally {
    deps.close()
  }
}

async function connectWorkspace (env: Environment) {
  const settings = loadConfig(config, env)
  const redis = await connectCommandRedis('REDIS_STATE_URL', settings)
  const keys = connectAllKeys(redis, settings)
  const webhooks = { redis, keys: keys.webhooks }
  return {
    organizations: createOrganizations(redis),
    organizationKeys: keys,
    /** The versions of an organization's keys that the topic `organization.keys` has. */
    readKeysInTopic: (orgId: string) =>
      withStores(env, stores => copiesInTopic(stores, orgId)),
    people: createPeople({ ...webhooks, messageKeys: settings.MESSAGE_KEYS }),
    apiKeys: createApiKeys(redis),
    webhookSecrets: createWebhookSecrets(webhooks),
    webhookSigningKeys: createWebhookSigningKeys(webhooks),
    endpoints: createWebhookEndpoints(webhooks),
    /** The exceptions of a development installation. */
    webhookRules: {
      allowHttp: settings.WEBHOOK_ALLOW_HTTP, allowLoopback: settings.WEBHOOK_ALLOW_LOOPBACK,
    },
    partners: createPartners({ redis, keys: keys.partners }),
    /** Reads the addresses of the brokers on its first use: no other task needs them. */
    createPartnerTopics: (options: PartnerTopicsOptions) => createPartnerTopics(env, options),
    wallet: createWallet(redis),
    gates: createRecoveryGuards(redis),
    accounts: createAccountRecords(redis),
    close: () => redis.disconnect(),
  }
}
