import { setTimeout as sleep } from 'node:timers/promises'
import { Kafka, logLevel, type Admin } from 'kafkajs'
import type { Fault, Scene } from '../fault.ts'
import { openStack, type FaultStack, type StackOptions } from '../stack.ts'

const BROKERS = 3
const RECOVER_WITHIN_MS = 20_000
const SETTLED_WITHIN_MS = 90_000
/** How long the cluster works with one broker less. */
const LOST_FOR_MS = 4_000

/** A stack with three brokers whose partitions are all in sync. */
export async function openCluster (options: StackOptions = {}): Promise<FaultStack> {
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
  const giveUpAt = Date.now() + SETTLED_WITHIN_MS
  for (;;) {
    const open = (await partitionsOf(admin))
      .filter(({ leader, replicas, inSync }) =>
        leader < 0 || replicas.length !== copies || inSync !== copies)
    if (open.length === 0) return
    if (Date.now() > giveUpAt) throw new Error(`${open.length} partitions are out of step`)
    await sleep(200)
  }
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
export async function loseBroker (scene: Scene, name: string): Promise<number> {
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
export async function loseBrokers (scene: Scene) {
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

export const cluster: readonly Fault[] = [{
  name: 'cluster',
  kind: 'cluster',
  about: 'of three brokers leaders move, one is killed and comes back, then another',
  quick: false,
  recoverWithinMs: RECOVER_WITHIN_MS,
  stack: () => openCluster(),
  inject: loseBrokers,
}]
