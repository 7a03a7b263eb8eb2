import { createAccessLog } from '../accounts/access-log/access-log.ts'
import { createAccessCopy } from '../accounts/access-log/copy.ts'
import { connectDeps } from '../runtime/engine/connections.ts'
import { explainListenError } from '../runtime/platform/http-server.ts'
import type { ServiceContext, Running } from '../runtime/platform/run.ts'
import { createJournalCopy } from '../money/journal-copy.ts'
import { createPage } from './app.ts'
import { accountsOf } from './accounts.ts'
import { certificateOf } from './certificate.ts'
import type { PageConfig } from './config.ts'
import { createIdentityProvider, providerSettingsOf } from './identity-provider.ts'
import { createPipelineMonitor } from './pipeline/figures.ts'
import { createRestClients } from './rest-clients.ts'
import { createNonces, createSessions, createSignInCodes } from '../accounts/sessions.ts'

/** Connects to Redis and ClickHouse, creates all dependencies of the page, and listens. */
export async function startPage (settings: PageConfig, context: ServiceContext): Promise<Running> {
  const { state, clickhouse, recordMac } = await connectDeps(
    settings, context, ['state', 'clickhouse', 'recordMac'])
  const ready = () => state.status === 'ready'
  const rest = createRestClients({ redis: state, apiUrl: settings.API_URL })
  context.onStop(() => rest.close())
  const https = certificateOf(settings)
  const provider = providerSettingsOf(settings)
  const app = createPage({
    deps: {
      rest,
      sessions: createSessions({
        redis: state,
        limits: { idleMs: settings.SESSION_IDLE_MS, maxMs: settings.SESSION_MS },
      }),
      signInCodes: createSignInCodes(state),
      nonces: createNonces(state),
      ...provider && { identityProvider: createIdentityProvider(provider) },
      ...accountsOf(state, settings, context),
      journal: createJournalCopy(clickhouse, recordMac),
      accessLog: createAccessLog(state),
      accessCopy: createAccessCopy(clickhouse, recordMac),
      pipelineStatus: createPipelineMonitor({
        targets: settings.METRICS_TARGETS, targetsFile: settings.METRICS_TARGETS_FILE,
      }),
      ready,
    },
    trustedProxies: settings.TRUSTED_PROXIES,
    log: context.log,
    connection: settings,
    ...(https === undefined ? {} : { https }),
  })
  context.onStop(() => app.close())
  const { HOST: host, PORT_PAGE, PORT_HTTP: port } = settings
  await app.listen({ host, port: PORT_PAGE ?? port }).catch((error: unknown) => {
    throw explainListenError(error, PORT_PAGE === undefined ? 'PORT_HTTP' : 'PORT_PAGE')
  })
  return { ready }
}
