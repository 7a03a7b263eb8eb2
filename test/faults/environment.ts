import { rmSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Addresses } from '../../deploy/local/source.ts'
import { STAGES } from '../../services/topology.ts'
import { createServices, type Services } from './services.ts'
import type { FaultStack } from './stack.ts'
import { newFolder } from '../support/folder.ts'

type Env = Readonly<Record<string, string>>

/** How the services of a fault differ from those of all others. */
export type EnvironmentOptions = {
  /** The addresses that services get in place of those of the stack: those of proxies. */
  readonly links?: Partial<Addresses>
  /** For every service. */
  readonly env?: Env
  /** By stage. */
  readonly envOf?: Readonly<Record<string, Env>>
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
  const { links, env, envOf, scale } = options
  const services = createServices({
    env: { ...stack.env, ...COMMON, ...links, ...env },
    envOf: Object.fromEntries(STAGES.map(stage =>
      [stage, { ...stack.envOf[stage], ...envOf?.[stage] }])),
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
  while (Date.now() < atMs + withinMs) {
    if ((await services.metric(name, 'stage_chunks_total') ?? 0) > 0) return Date.now() - atMs
    await sleep(50)
  }
  return undefined
}
