import type { Cluster } from 'ioredis'
import { type Admin, Kafka, logLevel } from 'kafkajs'
import { setTimeout as sleep } from 'node:timers/promises'
import { provision } from '../../../deploy/provision.ts'
import { tenantOf } from '../../../services/accounts/tenant.ts'
import { moneyKeys } from '../../../services/money/redis-keys.ts'
import { withAdmin } from '../../../services/runtime/kafka/admin.ts'
import { formatAddress, findHome, listMasters } from '../../../services/runtime/platform/redis.ts'
import { retry } from '../../../services/runtime/platform/retry.ts'
import { STAGES } from '../../../services/topology.ts'
import type { Fault, Injected, Scene } from '../fault.ts'
import { rolling, scaleOf } from './processes.ts'
import { type FaultStack, openStack, type StackOptions } from '../stack.ts'
import type { RedisCluster } from '../../support/redis/cluster.ts'
import { poll } from '../poll.ts'

const BROKERS = 3
const SETTLED_WITHIN_MS = 90_000
/** How long the cluster works with one broker less. */
const LOST_FOR_MS = 4_000

/** A stack with three brokers whose partitions are all in sync. */
async function openCluster (options: StackOptions = {}): Promise<FaultStack> {
  const stack = await openStack({ ...options, brokers: BROKERS })
  // Topics are there before all their leaders are.
  await onBrokers(stack.addresses.KAFKA_BROKERS, admin => untilInSync(admin, BROKERS))
  return stack
}

type Partition = {
  readonly topic: string
  readonly partition: number
  readonly leader: number
  readonly replicas: readonly number[]
  readonly inSync: number
}

async function partitionsOf (admin: Admin): Promise<readonly Partition[]> {
  const { topics } = await admin.fetchTopicMetadata()
  return topics.flatMap(({ name, partitions }) =>
    partitions.map(({ partitionId, leader, replicas, isr }) =>
      ({ topic: name, partition: partitionId, leader, replicas, inSync: isr.length })))
}

const adminOf = ({ environment: { stack } }: Scene, work: (admin: Admin) => Promise<void>) =>
  onBrokers(stack.addresses.KAFKA_BROKERS, work)

async function onBrokers (addresses: string, work: (admin: Admin) => Promise<void>) {
  const brokers = addresses.split(',')
  const admin = new Kafka({ brokers, logLevel: logLevel.NOTHING }).admin()
  await admin.connect()
  await work(admin).finally(() => admin.disconnect())
}

/** Waits until every partition has a leader and this many in-sync replicas. */
async function untilInSync (admin: Admin, copies: number): Promise<void> {
  const areInSync = await poll(async () =>
    (await partitionsOf(admin)).every(({ leader, replicas, inSync }) =>
      leader >= 0 && replicas.length === copies && inSync === copies) || undefined,
  SETTLED_WITHIN_MS, 200)
  if (!areInSync) throw new Error(`partitions are without leader or ${copies} copies in sync`)
}

async function reassign (
  admin: Admin, partitions: readonly Partition[],
  replicasOf: (partition: Partition) => readonly number[]
): Promise<void> {
  const byTopic = Map.groupBy(partitions, ({ topic }) => topic)
  await admin.alterPartitionReassignments({
    topics: [...byTopic].map(([topic, some]) => ({
      topic,
      partitionAssignment: some.map(one =>
        ({ partition: one.partition, replicas: [...replicasOf(one)] })),
    })),
  })
}

/** Takes each partition from its leader, and gives the copy back afterwards. */
async function moveLeaders (scene: Scene): Promise<number> {
  let moved = 0
  await adminOf(scene, async admin => {
    const before = await partitionsOf(admin)
    await reassign(admin, before, ({ leader, replicas }) => replicas.filter(it => it !== leader))
    await untilInSync(admin, BROKERS - 1)
    const leaders = new Map((await partitionsOf(admin))
      .map(({ topic, partition, leader }) => [`${topic}/${partition}`, leader]))
    moved = before.filter(({ topic, partition, leader }) =>
      leaders.get(`${topic}/${partition}`) !== leader).length
    await reassign(admin, before, ({ leader, replicas }) =>
      [...replicas.filter(it => it !== leader), leader])
    await untilInSync(admin, BROKERS)
  })
  return moved
}

