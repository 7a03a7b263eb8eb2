import { readFileSync } from 'node:fs'
import { createApiKeys } from '../../accounts/api-keys.ts'
import { createOrganizations } from '../../accounts/organizations.ts'
import { createWebhookSecrets } from '../../accounts/webhook-secrets.ts'
import { connectParts } from '../../lib/connect.ts'
import { createKeyRing } from '../../lib/key-ring.ts'
import type { Life, Running } from '../../lib/run.ts'
import { createJournalCopy } from '../../records/journal-copy.ts'
import { createPage } from './app.ts'
import type { PageConfig } from './config.ts'
import type { PageParts } from './context.ts'
import { createMovements } from './movements.ts'
import { connectedParts, listensAt } from './service-parts.ts'

/** Connects what the pages stand on and listens. */
export async function startPage (settings: PageConfig, life: Life): Promise<Running> {
  const { state, clickhouse, recordMac } = await connectParts(
    settings, life, ['state', 'clickhouse', 'recordMac'])
  const ring = createKeyRing(settings)
  const ready = () => state.status === 'ready'
  const { close, ...rest } = connectedParts(state, settings)
  const parts: PageParts = {
    ...rest,
    organizations: createOrganizations(state),
    apiKeys: createApiKeys(state),
    webhookSecrets: createWebhookSecrets({ redis: state, ring }),
    movements: createMovements(createJournalCopy(clickhouse, recordMac)),
    ready,
  }
  life.onStop(close)
  const https = certificateOf(settings)
  const app = createPage({
    parts,
    trustedProxies: settings.TRUSTED_PROXIES,
    log: life.log,
    connection: settings,
    ...(https === undefined ? {} : { https }),
  })
  life.onStop(() => app.close())
  await app.listen(listensAt(settings))
  return { ready }
}

/** The certificate to listen with; throws TypeError with what to do when only half is given. */
export function certificateOf (
  settings: Pick<PageConfig, 'TLS_CERT_FILE' | 'TLS_KEY_FILE'>
): { readonly cert: Buffer, readonly key: Buffer } | undefined {
  const { TLS_CERT_FILE: cert, TLS_KEY_FILE: key } = settings
  if (cert === '' && key === '') return undefined
  if (cert === '' || key === '') {
    throw new TypeError('Give both TLS_CERT_FILE and TLS_KEY_FILE, or neither.')
  }
  return { cert: readFileSync(cert), key: readFileSync(key) }
}
