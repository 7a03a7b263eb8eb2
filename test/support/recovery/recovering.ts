import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { kafkaPart } from '../kafka/own-broker.ts'
import { openPortBook } from '../../../deploy/local/ports.ts'
import { redisPart } from '../../../deploy/local/redis.ts'
import { provision } from '../../../deploy/provision.ts'
import { tenantOf } from '../../../services/accounts/tenant.ts'
import { createClient, type ClientOptions } from '../../../services/client/client.ts'
import { openRedis } from '../redis/open-redis.ts'
import { createOutbox } from '../../../services/money/wallet.ts'
import { moneyKeys } from '../../../services/money/redis-keys.ts'
import { createDemo } from '../../../services/admin/demo.ts'
import { createPart, type Part } from '../stacks/processes.ts'
import { createDatabase } from '../clickhouse/database.ts'
import { eventually } from '../eventually.ts'
import { startAlone } from '../stacks/services.ts'
import { testStack } from '../stacks/stack.ts'
import { newFolder } from '../folder.ts'

/** What most tests of recovery need, which have neither feeds nor webhooks. */
export const RECOVERING_STAGES = ['ingest', 'normalize', 'lookup', 'verify', 'settle', 'ledger']
const OVERRIDES = {
  WEBHOOK_ALLOW_HTTP: 'true',
  WEBHOOK_ALLOW_LOOPBACK: 'true',
  LEADER_POLL_MS: '100',
  CHECK_EVERY_MS: '500',
  REAP_EVERY_MS: '500',
  ORPHAN_AGE_MS: '1000',
  LEADER_LEASE_MS: '1000',
}

type Env = Readonly<Record<string, string>>

export type Recovering = Awaited<ReturnType<typeof startRecovering>>

/**
 * A journal and a Redis of its own, which tests may damage, services on them, the other parts of
 * the stack of this worker, and an organization. `settings` are further ones of the services.
 */
export async function startRecovering (
  stages: readonly string[] = RECOVERING_STAGES, settings: Env = {}, apart: readonly string[] = []
) {
  const dataDir = newFolder('verification-jobs-recovering-')
  const closing = [() => rmSync(dataDir, { recursive: true, force: true })] as (() => unknown)[]
  const close = async () => { for (const end of closing.reverse()) await end() }
  try {
    const { env, redisPart: part, end } = await openDeps(dataDir)
    closing.push(end)
    const { servicesDir } = testStack()
    const services = await startAlone({
      env, overrides: { ...OVERRIDES, ...settings }, stages, apart, servicesDir,
    })
    closing.push(services.stop)
    const redis = openRedis(env['REDIS_STATE_URL'] ?? '')
    closing.push(() => redis.disconnect())
    const demo = await createDemo(env)
    const tenant = tenantOf(demo.orgId, 'live')
    const folder = join(dataDir, 'kept')
    mkdirSync(folder)
    return {
      env,
      /** Ends all of it and removes its folders. */
      close,
      services,
      demo,
      /** A further organization. */
      anotherDemo: () => createDemo(env),
      redis,
      client: (options?: Partial<ClientOptions>) =>
        createClient({ baseUrl: services.baseUrl, apiKey: demo.keys.live, ...options }),
      tenant,
      /** An empty folder that is removed at the end. */
      folder,
      /** Takes Redis down, does something to its files, and starts it on what is left of them. */
      restart: async (change?: (files: string) => void) => {
        await part.down()
        change?.(join(dataDir, 'redis-state'))
        await part.up()
      },
      ...waitsOf(redis, tenant),
    }
  } catch (error) {
    await close()
    throw error
  }
}

/**
 * Other files of this worker have written to its journal, and use another Redis. Numbers of the
 * access log are positions in a topic, so another broker needs another table.
 */
async function openDeps (dataDir: string) {
  const common = { dataDir, ports: openPortBook(dataDir), say: () => {} }
  const kafka = await kafkaPart(common)
  const redis = await redisPart({ ...common, role: 'state' })
  const parts = [kafka, redis].map(({ spec }) => createPart(spec))
  const database = await createDatabase(testStack().env)
  const end = async () => {
    await Promise.all([...parts.map(part => part.down()), database.drop()])
  }
  try {
    await Promise.all(parts.map(part => part.up()))
    const env = { ...database.env, KAFKA_BROKERS: kafka.brokers, REDIS_STATE_URL: redis.url }
    await provision(env)
    return { env, redisPart: parts[1] as Part, end }
  } catch (error) {
    await end()
    throw error
  }
}

function waitsOf (redis: ReturnType<typeof openRedis>, tenant: string) {
  const { wallet } = moneyKeys(tenant)
  const outbox = createOutbox(redis)
  return {
    /** Resolves when everything moved is in the journal, so Redis has nothing that Kafka lacks. */
    shipped: () =>
      until('an empty outbox', async () => (await outbox.pending(tenant)).length === 0),
    /** Resolves when the tenant is unlocked for the running Redis. */
    unlocked: () => until('an unlocked tenant', async () => {
      const [run, info] = await Promise.all([redis.hget(wallet, 'run'), redis.info('server')])
      return run !== null && info.includes(`run_id:${run}`)
    }),
  }
}

/** Polls until `find` has a result; a failed poll found nothing. */
export async function until<T> (
  what: string, find: () => Promise<T | undefined | false>
): Promise<T> {
  return await eventually(async () => {
    const found = await find()
    if (found === undefined || found === false) throw new Error(`timed out waiting for ${what}`)
    return found
  })
}

/** A service that is restarting has no process yet. */
export function kill (pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
