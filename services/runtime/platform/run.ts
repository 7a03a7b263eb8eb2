import { createServer, type Server } from 'node:http'
import type { Static, TObject, TProperties } from 'typebox'
import type { Environment } from './command-environment.ts'
import {
  ConfigError, loadConfig, type processConfig, rootKeys, watchAuthorities,
} from './config.ts'
import { listenAt } from './http-server.ts'
import { createLog, type Log } from './log.ts'
import { createMetrics, type Metrics } from './metrics.ts'
import { startWatchdog } from './watchdog.ts'
import { KEY_CLASSES, PROCESS_KEYS } from '../../topology.ts'

/** The facilities that a process gives to what its services share. */
export type ProcessContext = {
  readonly name: string
  readonly log: Log
  readonly metrics: Metrics
  /** Registers a close function for the stop of the process. They run in reverse order. */
  readonly onStop: (close: () => unknown) => void
  /** Reports an unrecoverable error: stops the service and exits with code 1. */
  readonly fatal: (error: unknown) => void
  /** Whether the process stops because of an unrecoverable error. */
  readonly hasFailed: () => boolean
}

/** The facilities that a process gives to a service. */
export type ServiceContext = ProcessContext & {
  /** Opens a dependency once for all services of the process, with the context of the process. */
  readonly share: <T>(
    name: string, open: (process: ProcessContext) => Promise<T>
  ) => Promise<T>
}

/** A started service; `stop` runs before all functions registered by `onStop`. */
export type Running = { readonly ready: () => boolean, readonly stop?: () => Promise<void> }

type ServiceConfig<F extends TProperties> = TObject<typeof processConfig & F>
type Start<C> = (config: C, context: ServiceContext) => Promise<Running>
type Services<C> = Readonly<Record<string, Start<C>>>

const STOP_WITHIN_MS = 25_000

/** Runs one service in a process of its own, as `runServices` runs several. */
export async function run<F extends TProperties> (
  name: string, schema: ServiceConfig<F>, start: Start<Static<ServiceConfig<F>>>
): Promise<void> {
  await runServices(name, schema, [{ [name]: start }])
}

/**
 * Runs services in this process: configuration, health, start, stop. They start in the given order
 * and open what they `share` once. Those of a group stop at the same time, the last group first.
 * The process is ready when all of them are; a service that fails ends it, and a frozen event loop
 * kills it. SIGTERM, SIGINT or the end of the parent process stop it gracefully; a second signal or
 * 25 s kill it. With `--validate` it only checks the configuration and exits with code 0 or 1.
 */
export async function runServices<F extends TProperties> (
  name: string, schema: ServiceConfig<F>,
  groups: readonly Services<Static<ServiceConfig<F>>>[]
): Promise<void> {
  const names = groups.flatMap(group => Object.keys(group))
  const config = configOrExit(name, schema, names)
  const {
    LOG_LEVEL: level, HOST_METRICS, PORT_METRICS, INSTANCE, ...settings
  } = config as Static<TObject<typeof processConfig>>
  const openLog = (service: string) => createLog(service, { level }).child({ instance: INSTANCE })
  const log = openLog(name)
  const metrics = createMetrics(names)
  const closers: (() => unknown)[] = []
  const stop = createStop(log, closers)
  let hasFailed = false
  const fatal = (error: unknown) => {
    hasFailed = true
    log.fatal({ err: error }, 'service failed, stopping')
    stop(1)
  }
  handleSignals(stop, fatal)
  startWatchdog()
  closers.push(watchAuthorities(log))
  // Stopped last, so that the spans of the other stops are sent too.
  closers.push(await startTracingIfEnabled(settings, { name, instance: INSTANCE, log }))
  const running = new Map<string, Running>()
  const isReady = (service: string) => running.get(service)?.ready() === true
  for (const stage of names) {
    metrics.watch('service_ready', { stage }, () => Number(isReady(stage)))
  }
  const ready = () => names.every(isReady)
  const server = await serveHealth({
    host: HOST_METRICS, port: PORT_METRICS, ready, metrics, log,
  })
  closers.push(() => new Promise<void>(resolve => {
    server.close(() => resolve())
    // Idle connections too, so that a keep-alive scraper does not delay the stop.
    server.closeAllConnections()
  }))
  const onStop = (close: () => unknown) => { closers.push(close) }
  const context = { name, log, metrics, fatal, hasFailed: () => hasFailed, onStop }
  const share = createShare(context)
  try {
    for (const group of groups) {
      await startGroup(group, onStop, async (service, start) => {
        const contextOfService = service === name
          ? context
          : { ...context, name: service, log: openLog(service) }
        const started = await start(config, { ...contextOfService, share })
        running.set(service, started)
        return started
      })
    }
    log.info('started')
  } catch (error) {
    fatal(error)
  }
}

/** Starts services one after another; they stop together, also when one of them cannot start. */
async function startGroup<C> (
  group: Services<C>, onStop: ServiceContext['onStop'],
  startOne: (name: string, start: Start<C>) => Promise<Running>
): Promise<void> {
  const started: Running[] = []
  try {
    for (const [name, start] of Object.entries(group)) started.push(await startOne(name, start))
  } finally {
    onStop(() => Promise.all(started.map(async ({ stop }) => { await stop?.() })))
  }
}

/** Opens each dependency for its first caller; all callers get the same. */
function createShare (process: ProcessContext): ServiceContext['share'] {
  const opened = new Map<string, Promise<unknown>>()
  return <T>(name: string, open: (process: ProcessContext) => Promise<T>) => {
    const resource = opened.get(name) ?? open(process)
    opened.set(name, resource)
    return resource as Promise<T>
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
  name: string, schema: TObject<F>, services: readonly string[]
): Static<TObject<F>> {
  try {
    const config = loadConfig(schema, process.env)
    refuseForeignRootKeys(services, process.env)
    if (!process.argv.includes('--validate')) return config
    process.stdout.write(`${name}: the configuration is valid\n`)
    return process.exit(0)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    process.stderr.write(`${name}: ${error.message}\n`)
    return process.exit(1)
  }
}

/**
 * Refuses root keys that no service of the process needs, so that a process that is taken over has
 * only those of its classes. An empty variable counts as missing.
 * @throws ConfigError that names each such setting.
 */
function refuseForeignRootKeys (services: readonly string[], env: Environment): void {
  const needed = Object.entries(PROCESS_KEYS)
    .flatMap(([name, classes]) => services.includes(name) ? classes : [])
  const foreign = KEY_CLASSES.filter(keyClass => !needed.includes(keyClass))
  const need = `${services.join(' and ')} ${services.length === 1 ? 'needs' : 'need'}`
  const faults = foreign.flatMap(keyClass => rootKeys[keyClass]
    .filter(setting => (env[setting]?.trim() ?? '') !== '')
    .map(setting => `${setting} is set, but ${need} no root keys of ${keyClass}: remove it from ` +
      'the environment of this process'))
  if (faults.length > 0) throw new ConfigError(faults)
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
  readonly host: string
  /** 0 takes a free port. */
  readonly port: number
  readonly ready: () => boolean
  readonly metrics: Metrics
  readonly log: Log
}

/** Serves /healthz (200), /readyz (200, or 503 while the service is not ready) and /metrics. */
async function serveHealth (
  { host, port, ready, metrics, log }: HealthOptions
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
  log.info({ port: await listenAt(server, { host, port }, 'PORT_METRICS') },
    'health server started')
  return server
}