/** Kills a broker, leaves it away for a while, and waits until it has all its copies again. */
async function loseBroker (scene: Scene, name: string): Promise<number> {
  const { environment, load, say } = scene
  const part = environment.stack.part(name)
  const atMs = Date.now()
  await part.down()
  const ended = await load.nextEnd(atMs, 60_000) ?? Infinity
  say(`${name} is gone; a new job has ended after ${ended - atMs} ms`)
  await sleep(LOST_FOR_MS)
  await part.up()
  await adminOf(scene, admin => untilInSync(admin, BROKERS))
  say(`${name} has all its copies again ${Date.now() - atMs} ms after it was killed`)
  return ended - atMs
}

/** The first one is first in the list of clients; the second crashes when it is back. */
async function loseBrokers (scene: Scene) {
  const { load, say } = scene
  await load.untilEnded(2)
  const movedAt = Date.now()
  const moved = await moveLeaders(scene)
  say(`${moved} partitions have another leader`)
  const ended = await load.nextEnd(movedAt, 60_000) ?? Infinity
  const recoveryMs = [ended - movedAt]
  for (const name of ['kafka', 'kafka-2']) recoveryMs.push(await loseBroker(scene, name))
  await load.untilEnded(2)
  const note = `${moved} leaders moved, 2 of ${BROKERS} brokers killed one after the other`
  return { injected: moved + 2, recoveryMs, note }
}

const BEFORE = 4
const AFTER = 8
const TOPICS = ['rows.submitted.small', 'rows.normalized.small', 'rows.completed.small'] as const
const USED_WITHIN_MS = 60_000

/** Whether each topic has a message in a partition that is new. */
async function areUsed (brokers: readonly string[]): Promise<boolean> {
  return await withAdmin({ brokers }, async admin => {
    const offsets = await Promise.all(TOPICS.map(topic => admin.fetchTopicOffsets(topic)))
    return offsets.every(partitions => partitions.some(({ partition, high }) =>
      partition >= BEFORE && Number(high) > 0))
  })
}

/** A broker may not know yet that it leads a new partition. */
const isRetriable = (error: unknown) => (error as { retriable?: unknown }).retriable === true

/** No request may notice it, and the new partitions must be used soon. */
async function growPartitions ({ environment: { stack }, load, log, say }: Scene) {
  await load.untilEnded(2)
  const rejected = () => log.answers.filter(({ status }) => status === 503).length
  const before = rejected()
  const grownAt = Date.now()
  await provision({ ...stack.env, TOPIC_PARTITIONS: String(AFTER) })
  const brokers = stack.addresses.KAFKA_BROKERS.split(',')
  const isUsed = await poll(async () =>
    await retry(20, () => areUsed(brokers), { when: isRetriable, maxMs: 500 }) || undefined,
  USED_WITHIN_MS, 200)
  say(`new partitions have messages ${Date.now() - grownAt} ms after they were added`)
  await load.untilEnded(10)
  const breaches = [
    ...isUsed === true ? [] : ['a topic has no message in any new partition'],
    ...rejected() === before ? [] : [`${rejected() - before} requests were answered with 503`],
  ]
  return { injected: AFTER - BEFORE, breaches, note: `from ${BEFORE} to ${AFTER} partitions` }
}

const NEXT_END_WITHIN_MS = 120_000

function cellsOf ({ environment: { stack: { cells } } }: Scene): RedisCluster {
  if (cells === undefined) throw new Error('the state of this stack is one Redis')
  return cells
}

const portOf = (address: string) => Number(address.split(':').at(-1))

/** The address of the server that has the wallet of the load. */
async function homeOfLoad ({ orgId }: Scene, redis: Cluster): Promise<string> {
  await listMasters(redis)
  return findHome(redis, moneyKeys(tenantOf(orgId, 'live')).wallet)
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
  const to = (await listMasters(redis)).map(formatAddress).find(address => address !== from) ?? ''
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
  const areReplicated = await poll(async () => {
    const answers = (await listMasters(redis)).map(node => node.info('replication'))
    const replicated = (await Promise.allSettled(answers))
      .filter(answer => answer.status === 'fulfilled' && answer.value.includes('state=online'))
    return replicated.length === 3 || undefined
  }, NEXT_END_WITHIN_MS, 100)
  if (!areReplicated) throw new Error('a master has no replica')
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
export const clusters: readonly Fault[] = [{
  name: 'cluster-fleet',
  kind: 'cluster',
  about: 'three brokers, three cells with a replica each, two of every service: a broker and a ' +
    'cell are lost, partitions grow, a tenant moves, then every service is restarted',
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
  recoverWithinMs: 60_000,
  stack: () => openCluster({ managed: true }),
  inject: failOver,
}]
