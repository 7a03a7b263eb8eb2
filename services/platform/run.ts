import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Static, TObject, TProperties } from 'typebox'
import { ConfigError, loadConfig, type processConfig } from './config.ts'
import { createLog, type Log } from './log.ts'
import { createMetrics, type Metrics } from './metrics.ts'

/** The process-wide facilities that `run` gives to the dependencies of a service. */
export type ServiceContext = {
  readonly name: string
  readonly log: Log
  readonly metrics: Metrics
  /** Registers a close function for the stop of the process. They run in reverse order. */
  readonly onStop: (close: () => unknown) => void
  /** Reports an unrecoverable error: stops the service and exits with code 1. */
  readonly fatal: (error: unknown) => void
}

/** A started service; `stop` runs before all functions registered by `onStop`. */
export type Running = { readonly ready: () => boolean, readonly stop?: () => Promise<void> }

type ServiceConfig<F extends TProperties> = TObject<typeof processConfig & F>

const STOP_WITHIN_MS = 25_000

/**
 * Runs a service: configuration, health, start, stop. SIGTERM, SIGINT or the end of the parent
 * process stop it gracefully; a second signal or 25 s kill it. With `--validate` it only checks the
 * configuration and exits with code 0 or 1.
 */
export async function run<F extends TProperties> (
  name: string, schema: ServiceConfig<F>,
  start: (config: Static<ServiceConfig<F>>, context: ServiceContext) => Promise<Running>
): Promise<void> {
  const config = configOrExit(name, schema)
  const {
    LOG_LEVEL, HOST_METRICS, PORT_METRICS, INSTANCE, ...settings
  } = config as Static<TObject<typeof processConfig>>
  const log = createLog(name, { level: LOG_LEVEL }).child({ instance: INSTANCE })
  const metrics = createMetrics(undefined, { process: name })
  const closers: (() => unknown)[] = []
  const stop = createStop(log, closers)
  const fatal = (error: unknown) => {
    log.fatal({ err: error }, 'service failed, stopping')
    stop(1)
  }
  handleSignals(stop, fatal)
  // Stopped last, so that the spans of the other stops are sent too.
  closers.push(await startTracingIfEnabled(settings, { name, instance: INSTANCE, log }))
  let running: Running | undefined
  const ready = () => running?.ready() === true
  metrics.watch('service_ready', {}, () => Number(ready()))
  const server = await serveHealth({
    host: HOST_METRICS, port: PORT_METRICS, ready, metrics, log,
  })
  closers.push(() => closeServer(server))
  try {
    const onStop = (close: () => unknown) => { closers.push(close) }
    running = await start(config, { name, log, metrics, fatal, onStop })
    if (running.stop !== undefined) closers.push(running.stop)
    log.info('started')
  } catch (error) {
    fatal(error)
  }
}

type TracingSettings = Pick<Static<TObject<typeof processConfig>>,
  'OTEL_EXPORTER_OTLP_ENDPOINT' | 'OTEL_TRACES_SAMPLER' | 'OTEL_TRACES_SAMPLER_ARG'>

/** Loads the tracing SDK only if an OTLP endpoint is configured. */
async function startTracingIfEnabled (
  settings: TracingSettings,
  process: { readonly name: string, readonly instance: string, readonly log: Log }
): Promise<() => unknown> {
  if (settings.OTEL_EXPORTER_OTLP_ENDPOINT === undefined) return () => {}
  const { startTracing } = await import('./tracing-sdk.ts')
  const { OTEL_TRACES_SAMPLER: sampler, OTEL_TRACES_SAMPLER_ARG: ratio } = settings
  return startTracing({ ...process, sampler, ratio })
}

function configOrExit<F extends TProperties> (
  name: string, schema: TObject<F>
): Static<TObject<F>> {
  try {
    const config = loadConfig(schema, process.env)
    if (!process.argv.includes('--validate')) return config
    process.stdout.write(`${name}: the configuration is valid\n`)
    return process.exit(0)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    process.stderr.write(`${name}: ${error.message}\n`)
    return process.exit(1)
  }
}

/** Closes everything in reverse order; a close function that fails does not stop the others. */
function createStop (log: Log, closers: readonly (() => unknown)[]): (exitCode: number) => void {
  let stopping = false
  const closeAll = async () => {
    for (const close of [...closers].reverse()) {
      try {
        await close()
      } catch (error) {
        log.warn({ err: error }, 'failed to close a dependency')
      }
    }
  }
  return exitCode => {
    if (stopping) process.exit(1)
    stopping = true
    setTimeout(() => process.exit(1), STOP_WITHIN_MS).unref()
    closeAll().finally(() => process.exit(exitCode)).catch(() => {})
  }
}

function handleSignals (stop: (exitCode: number) => void, fatal: (error: unknown) => void): void {
  process.on('SIGTERM', () => stop(0))
  process.on('SIGINT', () => stop(0))
  // A service that was forked with an IPC channel stops with its parent.
  if (process.connected) process.on('disconnect', () => stop(0))
  process.on('unhandledRejection', fatal)
  process.on('uncaughtException', fatal)
}

type HealthOptions = {
  /** Listen address; loopback by default. */
  readonly host?: string
  /** 0 takes a free port. */
  readonly port: number
  readonly ready: () => boolean
  readonly metrics: Metrics
  readonly log: Log
}

/** Serves /healthz (200), /readyz (200, or 503 while the service is not ready) and /metrics. */
export async function serveHealth (
  { host = '127.0.0.1', port, ready, metrics, log }: HealthOptions
): Promise<Server> {
  const answer = async (path: string): Promise<readonly [status: number, text: string]> => {
    if (path === '/healthz') return [200, 'ok\n']
    if (path === '/readyz') return ready() ? [200, 'ready\n'] : [503, 'not ready\n']
    if (path === '/metrics') return [200, await metrics.text()]
    return [404, 'not found\n']
  }
  const server = createServer((request, response) => {
    const path = (request.url ?? '').split('?', 1)[0] ?? ''
    const type = path === '/metrics' ? metrics.contentType : 'text/plain; charset=utf-8'
    answer(path).then(
      ([status, text]) => response.writeHead(status, { 'content-type': type }).end(text),
      error => {
        log.error({ err: error as unknown }, 'failed to collect metrics')
        response.writeHead(500).end()
      })
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(port, host, resolve)
  })
  log.info({ port: (server.address() as AddressInfo).port }, 'health server started')
  return server
}

/** Closes idle connections too, so that a keep-alive scraper does not delay the stop. */
export function closeServer (server: Server): Promise<void> {
  return new Promise(resolve => {
    server.close(() => resolve())
    server.closeAllConnections()
  })
}
