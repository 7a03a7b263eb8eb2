import type { ServiceContext } from '../platform/run.ts'
import { createApp } from './app.ts'
import type { AdmittingDeps } from './load-shedding-rule.ts'
import { countRequests } from './request-meters.ts'
import { rulesOf, type Settings } from './rules.ts'
import { listenTls } from './tls.ts'

/** Listens on the plain port and, with a certificate, on the TLS port, until the process stops. */
export async function serve (
  deps: AdmittingDeps, settings: Settings,
  context: Pick<ServiceContext, 'log' | 'metrics' | 'onStop'>
): Promise<void> {
  const { log, metrics, onStop } = context
  const app = createApp({ deps, rules: rulesOf(settings), log, connection: settings })
  countRequests(app, metrics)
  const stops: (() => Promise<void>)[] = [() => app.close()]
  // Each waits for its pending requests, so they stop concurrently.
  onStop(() => Promise.all(stops.map(stop => stop())))
  await app.listen({ host: settings.HOST, port: settings.PORT_HTTP })
  const tls = await listenTls(app, { settings, log })
  if (tls !== undefined) stops.push(tls.stop)
}
