import { createAccessLog } from '../accounts/access-log/access-log.ts'
import { createAccessCopy } from '../accounts/access-log/copy.ts'
import { createApiKeys } from '../accounts/api-keys.ts'
import { connectOrganizationKeys } from '../accounts/connect-organization-keys.ts'
import { createOrganizations } from '../accounts/organizations.ts'
import { createPeople } from '../accounts/people.ts'
import { createNonces, createSessions, createSignInCodes } from '../accounts/sessions.ts'
import { createJournalCopy } from '../money/journal.ts'
import { connectDeps } from '../runtime/engine/connections.ts'
import { explainListenError } from '../runtime/platform/http-server.ts'
import { run, type Running, type ServiceContext } from '../runtime/platform/run.ts'
import { createWebhookSecrets } from '../webhooks/secrets.ts'
import { createPage } from './app.ts'
import { pageConfig, type PageConfig } from './config.ts'
import { createIdentityProvider, readProviderSettings } from './identity-provider.ts'
import { createPipelineMonitor } from './pipeline/figures.ts'
import { createRestClients } from './rest-clients.ts'

/** Connects to Redis and ClickHouse, creates all dependencies of the page, and listens. */
async function startPage (config: PageConfig, context: ServiceContext): Promise<Running> {
  const provider = readProviderSettings(config)
  const { state, clickhouse, recordMac } = await connectDeps(
    config, context, ['state', 'clickhouse', 'recordMac'])
  const keys = connectOrganizationKeys('webhooks', config, { state, metrics: context.metrics })
  const rest = createRestClients({ redis: state, apiUrl: config.API_URL })
  context.onStop(() => rest.close())
  const app = createPage({
    deps: {
      rest,
      sessions: createSessions({
        redis: state, limits: { idleMs: config.SESSION_IDLE_MS, maxMs: config.SESSION_MS },
      }),
      signInCodes: createSignInCodes(state),
      nonces: createNonces(state),
      ...provider && { identityProvider: createIdentityProvider(provider) },
      organizations: createOrganizations(state),
      people: createPeople({ redis: state, keys, messageKeys: config.MESSAGE_KEYS }),
      apiKeys: createApiKeys(state),
      webhookSecrets: createWebhookSecrets({ redis: state, keys }),
      journal: createJournalCopy(clickhouse, recordMac),
      accessLog: createAccessLog(state),
      accessCopy: createAccessCopy(clickhouse, recordMac),
      pipelineStatus: createPipelineMonitor({
        targets: config.METRICS_TARGETS, targetsFile: config.METRICS_TARGETS_FILE,
      }),
      supportUrl: config.SUPPORT_URL,
    },
    trustedProxies: config.TRUSTED_PROXIES,
    log: context.log,
    connection: config,
    tls: config,
  })
  context.onStop(() => app.close())
  const { HOST: host, PORT_PAGE, PORT_HTTP: port } = config
  await app.listen({ host, port: PORT_PAGE ?? port }).catch((error: unknown) => {
    throw explainListenError(error, PORT_PAGE === undefined ? 'PORT_HTTP' : 'PORT_PAGE')
  })
  return { ready: () => state.status === 'ready' }
}

export const pageService = { config: pageConfig, start: startPage }

if (import.meta.main) await run('page', pageConfig, startPage)
