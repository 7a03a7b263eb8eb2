import { mkdirSync, writeFileSync } from 'node:fs'
import { STAGES } from '../../../services/topology.ts'
import { answersOk } from '../process.ts'
import { supervise } from '../supervise.ts'
import { instancesOf } from './scale.ts'
import type { PortBook } from '../ports.ts'
import type { ProcessSpec } from '../process.ts'
import type { Supervised } from '../supervise.ts'
import type { Scale } from './scale.ts'

type Env = Readonly<Record<string, string>>

const root = `${import.meta.dirname}/../../..`
const READY_WITHIN_MS = 60_000
/** Room for several jobs of the largest size. */
const HEAP_LIMIT = '--max-old-space-size=768'
/**
 * What a chunk needs is short-lived: room for one of them spares copies of it. Other services need
 * the cores on which several threads of one would collect at once. A heap may grow by 80 % before a
 * major collection: with the default of V8, about 50, a large job takes 13 % longer.
 */
const COLLECTION = [
  '--min-semi-space-size=8', '--max-semi-space-size=8', '--no-parallel-scavenge',
  '--heap-growing-percent=80',
]
/**
 * The C library keeps memory for each thread otherwise, and ever more of it at the end of what it
 * has the more is used at once: a service gives little back then.
 */
const ARENAS = { MALLOC_ARENA_MAX: '2', MALLOC_TRIM_THRESHOLD_: '262144' }
/** Where compiled programs are kept: the next start takes half the time and less memory. */
const COMPILED = `${root}/node_modules/.cache/compiled`
const GRACE_MS = 25_000

export type ServicesOptions = {
  /** In the order of the pipeline; each is the folder `services/<stage>` with its main.ts. */
  readonly stages: readonly string[]
  readonly scale?: Scale
  /** Addresses, secrets and other configuration, given to every service. */
  readonly env: Env
  /** More of it by stage. */
  readonly envOf?: Readonly<Partial<Record<string, Env>>>
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
  /** Starts what is missing, stops what is too many, and waits until all are ready. */
  readonly setScale: (scale: Scale) => Promise<void>
  readonly untilReady: () => Promise<void>
  /** Sends a signal to one instance; it is started again when it ends. */
  readonly kill: (name: string, signal: NodeJS.Signals) => void
  /** SIGTERM to all, SIGKILL after 25 s. */
  readonly stop: () => Promise<void>
}

type Instance = { readonly supervised: Supervised, readonly metricsPort: number }

/** The workspace page, a service beside the stages. */
export const PAGE = 'page'

/** All that a local installation runs. */
export const SERVICES: readonly string[] = [...STAGES, PAGE]

/** Where the program of a stage is, or that of the page. */
const programOf = (stage: string): string =>
  stage === PAGE ? 'services/workspace/page/main.ts' : `services/${stage}/main.ts`

/** The addresses of all metrics, kept up to date for the page. */
const targetsFile = ({ dataDir }: Pick<ServicesOptions, 'dataDir'>) => `${dataDir}/targets.json`

/** Starts one process a service instance and waits until every `/readyz` answers 200. */
export async function startServices (options: ServicesOptions): Promise<Services> {
  const running = new Map<string, Instance>()
  const apiPort = await options.ports.port('ingest-1.http')
  const pagePort = await options.ports.port(`${PAGE}-1.http`)
  const services: Services = {
    baseUrl: `http://127.0.0.1:${apiPort}/api/v1`,
    pageUrl: `http://127.0.0.1:${pagePort}`,
    list: () => [...running.values()].map(describe),
    setScale: async (scale) => {
      await applyScale(options, running, scale)
      await services.untilReady()
    },
    untilReady: async () => {
      const all = [...running.values()].map(({ supervised }) => supervised)
      for (const supervised of all) supervised.hurry()
      await Promise.all(all.map((supervised) => supervised.untilReady(READY_WITHIN_MS)))
    },
    kill: (name, signal) => {
      const instance = running.get(name)
      if (!instance) throw new Error(`${name} does not run; ${[...running.keys()].join(', ')} do`)
      instance.supervised.kill(signal)
    },
    stop: async () => {
      await Promise.all([...running.values()].map(({ supervised }) => supervised.stop()))
      running.clear()
    },
  }
  try {
    await services.setScale(options.scale ?? {})
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

async function applyScale (
  options: ServicesOptions, running: Map<string, Instance>, scale: Scale
): Promise<void> {
  const wanted = instancesOf(options.stages, scale)
  const names = new Set(wanted.map(({ name }) => name))
  const surplus = [...running].filter(([name]) => !names.has(name))
  await Promise.all(surplus.map(async ([name, { supervised }]) => {
    await supervised.stop()
    running.delete(name)
  }))
  for (const { stage, name } of wanted) {
    const instance = running.get(name) ?? await startInstance(options, stage, name)
    // Replaced, so that the list keeps the order of the pipeline.
    running.delete(name)
    running.set(name, instance)
  }
  const targets = [...running.values()].map(one => describe(one).metricsUrl)
  mkdirSync(options.dataDir, { recursive: true })
  writeFileSync(targetsFile(options), JSON.stringify(targets))
  options.onChange?.()
}

/** A limit in NODE_OPTIONS counts; Node would prefer the argument. */
function heapArguments (env: Env): readonly string[] {
  const isSet = env.NODE_OPTIONS?.includes('--max-old-space-size') === true
  return isSet ? COLLECTION : [HEAP_LIMIT, ...COLLECTION]
}

/** Where an instance listens, and what the page knows of the others. */
async function httpOf (options: ServicesOptions, stage: string, name: string): Promise<Env> {
  if (stage !== 'ingest' && stage !== PAGE) return {}
  const port = { PORT_HTTP: String(await options.ports.port(`${name}.http`)) }
  if (stage === 'ingest') return port
  return {
    ...port,
    API_URL: `http://127.0.0.1:${await options.ports.port('ingest-1.http')}/api/v1`,
    METRICS_TARGETS_FILE: targetsFile(options),
  }
}

async function startInstance (
  options: ServicesOptions, stage: string, name: string
): Promise<Instance> {
  const metricsPort = await options.ports.port(`${name}.metrics`)
  const http = await httpOf(options, stage, name)
  const spec: ProcessSpec = {
    name,
    command: process.execPath,
    args: [...heapArguments(options.env), programOf(stage)],
    cwd: root,
    env: {
      NODE_COMPILE_CACHE: COMPILED,
      ...ARENAS,
      ...options.env,
      ...options.envOf?.[stage],
      ...http,
      INSTANCE: name,
      PORT_METRICS: String(metricsPort),
    },
    dataDir: options.dataDir,
    ready: () => answersOk(`http://127.0.0.1:${metricsPort}/readyz`),
    graceMs: GRACE_MS,
  }
  return { metricsPort, supervised: supervise(spec, options.onChange) }
}
