import { chmodSync, existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync }
  from 'node:fs'
import { execFileSync } from 'node:child_process'
import type { RunningService } from './services.ts'
import type { ReceiverSettings } from './settings.ts'
import type { Addresses } from '../source.ts'

/** The demonstration organization and how to use it. */
export type Demo = {
  readonly keys: { readonly live: string, readonly test: string }
  readonly webhookSecret: string
  readonly orgId: string
  /** Its partner of bulk feeds; missing in folders of earlier releases. */
  readonly feed?: { readonly partner: string, readonly key: string }
}

/** What `.local/stack.json` says about the running stack. */
export type StackState = Demo & {
  readonly baseUrl: string
  readonly pageUrl: string
  readonly services: readonly { readonly name: string, pid: number, readonly metricsUrl: string }[]
  readonly kafkaBrokers: string
  readonly schemaRegistryUrl: string
  readonly redisStateUrl: string
  readonly redisCacheUrl: string
  readonly clickhouseUrl: string
  readonly webhookAllowHttp: string
  readonly webhookAllowLoopback: string
  readonly supervisorPid: number
}

/** The state file of a stack. A service that waits to be started again is left out of it. */
export function stackState (parts: {
  readonly baseUrl: string
  readonly pageUrl: string
  readonly services: readonly RunningService[]
  readonly addresses: Addresses
  readonly receivers: ReceiverSettings
  readonly demo: Demo
  readonly supervisorPid: number
}): StackState {
  return {
    baseUrl: parts.baseUrl,
    pageUrl: parts.pageUrl,
    keys: parts.demo.keys,
    webhookSecret: parts.demo.webhookSecret,
    orgId: parts.demo.orgId,
    ...parts.demo.feed && { feed: parts.demo.feed },
    services: parts.services.flatMap(({ name, pid, metricsUrl }) =>
      pid === undefined ? [] : [{ name, pid, metricsUrl }]),
    kafkaBrokers: parts.addresses.KAFKA_BROKERS,
    schemaRegistryUrl: parts.addresses.SCHEMA_REGISTRY_URL,
    redisStateUrl: parts.addresses.REDIS_STATE_URL,
    redisCacheUrl: parts.addresses.REDIS_CACHE_URL,
    clickhouseUrl: parts.addresses.CLICKHOUSE_URL,
    webhookAllowHttp: parts.receivers.WEBHOOK_ALLOW_HTTP,
    webhookAllowLoopback: parts.receivers.WEBHOOK_ALLOW_LOOPBACK,
    supervisorPid: parts.supervisorPid,
  }
}

/** The demonstration organization of a data folder. */
export const demoFile = (dataDir: string): string => `${dataDir}/demo.json`

/** Names the pid of the supervisor, also before its stack is up. */
export const supervisorFile = (dataDir: string): string => `${dataDir}/supervisor.json`

/** Writes a file that only its owner reads, in one step: a reader sees the old or the new one. */
export function writePrivately (file: string, value: unknown): void {
  writeFileSync(`${file}.new`, `${JSON.stringify(value, null, 2)}\n`, { mode: 0o600 })
  chmodSync(`${file}.new`, 0o600)
  renameSync(`${file}.new`, file)
}

/** The value of a JSON file, or undefined when there is none that can be read. */
export function readJson<T> (file: string): T | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8'))
  } catch {
    return undefined
  }
}

/**
 * Ends programs of the data folder that outlived their supervisor (possible only where setpriv
 * is missing). A pid is believed only while its command still ends with what was started.
 */
export function endLeftovers (dataDir: string): readonly string[] {
  const folder = `${dataDir}/pids`
  if (!existsSync(folder)) return []
  const ended = readdirSync(folder).filter((name) => {
    const [pid, ...rest] = readFileSync(`${folder}/${name}`, 'utf8').split(' ')
    rmSync(`${folder}/${name}`)
    if (!commandOf(Number(pid)).includes(rest.join(' '))) return false
    process.kill(Number(pid), 'SIGKILL')
    return true
  })
  return ended
}

/** The command line of a running process; empty when there is none of that pid. */
export function commandOf (pid: number): string {
  try {
    const args = ['-o', 'args=', '-ww', '-p', String(pid)]
    return execFileSync('ps', args, { stdio: ['ignore', 'pipe', 'ignore'] }).toString().trim()
  } catch {
    return ''
  }
}
