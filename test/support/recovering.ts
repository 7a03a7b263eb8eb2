import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { tenantOf } from '../../services/accounts/tenant.ts'
import { createClient, type Client } from '../../services/client/client.ts'
import { connectRedis } from '../../services/lib/redis.ts'
import { moneyKeys } from '../../services/money/redis-keys.ts'
import { createDemo, type Demo } from '../../services/workspace/demo.ts'
import { openStack, type FaultStack } from '../faults/stack.ts'
import { eraseNow, hasDataKey } from './erasing.ts'
import { startAll, type RunningServices } from './services.ts'

export { eraseNow, hasDataKey }

/** Nothing here has feeds or webhooks. */
const STAGES = ['ingest', 'normalize', 'lookup', 'verify', 'settle', 'ledger']
const OVERRIDES = { LOOK_EVERY_MS: '200', CHECK_EVERY_MS: '500', SWEEP_EVERY_MS: '500' }

/** A stack of its own whose Redis may be harmed, its services, and an organization. */
export type Recovering = {
  readonly stack: FaultStack
  readonly services: () => RunningServices
  readonly demo: Demo
  /** A further organization. */
  readonly anotherDemo: () => Promise<Demo>
  readonly redis: ReturnType<typeof connectRedis>
  readonly client: () => Client
  readonly clientOf: (apiKey: string) => Client
  readonly tenant: string
  /** An empty folder that is removed at the end. */
  readonly folder: string
  /** Starts the services again after they were stopped. */
  readonly startServices: () => Promise<void>
  /** Takes Redis down, does something to its files, and starts it on what is left of them. */
  readonly restart: (change?: (files: string) => void) => Promise<void>
  /** Resolves when everything moved is in the journal, so Redis has nothing that Kafka lacks. */
  readonly shipped: () => Promise<unknown>
  /** Resolves, when the tenant is let in by the Redis that runs, with the ms that it took. */
  readonly letIn: () => Promise<number>
  /** Ends all of it and removes its folders. */
  readonly close: () => Promise<void>
}

/** Starts all of it. */
export async function startRecovering (): Promise<Recovering> {
  const stack = await openStack()
  const folder = mkdtempSync(`${stack.dataDir}-old-`)
  const start = () => startAll({ env: stack.env, overrides: OVERRIDES, stages: STAGES })
  let services = await start()
  const redis = connectRedis(stack.env['REDIS_STATE_URL'] ?? '')
  const close = async () => {
    redis.disconnect()
    await services.stop()
    await stack.close()
    rmSync(folder, { recursive: true, force: true })
  }
  const demo = await createDemo(stack.env)
  const clientOf = (apiKey: string) => createClient({ baseUrl: services.baseUrl, apiKey })
  const tenant = tenantOf(demo.orgId, 'live')
  const keys = moneyKeys(tenant)
  return {
    stack,
    close,
    services: () => services,
    demo,
    anotherDemo: () => createDemo(stack.env),
    redis,
    client: () => clientOf(demo.keys.live),
    clientOf,
    tenant,
    folder,
    startServices: async () => { services = await start() },
    restart: async change => {
      const part = stack.part('redis-state')
      await part.down()
      change?.(join(stack.dataDir, 'redis-state'))
      await part.up()
    },
    shipped: () => until('an empty outbox', async () => await redis.hlen(keys.outbox) === 0),
    letIn: async () => {
      const since = Date.now()
      await until('a tenant let in', async () => {
        const [run, info] = await Promise.all([redis.hget(keys.gate, 'run'), redis.info('server')])
        return run !== null && info.includes(`run_id:${run}`)
      })
      return Date.now() - since
    },
  }
}

/** Looks again and again until it finds something; a look that fails found nothing. */
export async function until<T> (
  what: string, look: () => Promise<T | undefined | false>, withinMs = 60_000
): Promise<T> {
  const end = Date.now() + withinMs
  for (;;) {
    const found = await look().catch(() => undefined)
    if (found !== undefined && found !== false) return found
    if (Date.now() > end) throw new Error(`in vain: ${what}`)
    await pause(50)
  }
}

/** One that is just being started anew has no process yet. */
export function kill (pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/** Leaves nothing of the files. */
export function emptied (files: string): void {
  rmSync(files, { recursive: true, force: true })
  mkdirSync(files)
}
