import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { STAGES } from '../../services/topology.ts'
import { openPortBook } from '../../deploy/local/ports.ts'
import { startServices } from '../../deploy/local/launcher/services.ts'
import type { Services } from '../../deploy/local/launcher/services.ts'
import type { Scale } from '../../deploy/local/launcher/scale.ts'

type Env = Readonly<Record<string, string>>

export type StartOptions = {
  /** What `inject('stack')` gives, and more if wanted. */
  readonly env: Env
  readonly scale?: Scale
  /** More environment for every service, for example short durations. */
  readonly overrides?: Env
  /** All stages of the topology when left out. */
  readonly stages?: readonly string[]
}

export type RunningServices = Services & {
  /** The folder with the services' logs, while they run. */
  readonly dataDir: string
}

/** Starts the services on the test stack, each a process, and waits until all are ready. */
export async function startAll (options: StartOptions): Promise<RunningServices> {
  const dataDir = mkdtempSync(`${tmpdir()}/verification-jobs-services-`)
  const removeFolder = () => rmSync(dataDir, { recursive: true, force: true })
  const stages = options.stages ?? STAGES
  const services = await startServices({
    stages,
    scale: options.scale ?? {},
    env: { ...options.env, ...options.overrides },
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
  return { ...services, dataDir, stop }
}
