import { readFileSync } from 'node:fs'
import { createAccessLog } from '../../access-log/access-log.ts'
import { createAccessCopy } from '../../access-log/copy.ts'
import { createApiKeys } from '../../accounts/api-keys.ts'
import { connectOrganizationKeys } from '../../accounts/connect-organization-keys.ts'
import { createOrganizations } from '../../accounts/organizations.ts'
import { createPeople } from '../../accounts/people.ts'
import { createWebhookSecrets } from '../../accounts/webhook-secrets.ts'
import { connectDeps } from '../../engine/connections.ts'
import type { ServiceContext, Running } from '../../platform/run.ts'
import { createJournalCopy } from '../../money/journal-copy.ts'
import { createPage } from './app.ts'
import type { PageConfig } from './config.ts'
import { createIdentityProvider, providerSettingsOf } from './identity-provider.ts'
import { createPipelineMonitor } from './pipeline/figures.ts'
import { createRestClients } from './rest-clients.ts'
import { createNonces, createSessions, createSignInCodes } from './sessions.ts'

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
      organizations: createOrganizations(state),
      people: createPeople(state),
      ...provider && { identityProvider: createIdentityProvider(provider) },
      apiKeys: createApiKeys(state),
      webhookSecrets: createWebhookSecrets({
        redis: state, keys: connectOrganizationKeys('webhooks', settings, { state }),
      }),
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
  await app.listen({ host, port: PORT_PAGE ?? port })
  return { ready }
}

/**
 * The certificate and key to listen with; undefined when neither file is set.
 * @throws TypeError when only one of the files is set, and the error of an unreadable file.
 */
export function certificateOf (
  settings: Pick<PageConfig, 'TLS_CERT_FILE' | 'TLS_KEY_FILE'>
): { readonly cert: Buffer, readonly key: Buffer } | undefined {
  const { TLS_CERT_FILE: cert, TLS_KEY_FILE: key } = settings
  if (cert === '' && key === '') return undefined
  if (cert === '' || key === '') {
    const [set, unset] = cert === ''
      ? ['TLS_KEY_FILE', 'TLS_CERT_FILE']
      : ['TLS_CERT_FILE',
          'TLS_KEY_FILE']
    throw new TypeError(`${set} is set, but ${unset} is not: set both, or neither.`)
  }
  return { cert: readFileSync(cert), key: readFileSync(key) }
}
