import { createApiKeys } from '../accounts/api-keys.ts'
import { createOrganizations } from '../accounts/organizations.ts'
import { createPartners } from '../accounts/partners.ts'
import { createAccountRecords } from '../accounts/records.ts'
import { createWebhookSecrets } from '../accounts/webhook-secrets.ts'
import type { Environment } from '../lib/command-environment.ts'
import { commonConfig, defineConfig, loadConfig, pick } from '../lib/config.ts'
import { createKeyRing } from '../lib/key-ring.ts'
import { connectRedis } from '../lib/redis.ts'
import { createGates } from '../money/gate.ts'
import { createWallet } from '../money/wallet.ts'
import { createPartnerTopics, type PartnerTopicsOptions } from './partner-topics.ts'

export type WorkspaceDeps = ReturnType<typeof connectWorkspace>

const config = defineConfig(pick(commonConfig, ['REDIS_STATE_URL', 'KEY_RING', 'KEY_ACTIVE']))

/** Connects to the state Redis, runs `work`, and closes the connection in any case. */
export async function withWorkspace<T> (
  env: Environment, work: (deps: WorkspaceDeps) => Promise<T>
): Promise<T> {
  const deps = connectWorkspace(env)
  try {
    return await work(deps)
  } finally {
    deps.close()
  }
}

function connectWorkspace (env: Environment) {
  const settings = loadConfig(config, env)
  const redis = connectRedis(settings.REDIS_STATE_URL)
  const ring = createKeyRing(settings)
  return {
    organizations: createOrganizations(redis),
    apiKeys: createApiKeys(redis),
    webhookSecrets: createWebhookSecrets({ redis, ring }),
    partners: createPartners({ redis, ring }),
    /** Reads the addresses of the brokers on its first use: no other task needs them. */
    createPartnerTopics: (options: PartnerTopicsOptions) => createPartnerTopics(env, options),
    wallet: createWallet(redis),
    gates: createGates(redis),
    accounts: createAccountRecords(redis),
    close: () => redis.disconnect(),
  }
}
