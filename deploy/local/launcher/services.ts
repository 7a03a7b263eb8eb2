import { mkdirSync, writeFileSync } from 'node:fs'
import { answersOk, type ProcessSpec } from '../process.ts'
import { supervise, type Supervised } from '../supervise.ts'
import {
  heapArguments, isLedger, PAGE, planProcesses, type Layout, type Planned,
} from './layout.ts'
import { unreadSettings } from './settings.ts'
import type { PortBook } from '../ports.ts'

type Env = Readonly<Record<string, string>>

const root = `${import.meta.dirname}/../../..`
/**
 * The C library keeps memory for each thread otherwise, and ever more of it at the end of what it
 * has the more is used at once: a service gives little back then.
 */
const ARENAS = { MALLOC_ARENA_MAX: '2', MALLOC_TRIM_THRESHOLD_: '262144' }
const LEDGER_ARENAS = { ...ARENAS, MALLOC_ARENA_MAX: '1', MALLOC_MMAP_THRESHOLD_: '65536' }
const GRACE_MS = 25_000

export type ServicesOptions = {
  /** In the order of the pipeline; each is the folder `services/<stage>` with its main.ts. */
  readonly stages: readonly string[]
  /** One process per stage by default. */
  readonly layout?: Layout
  /** Addresses, secrets and other configuration, given to every service as far as it reads it. */
  readonly env: Env
  /** More of it by stage. */
  readonly envByStage?: Readonly<Partial<Record<string, Env>>>
  /** Where logs and pids go. */
  readonly dataDir: string
  readonly ports: PortBook
  /** Hears of every start and end of a service. */
  readonly onChange?: () => void
}

export type RunningService = {
  readonly name: string
  /** Undefined while the service waits to be started again. */
  readonly pid: number | undefined
  readonly restarts: number
  readonly metricsUrl: string
}

export type Services = {
  /** Where the REST interface answers: `http://127.0.0.1:<port>/api/v1`. */
  readonly baseUrl: string
  /** Where the workspace page answers, if it runs: `http://127.0.0.1:<port>`. */
  readonly pageUrl: string
  readonly list: () => readonly RunningService[]
  /**
   * Starts what is missing, stops what is too many, restarts hosts whose stages change, and waits
   * until all are ready. What the layout leaves out is as at the start.
   */
  readonly setLayout: (layout: Layout) => Promise<void>
  /**
   * Ends the processes that run a service, and returns their names; `setLayout` starts them again.
   */
  readonly end: (service: string) => Promise<readonly string[]>
  readonly untilReady: () => Promise<void>
  /** Sends a signal to one instance; it is started again when it ends. */
  readonly kill: (name: string, signal: NodeJS.Signals) => void
  /** SIGTERM to all, SIGKILL after 25 s. */
  readonly stop: () => Promise<void>
}

type Instance = Pick<Planned, 'services'> & {
  readonly supervised: Supervised
  readonly metricsPort: number
}

/** The program of a service, or the host of several. */
function programPath ([service, ...more]: readonly string[]): string {
  return `services/${more.length > 0 ? 'pipeline' : service}/main.ts`
}

/** The addresses of all metrics, kept up to date for the page. */
const targetsFile = ({ dataDir }: ServicesOptions) => `${dataDir}/targets.json`

/** Starts the processes of a layout and waits until every `/readyz` answers 200. */
export async function startServices (options: ServicesOptions): Promise<Services> {
  const running = new Map<string, Instance>()
  const apiPort = await options.ports.port('ingest-1.http')
  const pagePort = await options.ports.port(`${PAGE}-1.http`)
  const services: Services = {
    baseUrl: `http://127.0.0.1:${apiPort}/api/v1`,
    pageUrl: `http://127.0.0.1:${pagePort}`,
    list: () => [...running.values()].map(describe),
    setLayout: async (layout) => {
      await applyLayout(options, running, { ...options.layout, ...layout })
      await services.untilReady()
    },
    end: service => endInstances(running, (_name, { services }) => services.includes(service)),
    untilReady: async () => {
      const all = [...running.values()].map(({ supervised }) => supervised)
      for (const supervised of all) supervised.hurry()
      await Promise.all(all.map((supervised) => supervised.untilReady()))
    },
    kill: (name, signal) => {
      const instance = running.get(name)
      if (!instance) throw new Error(`${name} does not run; ${[...running.keys()].join(', ')} do`)
      instance.supervised.kill(signal)
    },
    stop: async () => {
      await endInstances(running, () => true)
    },
  }
  try {
    await services.setLayout({})
  } catch (error) {
    await services.stop()
    throw error
  }
  return services
}

