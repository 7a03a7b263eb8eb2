import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { STAGES } from '../../../services/topology.ts'
import { openPortBook } from '../../../deploy/local/ports.ts'
import { startServices, type Services } from '../../../deploy/local/launcher/services.ts'
import type { Processes } from '../../../deploy/local/launcher/layout.ts'
import type { Scale } from '../../../deploy/local/launcher/scale.ts'

type Env = Readonly<Record<string, string>>

export type StartOptions = {
  /** What `stackEnv()` gives, and more if wanted. */
  readonly env: Env
  /** As whom the services of each stage sign in on a secure stack. */
  readonly envByStage?: Readonly<Partial<Record<string, Env>>>
  readonly scale?: Scale
  /** Two by default: `ingest`, and one that hosts all other stages. */
  readonly processes?: Processes
  /** Stages with a process of their own, which a test kills, stops or scales. */
  readonly apart?: readonly string[]
  /** More environment for every service, for example short durations. */
  readonly overrides?: Env
  /** All stages of the topology when left out. */
  readonly stages?: readonly string[]
  /** Where the services keep their folder; the system's folder for temporary files by default. */
  readonly servicesDir?: string
}

export type RunningServices = Services & {
  /** The folder with the services' logs, while they run. */
  readonly dataDir: string
  /** The numbers of instances; 1 for a stage that is not named. */
  readonly setScale: (scale: Scale) => Promise<void>
}

/** No test depends on the resolvers of the machine; one about DNS has a server of its own. */
const NO_DNS = { DNS_SERVERS: '' }

/** The services that a worker keeps between its test files. */
type Kept = { readonly key: string, readonly services: RunningServices }
const worker = globalThis as { keptServices?: Kept }

/**
 * Services on the stack of this worker that stay up for the next file that asks for the same
 * options; starting them takes seconds. Others that were kept are stopped first. `stop` leaves
 * them running: a file that changes their scale or pauses a stage puts that back.
 */
export async function sharedServices (options: StartOptions): Promise<RunningServices> {
  const key = JSON.stringify(options)
  if (worker.keptServices?.key !== key) {
    await endSharedServices()
    worker.keptServices = { key, services: await startAll(options) }
  }
  const { services } = worker.keptServices
  await services.untilReady()
  return { ...services, stop: async () => {} }
}

/** Stops the services that are kept, before a file starts others on the same topics. */
export async function endSharedServices (): Promise<void> {
  const kept = worker.keptServices
  delete worker.keptServices
  await kept?.services.stop()
}

/**
 * Starts services of this file alone and waits until all are ready. Services that the worker keeps
 * go on running beside them; `startAlone` stops those first.
 */
export async function startAll (options: StartOptions): Promise<RunningServices> {
  const dataDir = mkdtempSync(`${options.servicesDir ?? tmpdir()}/verification-jobs-services-`)
  const removeFolder = () => rmSync(dataDir, { recursive: true, force: true })
  const stages = options.stages ?? STAGES
  const services = await startServices({
    stages,
    layout: {
      scale: options.scale ?? {},
      processes: options.processes ?? 2,
      apart: options.apart ?? [],
    },
    env: { ...NO_DNS, ...options.env, ...options.overrides },
    envByStage: options.envByStage ?? {},
    dataDir,
    ports: openPortBook(dataDir),
  }).catch((error) => {
    removeFolder()
    throw error
  })
  const stop = async () => {
    await services.stop()
    removeFolder()
  }
  return { ...services, dataDir, stop, setScale: scale => services.setLayout({ scale }) }
}

/** Starts services of this file alone, and no others run on the stack of this worker. */
export async function startAlone (options: StartOptions): Promise<RunningServices> {
  await endSharedServices()
  return await startAll(options)
}
