import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { execFileSync } from 'node:child_process'
import type { DemoOrganization, DemoPartner } from '../../../services/admin/demo.ts'
import type { RunningService, Services } from './services.ts'
import type { ReceiverSettings } from './settings.ts'
import type { Stack } from '../stack.ts'

/** The demonstration organization and how to use it. */
export type Demo = DemoOrganization & {
  /** Its partner of bulk feeds; missing if its creation was interrupted. */
  readonly feed?: DemoPartner
}

/** What `.local/stack.json` says about the running stack. */
export type StackState = Demo & {
  readonly baseUrl: string
  readonly pageUrl: string
  readonly services: readonly (Omit<RunningService, 'restarts'> & { readonly pid: number })[]
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
export function stackState ({ stack: { addresses }, services, receivers, demo }: {
  readonly stack: Stack
  readonly services: Services
  readonly receivers: ReceiverSettings
  readonly demo: Demo
}): StackState {
  return {
    baseUrl: services.baseUrl,
    pageUrl: services.pageUrl,
    keys: demo.keys,
    webhookSecret: demo.webhookSecret,
    orgId: demo.orgId,
    ...demo.feed && { feed: demo.feed },
    services: services.list().flatMap(({ name, pid, metricsUrl }) =>
      pid === undefined ? [] : [{ name, pid, metricsUrl }]),
    kafkaBrokers: addresses.KAFKA_BROKERS,
    schemaRegistryUrl: addresses.SCHEMA_REGISTRY_URL,
    redisStateUrl: addresses.REDIS_STATE_URL,
    redisCacheUrl: addresses.REDIS_CACHE_URL,
    clickhouseUrl: addresses.CLICKHOUSE_URL,
    webhookAllowHttp: receivers.WEBHOOK_ALLOW_HTTP,
    webhookAllowLoopback: receivers.WEBHOOK_ALLOW_LOOPBACK,
    supervisorPid: process.pid,
  }
}

/** The demonstration organization of a data folder. */
export const demoFile = (dataDir: string): string => `${dataDir}/demo.json`

/** Names the pid of the supervisor, also before its stack is up. */
export const supervisorFile = (dataDir: string): string => `${dataDir}/supervisor.json`

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
    if (!readCommand(Number(pid)).includes(rest.join(' '))) return false
    process.kill(Number(pid), 'SIGKILL')
    return true
  })
  return ended
}

/** The command line of a running process; empty when there is none of that pid. */
export function readCommand (pid: number): string {
  try {
    const args = ['-o', 'args=', '-ww', '-p', String(pid)]
    return execFileSync('ps', args, { stdio: ['ignore', 'pipe', 'ignore'] }).toString().trim()
  } catch {
    return ''
  }
}
