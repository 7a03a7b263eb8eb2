import type { ServiceContext } from '../platform/run.ts'
import { createApp } from './app.ts'
import type { AdmittingDeps } from './load-shedding-rule.ts'
import { countRequests } from './request-meters.ts'
import { settingsOf, type ConfigWithSecret } from './settings.ts'
import { listenTls } from './tls.ts'

/** Listens on the plain port and, with a certificate, on the TLS port, until the process stops. */
export async function serve (
  deps: AdmittingDeps, config: ConfigWithSecret,
  context: Pick<ServiceContext, 'log' | 'metrics' | 'onStop'>
): Promise<void> {
  const { log, metrics, onStop } = context
  const app = createApp({ deps, settings: settingsOf(config), log, connection: config })
  countRequests(app, metrics)
  const stops: (() => Promise<void>)[] = [() => app.close()]
  // Each waits for its pending requests, so they stop concurrently.
  onStop(() => Promise.all(stops.map(stop => stop())))
  await app.listen({ host: config.HOST, port: config.PORT_HTTP })
  const tls = await listenTls(app, { settings: config, log })
  if (tls !== undefined) stops.push(tls.stop)
}
