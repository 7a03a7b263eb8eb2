import type { Static, TObject, TProperties } from 'typebox'
import { ConfigError, loadConfig, type processConfig } from './config.ts'
import { closeServer, serveHealth } from './health.ts'
import { limitHeapGrowth } from './heap-growth.ts'
import { createLog, type Log } from './log.ts'
import { createMetrics, type Metrics } from './metrics.ts'

/** What a service's parts may use of the process they live in. */
export type ServiceContext = {
  readonly name: string
  readonly log: Log
  readonly metrics: Metrics
  /** Runs when the process stops; the part that was opened last is closed first. */
  readonly onStop: (close: () => unknown) => void
  /** Something that cannot heal happened: stops everything and exits non-zero. */
  readonly fatal: (error: unknown) => void
}

/** A started service; `stop` runs before everything given to `onStop`. */
export type Running = { readonly ready: () => boolean, readonly stop?: () => Promise<void> }

type ServiceConfig<F extends TProperties> = TObject<typeof processConfig & F>

const STOP_WITHIN_MS = 25_000

/**
 * The whole life of a service: configuration, start, health, stop. SIGTERM, SIGINT or the end of
 * the parent stop it in order; a second signal, or 25 s, end it at once. With `--validate` only the
 * configuration is checked, and the exit code tells.
 */
export async function run<F extends TProperties> (
  name: string, schema: ServiceConfig<F>,
  start: (config: Static<ServiceConfig<F>>, context: ServiceContext) => Promise<Running>
): Promise<void> {
  const config = configOrExit(name, schema)
  const {
    LOG_LEVEL, HOST_METRICS, PORT_METRICS, INSTANCE, HEAP_GROWTH_PERCENT, ...settings
  } = config as Static<TObject<typeof processConfig>>
  limitHeapGrowth(HEAP_GROWTH_PERCENT)
  const log = createLog(name, { level: LOG_LEVEL }).child({ instance: INSTANCE })
  const metrics = createMetrics(undefined, { process: name })
  const closers: (() => unknown)[] = []
  const stop = stopper(log, closers)
  const fatal = (error: unknown) => {
    log.fatal({ err: error }, 'cannot go on')
    stop(1)
  }
  listen(stop, fatal)
  // Ended last, so that what is told of the other ends is sent as well.
  closers.push(await traceIfAsked(settings, { name, instance: INSTANCE, log }))
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

/** What makes spans is loaded only when there is somebody to send them to. */
async function traceIfAsked (
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

/** Closes all parts, last opened first; one that fails to close does not keep the others open. */
function stopper (log: Log, closers: readonly (() => unknown)[]): (exitCode: number) => void {
  let stopping = false
  const closeAll = async () => {
    for (const close of [...closers].reverse()) {
      try {
        await close()
      } catch (error) {
        log.warn({ err: error }, 'a part did not close')
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

function listen (stop: (exitCode: number) => void, fatal: (error: unknown) => void): void {
  process.on('SIGTERM', () => stop(0))
  process.on('SIGINT', () => stop(0))
  // A service that was started by another process with a channel ends with it.
  if (process.connected) process.on('disconnect', () => stop(0))
  process.on('unhandledRejection', fatal)
  process.on('uncaughtException', fatal)
}
