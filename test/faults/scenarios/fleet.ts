import { setTimeout as sleep } from 'node:timers/promises'
import type { Cluster } from 'ioredis'
import { tenantOf } from '../../../services/accounts/tenant.ts'
import { moneyKeys } from '../../../services/money/redis-keys.ts'
import { addressOf, homeOf, mastersOf } from '../../../services/runtime/platform/redis.ts'
import { STAGES } from '../../../services/topology.ts'
import type { RedisCluster } from '../../support/redis/cluster.ts'
import type { Fault, Injected, Scene } from '../fault.ts'
import { loseBroker, loseBrokers, openCluster } from './cluster.ts'
import { growPartitions } from './partitions.ts'
import { rolling, scaleOf } from './rolling.ts'

const NEXT_END_WITHIN_MS = 120_000

function cellsOf ({ environment: { stack: { cells } } }: Scene): RedisCluster {
  if (cells === undefined) throw new Error('the state of this stack is one Redis')
  return cells
}

const portOf = (address: string) => Number(address.split(':').at(-1))

/** The address of the server that has the wallet of the load. */
async function homeOfLoad ({ orgId }: Scene, redis: Cluster): Promise<string> {
  await mastersOf(redis)
  return homeOf(redis, moneyKeys(tenantOf(orgId, 'live')).wallet)
}

/**
 * Kills the master that has the tenant of the load. Its replica takes over, perhaps without the
 * last acknowledged writes, which ledger restores from the journal. Resolves with the time until a
 * job ended again.
 */
async function loseCell (scene: Scene, redis: Cluster): Promise<number> {
  const { load, say } = scene
  const address = await homeOfLoad(scene, redis)
  const atMs = Date.now()
  const start = await cellsOf(scene).killNode(portOf(address))
  const ended = await load.nextEnd(atMs, NEXT_END_WITHIN_MS) ?? Infinity
  say(`the cell of the load is gone; a new job has ended after ${ended - atMs} ms`)
  await start()
  return ended - atMs
}

/** Moves the tenant of the load to another master. */
async function moveTenant (scene: Scene, redis: Cluster): Promise<void> {
  const from = await homeOfLoad(scene, redis)
  const to = (await mastersOf(redis)).map(addressOf).find(address => address !== from) ?? ''
  const { wallet } = moneyKeys(tenantOf(scene.orgId, 'live'))
  await cellsOf(scene).moveSlot(wallet, { from: portOf(from), to: portOf(to) })
  if (await homeOfLoad(scene, redis) !== to) throw new Error(`the tenant is not at ${to}`)
  scene.say(`the tenant of the load moved from ${from} to ${to}`)
}

/** One after another, while small jobs run; then everything is restarted, under large ones too. */
async function inject (scene: Scene): Promise<Injected> {
  const { load } = scene
  const redis = await cellsOf(scene).connect()
  await load.untilEnded(2)
  const recoveryMs = [await loseBroker(scene, 'kafka-2'), await loseCell(scene, redis)]
  await load.untilEnded(5)
  const grown = await growPartitions(scene)
  await moveTenant(scene, redis)
  await load.untilEnded(5)
  const restarted = await rolling.inject(scene)
  return {
    injected: 3 + grown.injected + restarted.injected,
    recoveryMs: [...recoveryMs, ...restarted.recoveryMs ?? []],
    breaches: [...grown.breaches, ...restarted.breaches ?? []],
    note: `a broker and a cell lost, partitions ${grown.note}, a tenant moved; then ` +
      `${restarted.note}`,
  }
}

/** Waits until each master has a replica that has all it acknowledged. */
async function untilReplicated (redis: Cluster): Promise<void> {
  for (const giveUpAt = Date.now() + NEXT_END_WITHIN_MS; ; await sleep(100)) {
    const answers = (await mastersOf(redis)).map(node => node.info('replication'))
    const replicated = (await Promise.allSettled(answers))
      .filter(answer => answer.status === 'fulfilled' && answer.value.includes('state=online'))
    if (replicated.length === 3) return
    if (Date.now() > giveUpAt) throw new Error('a master has no replica')
  }
}

/** Brokers and cells of services that others run fail over, one after another. */
async function failOver (scene: Scene): Promise<Injected> {
  const { load, full } = scene
  const redis = await cellsOf(scene).connect()
  const brokers = await loseBrokers(scene)
  const recoveryMs = [...brokers.recoveryMs]
  for (let round = 0; round < (full ? 2 : 1); round++) {
    await untilReplicated(redis)
    recoveryMs.push(await loseCell(scene, redis))
    await load.untilEnded(3)
  }
  const cells = recoveryMs.length - brokers.recoveryMs.length
  return {
    injected: brokers.injected + cells,
    recoveryMs,
    note: `${brokers.note}; ${cells} cells lost that have no file`,
  }
}

/** What a fleet meets in a year, within minutes. */
export const fleet: readonly Fault[] = [{
  name: 'cluster-fleet',
  kind: 'cluster',
  about: 'three brokers, three cells with a replica each, two of every service: a broker and a ' +
    'cell are lost, partitions grow, a tenant moves, then every service is restarted',
  quick: false,
  recoverWithinMs: 60_000,
  load: { bulkShare: 0 },
  stack: () => openCluster({ cells: true }),
  prepare: async () => ({ env: { METADATA_MAX_AGE_MS: '2000' }, scale: scaleOf(STAGES, 2) }),
  inject,
}, {
  name: 'cluster-managed',
  kind: 'cluster',
  about: 'as managed services are: three brokers with a prefix and OAUTHBEARER, three cells with ' +
    'a replica each and no append-only file; leaders move, brokers and cells are lost',
  quick: false,
  recoverWithinMs: 60_000,
  stack: () => openCluster({ managed: true }),
  inject: failOver,
}]
