import { rmSync } from 'node:fs'
import type { Cluster } from 'ioredis'
import { kafkaPart } from '../kafka/own-broker.ts'
import { openPortBook } from '../../../deploy/local/ports.ts'
import { provision } from '../../../deploy/provision.ts'
import { tenantOf } from '../../../services/accounts/tenant.ts'
import { moneyKeys } from '../../../services/money/redis-keys.ts'
import { createOutbox } from '../../../services/money/wallet.ts'
import { homeOf } from '../../../services/runtime/platform/cells.ts'
import { createDemo, type Demo } from '../../../services/admin/demo.ts'
import { createPart } from '../stacks/processes.ts'
import { createDatabase } from '../clickhouse/database.ts'
import { startRedisCluster, type RedisCluster } from './cluster.ts'
import { RECOVERING_STAGES, until } from '../recovery/recovering.ts'
import { startAlone, type RunningServices } from '../stacks/services.ts'
import { testStack } from '../stacks/stack.ts'
import { closeAfterAll } from '../close-after-all.ts'
import { newFolder } from '../folder.ts'

const OVERRIDES = {
  LEADER_POLL_MS: '100',
  CHECK_EVERY_MS: '500',
  REAP_EVERY_MS: '500',
  ORPHAN_AGE_MS: '1000',
  LEADER_LEASE_MS: '2000',
  COPY_AFTER_MS: '100',
}
/** Each write is on disk before its answer, as in production. */
const DURABLE = ['--appendonly', 'yes', '--appendfsync', 'always']

/** An organization and where it is. */
export type Resident = Demo & { readonly tenant: string, readonly wallet: string }

export type CellsEnvironment = {
  readonly env: Record<string, string>
  readonly servers: RedisCluster
  readonly redis: Cluster
  readonly services: RunningServices
  readonly residents: readonly Resident[]
  /** The port of the server of a key. */
  readonly portOf: (key: string) => number
  /** Resolves when everything that was moved is in the journal. */
  readonly shipped: () => Promise<unknown>
}

/**
 * Services on a state of three servers, with a journal of their own and the other parts of the
 * stack of this worker, and two organizations or more on each server; all of it ends with the test
 * file.
 */
export async function startCells (): Promise<CellsEnvironment> {
  const dataDir = newFolder('verification-jobs-cells-')
  closeAfterAll({ stop: () => rmSync(dataDir, { recursive: true, force: true }) })
  const kafka = await kafkaPart({ dataDir, ports: openPortBook(dataDir), say: () => {} })
  const part = createPart(kafka.spec)
  closeAfterAll({ stop: part.down })
  const [servers] = await Promise.all([startRedisCluster(DURABLE), part.up()])
  closeAfterAll(servers)
  const database = await createDatabase(testStack().env)
  closeAfterAll({ stop: database.drop })
  const env = { ...database.env, KAFKA_BROKERS: kafka.brokers, REDIS_STATE_URL: servers.url }
  await provision(env)
  const { servicesDir } = testStack()
  const services = closeAfterAll(await startAlone({
    env, overrides: OVERRIDES, stages: RECOVERING_STAGES, servicesDir,
  }))
  const redis = await servers.connect()
  const portOf = (key: string) => Number(homeOf(redis, key).split(':').at(-1))
  const residents = await createResidents(env, servers.ports, portOf)
  const outbox = createOutbox(redis)
  const shipped = () => until('empty outboxes', async () =>
    (await outbox.tenantsWithPending()).length === 0)
  return { env, servers, redis, services, residents, portOf, shipped }
}

const PER_SERVER = 2

async function createResidents (
  env: Record<string, string>, ports: readonly number[], portOf: CellsEnvironment['portOf']
): Promise<readonly Resident[]> {
  const residents: Resident[] = []
  const isShort = (port: number) =>
    residents.filter(({ wallet }) => portOf(wallet) === port).length < PER_SERVER
  while (ports.some(isShort)) {
    const demo = await createDemo(env)
    const tenant = tenantOf(demo.orgId, 'live')
    residents.push({ ...demo, tenant, wallet: moneyKeys(tenant).wallet })
  }
  return residents
}
