import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { openPortBook } from '../../deploy/local/ports.ts'
import { answersOk, type ProcessSpec } from '../../deploy/local/process.ts'
import type { Addresses } from '../../deploy/local/source.ts'
import { supervise, type Supervised } from '../../deploy/local/supervise.ts'
import type { Failpoint } from '../../services/runtime/platform/failpoint.ts'
import { STAGES } from '../../services/topology.ts'
import type { FaultStack } from './stack.ts'
import { newFolder } from '../support/folder.ts'
import { withoutForeignRootKeys } from '../support/keys/organization-keys.ts'
import { poll } from './poll.ts'

type Env = Readonly<Record<string, string>>

/** How the services of a fault differ from those of all others. */
export type EnvironmentOptions = {
  /** The addresses that services get in place of those of the stack: those of proxies. */
  readonly links?: Partial<Addresses>
  /** For every service. */
  readonly env?: Env
  /** By stage. */
  readonly envByStage?: Readonly<Record<string, Env>>
  /** Instances by stage, 1 by default. */
  readonly scale?: Readonly<Record<string, number>>
}

/** A stack and the services on it, all of them processes that a fault may kill. */
export type Environment = {
  readonly stack: FaultStack
  readonly services: Services
  /** The folder with the services' logs, while they run. */
  readonly logDir: string
  /**
   * The time until a service instance has finished something again after a fault, in ms since
   * that moment; undefined when it has not within the time. `ingest` is checked by its responses.
   */
  readonly untilWorking: (
    name: string, since: { readonly atMs: number, readonly withinMs: number },
  ) => Promise<number | undefined>
  /** With SIGKILL where the stack ends along with them. */
  readonly stop: (signal?: 'SIGKILL') => Promise<void>
}

/** Short pauses, wide limits and a receiver on this machine: what all faults need. */
export const COMMON: Env = {
  LOG_LEVEL: 'info',
  ACCEPT_WITHIN_MS: '15000',
  LIMIT_POST_BURST: '100000',
  LIMIT_POST_SUSTAINED: '1000000',
  LIMIT_GET: '100000',
  WEBHOOK_ALLOW_HTTP: 'true',
  WEBHOOK_ALLOW_LOOPBACK: 'true',
  WEBHOOK_WAITS_MS: '[200,500,1000]',
  WEBHOOK_TIMEOUT_MS: '1000',
  WEBHOOK_LEASE_MS: '4000',
  LEADER_LEASE_MS: '3000',
  CHECK_LEASE_MS: '3000',
  RETRY_DELAY_MS: '1000',
  RETRY_DEADLINE_MS: '20000',
  PROVIDER_OPEN_MS: '500',
  FEED_BATCH_AGE_MS: '100',
  PARTNERS_POLL_MS: '200',
  REAP_EVERY_MS: '500',
  ORPHAN_AGE_MS: '1000',
}

/** Starts the services of a stack and waits until all are ready. */
export async function openEnvironment (
  stack: FaultStack, options: EnvironmentOptions = {}
): Promise<Environment> {
  const dataDir = newFolder('verification-jobs-services-')
  const { links, env, envByStage, scale } = options
  const services = createServices({
    env: { ...stack.env, ...COMMON, ...links, ...env },
    envByStage: Object.fromEntries(STAGES.map(stage =>
      [stage, { ...stack.envByStage[stage], ...envByStage?.[stage] }])),
    dataDir,
  })
  const stop: Environment['stop'] = async signal => {
    await services.stop(signal)
    rmSync(dataDir, { recursive: true, force: true })
  }
  try {
    await services.setScale(scale ?? {})
    await services.untilReady()
  } catch (error) {
    await services.stop()
    throw new Error(`the services of ${dataDir} did not start`, { cause: error })
  }
  return {
    stack,
    services,
    logDir: `${dataDir}/logs`,
    untilWorking: (name, since) => untilWorking(services, name, since),
    stop,
  }
}

/** A new process counts its chunks from 0. */
async function untilWorking (
  services: Services, name: string, { atMs, withinMs }: { atMs: number, withinMs: number }
): Promise<number | undefined> {
  return await poll(async () =>
    (await services.metric(name, 'stage_chunks_total') ?? 0) > 0 ? Date.now() - atMs : undefined,
  atMs + withinMs - Date.now(), 50)
}

/** How a service process came to its end. */
export type End = {
  readonly name: string
  readonly how: string
  readonly atMs: number
  /** Stopped or killed by the suite rather than by itself. */
  readonly isExpected: boolean
}

type Fired = { readonly name: string, readonly pid: number, readonly atMs: number }

type Instance = {
  readonly spec: ProcessSpec
  readonly program: Supervised
  readonly metricsUrl: string
  /** Of `ingest` alone. */
  readonly baseUrl: string | undefined
  readonly failpoints: string
  /** Resolves once it has stopped and will not be restarted; SIGTERM by default. */
  readonly stop: (signal?: 'SIGKILL') => Promise<void>
  readonly expect: () => void
}

type Services = ReturnType<typeof createServices>

type ServicesOptions = {
  readonly env: Env
  /** Beyond `env`, by stage. */
  readonly envByStage: Readonly<Record<string, Env>>
  readonly dataDir: string
}

const root = `${import.meta.dirname}/../..`
const HEAP_LIMIT = '--max-old-space-size=768'

function killInstance ({ expect, program }: Instance, signal: NodeJS.Signals): void {
  if (signal !== 'SIGSTOP' && signal !== 'SIGCONT') expect()
  program.kill(signal)
}

/**
 * Service processes, started again by themselves whenever they end, as in production; every end is
 * noted with its reason. A failpoint of any of them can be armed while it runs.
 */