function describe ({ supervised, metricsPort }: Instance): RunningService {
  return {
    name: supervised.spec.name,
    pid: supervised.pid(),
    restarts: supervised.restarts(),
    metricsUrl: `http://127.0.0.1:${metricsPort}/metrics`,
  }
}

/** Returns the names of the instances that it has ended. */
async function endInstances (
  running: Map<string, Instance>, isEnded: (name: string, instance: Instance) => boolean
): Promise<readonly string[]> {
  const ended = [...running].filter(([name, instance]) => isEnded(name, instance))
  await Promise.all(ended.map(async ([name, { supervised }]) => {
    await supervised.stop()
    running.delete(name)
  }))
  return ended.map(([name]) => name)
}

async function applyLayout (
  options: ServicesOptions, running: Map<string, Instance>, layout: Layout
): Promise<void> {
  const wanted = planProcesses(options.stages, layout)
  const idOf = (name: string, services: readonly string[]) => [name, ...services].join()
  const ids = new Set(wanted.map(({ name, services }) => idOf(name, services)))
  await endInstances(running, (name, { services }) => !ids.has(idOf(name, services)))
  for (const planned of wanted) {
    const { name } = planned
    const instance = running.get(name) ?? await startInstance(options, planned)
    // Replaced, so that the list keeps the order of the pipeline.
    running.delete(name)
    running.set(name, instance)
  }
  const targets = [...running.values()].map(instance => describe(instance).metricsUrl)
  mkdirSync(options.dataDir, { recursive: true })
  writeFileSync(targetsFile(options), JSON.stringify(targets))
  options.onChange?.()
}

/** Where a process listens, what the page knows of the others, and what a host hosts. */
async function ownEnv (options: ServicesOptions, { name, services }: Planned): Promise<Env> {
  const pickPort = async (service: string) => {
    const instance = services.length > 1 ? `${service}-1` : name
    return String(await options.ports.port(`${instance}.http`))
  }
  const [isApi, isPage] = [services.includes('ingest'), services.includes(PAGE)]
  return {
    ...isApi && { PORT_HTTP: await pickPort('ingest') },
    ...isPage && {
      [isApi ? 'PORT_PAGE' : 'PORT_HTTP']: await pickPort(PAGE),
      API_URL: `http://127.0.0.1:${await options.ports.port('ingest-1.http')}/api/v1`,
      METRICS_TARGETS_FILE: targetsFile(options),
      PAGE_URL: `http://127.0.0.1:${await pickPort(PAGE)}`,
    },
    ...services.length > 1 && { STAGES: services.join(',') },
  }
}

async function startInstance (
  options: ServicesOptions, planned: Planned
): Promise<Instance> {
  const { name, services } = planned
  const metricsPort = await options.ports.port(`${name}.metrics`)
  const spec: ProcessSpec = {
    name,
    command: process.execPath,
    args: [...heapArguments(options.env, services), programPath(services)],
    cwd: root,
    env: {
      ...isLedger(services) ? LEDGER_ARENAS : ARENAS,
      ...options.env,
      ...Object.assign({}, ...services.map(service => options.envByStage?.[service])),
      ...await unreadSettings(services),
      ...await ownEnv(options, planned),
      INSTANCE: name,
      PORT_METRICS: String(metricsPort),
    },
    dataDir: options.dataDir,
    ready: () => answersOk(`http://127.0.0.1:${metricsPort}/readyz`),
    graceMs: GRACE_MS,
  }
  return { services, metricsPort, supervised: supervise(spec, options.onChange) }
}
