import { createApiKeys } from '../accounts/api-keys.ts'
import { createOrganizations } from '../accounts/organizations.ts'
import { createPartners } from '../accounts/partners.ts'
import { createAccountRecords } from '../accounts/records.ts'
import { createWebhookSecrets } from '../accounts/webhook-secrets.ts'
import { commonConfig, defineConfig, loadConfig, pick } from '../lib/config.ts'
import { createKeyRing } from '../lib/key-ring.ts'
import { connectRedis } from '../lib/redis.ts'
import { createGates } from '../money/gate.ts'
import { createWallet } from '../money/wallet.ts'
import type { Environment } from './environment.ts'
import { makePartnerTopics, type PartnerTopicsOptions } from './partner-topics.ts'

export type WorkspaceParts = Awaited<ReturnType<typeof openWorkspace>>

const config = defineConfig(pick(commonConfig, ['REDIS_STATE_URL', 'KEY_RING', 'KEY_ACTIVE']))

/** What the customer workspace works with; `close` lets the process end. */
export async function openWorkspace (env: Environment) {
  const settings = loadConfig(config, env)
  const redis = connectRedis(settings.REDIS_STATE_URL)
  const ring = createKeyRing(settings)
  return {
    organizations: createOrganizations(redis),
    apiKeys: createApiKeys(redis),
    webhookSecrets: createWebhookSecrets({ redis, ring }),
    partners: createPartners({ redis, ring }),
    /** Only this needs the brokers, so only it asks for their addresses. */
    makePartnerTopics: (options: PartnerTopicsOptions) => makePartnerTopics(env, options),
    wallet: createWallet(redis),
    gates: createGates(redis),
    accounts: createAccountRecords(redis),
    close: () => redis.disconnect(),
  }
}

/** Opens the workspace for one piece of work and closes it whatever happens. */
export async function withWorkspace<T> (
  env: Environment, work: (parts: WorkspaceParts) => Promise<T>
): Promise<T> {
  const parts = await openWorkspace(env)
  try {
    return await work(parts)
  } finally {
    parts.close()
  }
}