function createServices (options: ServicesOptions) {
  const instances = new Map<string, Instance>()
  const ends: End[] = []
  const ports = openPortBook(options.dataDir)
  const find = (name: string): Instance => {
    const found = instances.get(name)
    if (found === undefined) throw new Error(`${name} does not run`)
    return found
  }
  const setScale = async (scale: Readonly<Record<string, number>>) => {
    await Promise.all(STAGES.map(async stage => {
      const wanted = scale[stage] ?? 1
      for (let number = 1; number <= wanted; number++) {
        const name = `${stage}-${number}`
        if (instances.has(name)) continue
        const spec = await specOf({ stage, name, ports, options })
        instances.set(name, keepRunning(spec, ends))
      }
      const surplus = [...instances.keys()].filter(name =>
        name.startsWith(`${stage}-`) && Number(name.slice(stage.length + 1)) > wanted)
      await Promise.all(surplus.map(async name => {
        await find(name).stop()
        instances.delete(name)
      }))
    }))
  }
  return {
    /** The interface: an address for each instance, whether it just runs or is started again. */
    baseUrls: () => [...instances.values()].flatMap(({ baseUrl }) => baseUrl ?? []),
    names: () => [...instances.keys()],
    /** Since the start, in order. */
    ends: (): readonly End[] => ends,
    pid: (name: string) => find(name).program.pid(),
    /** It is started again when it ends. */
    kill: (name: string, signal: NodeJS.Signals) => killInstance(find(name), signal),
    setScale,
    untilReady: async () => {
      await Promise.all([...instances.values()].map(({ program }) => program.untilReady()))
    },
    isReady: (name: string) => find(name).spec.ready(),
    ...failpointsOf(find),
    metric: (name: string, metric: string) => readMetric(find(name).metricsUrl, metric),
    /** They drain, which takes seconds; with SIGKILL what they do is lost with them. */
    stop: async (signal?: 'SIGKILL') => {
      await Promise.all([...instances.values()].map(({ stop }) => stop(signal)))
      instances.clear()
    },
  }
}

/** Arms failpoints, and reports which have fired. */
function failpointsOf (find: (name: string) => Instance) {
  const firedOf = (name: string): readonly Fired[] => {
    try {
      return readFileSync(`${find(name).failpoints}.fired`, 'utf8').split('\n')
        .filter(line => line !== '').map(line => JSON.parse(line) as Fired)
    } catch {
      return []
    }
  }
  return {
    /** A plan such as `kill@1` at the next passings; '' for none. */
    arm: (name: string, point: Failpoint, plan: string) => {
      writeFileSync(`${find(name).failpoints}.fired`, '')
      writeFileSync(find(name).failpoints, plan === '' ? '' : `${point}:${plan}`)
      if (plan.startsWith('kill')) find(name).expect()
    },
    /** When the point that was armed last fired; undefined when it has not within the time. */
    untilFired: (name: string, withinMs: number) => poll(() => firedOf(name)[0], withinMs),
  }
}

async function specOf (
  { stage, name, ports, options }: {
    readonly stage: string
    readonly name: string
    readonly ports: ReturnType<typeof openPortBook>
    readonly options: ServicesOptions
  }
): Promise<ProcessSpec & Pick<Instance, 'metricsUrl' | 'baseUrl' | 'failpoints'>> {
  const { dataDir } = options
  const port = await ports.port(`${name}.metrics`)
  const httpPort = stage === 'ingest' ? await ports.port(`${name}.http`) : undefined
  const http: Env = httpPort === undefined ? {} : { PORT_HTTP: String(httpPort) }
  mkdirSync(`${dataDir}/failpoints`, { recursive: true })
  const failpoints = `${dataDir}/failpoints/${name}`
  const own = {
    INSTANCE: name,
    PORT_METRICS: String(port),
    FAILPOINTS: `@${failpoints}`,
    ALLOW_FAILPOINTS: 'true',
    // Read by ledger: a fault does not wait minutes for its round.
    ERASE_EVERY_MS: '2000',
  }
  return {
    name,
    command: process.execPath,
    args: [HEAP_LIMIT, `services/${stage}/main.ts`],
    cwd: root,
    env: {
      ...options.env,
      ...options.envByStage[stage],
      ...withoutForeignRootKeys([stage]),
      ...http,
      ...own,
    },
    dataDir,
    ready: () => answersOk(`http://127.0.0.1:${port}/readyz`),
    graceMs: 30_000,
    metricsUrl: `http://127.0.0.1:${port}/metrics`,
    baseUrl: httpPort === undefined ? undefined : `http://127.0.0.1:${httpPort}/api/v1`,
    failpoints,
  }
}

function keepRunning (spec: Awaited<ReturnType<typeof specOf>>, ends: End[]): Instance {
  let isExpected = false
  const program = supervise(spec, how => {
    if (how === undefined) return
    ends.push({ name: spec.name, how, atMs: Date.now(), isExpected })
    isExpected = false
  })
  return {
    spec,
    program,
    metricsUrl: spec.metricsUrl,
    baseUrl: spec.baseUrl,
    failpoints: spec.failpoints,
    expect: () => { isExpected = true },
    stop: async signal => {
      const stopped = program.stop()
      program.kill(signal ?? 'SIGCONT')
      await stopped
    },
  }
}

/** The sum of a metric over its labels; undefined while the process does not answer. */
async function readMetric (url: string, metric: string): Promise<number | undefined> {
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(2_000) })
    return (await answer.text()).split('\n')
      .filter(line => line.startsWith(`${metric}{`) || line.startsWith(`${metric} `))
      .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
  } catch {
    return undefined
  }
}
