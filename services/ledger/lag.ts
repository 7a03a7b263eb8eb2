import { Kafka, logLevel, type Admin } from 'kafkajs'
import { kafkaOptionsOf, type KafkaConnection } from '../lib/kafka/connection.ts'
import type { Log } from '../lib/log.ts'
import type { Metrics } from '../lib/metrics.ts'
import { subscriptionsOf } from '../lib/topics.ts'
import { topology, type StageName } from '../topology.ts'
import { createReading } from './reading.ts'

/** How far a group is in one partition, in messages. */
export type Place = {
  readonly stage: StageName
  readonly group: string
  readonly topic: string
  readonly partition: number
  readonly offset: number
  readonly lag: number
}

/** What is asked of the brokers. */
export type Offsets = Pick<Admin, 'fetchOffsets' | 'fetchTopicOffsets'>

const groups = (Object.keys(topology.stages) as StageName[])
  .flatMap(stage => subscriptionsOf(stage).map(subscription => ({ stage, ...subscription })))

/**
 * Where every group of the topology stands; those of partners' topics are left out, as names of
 * partners belong into no metric. A group that never committed has all before it.
 */
export async function placesOf (offsets: Offsets): Promise<readonly Place[]> {
  const topics = [...new Set(groups.flatMap(group => group.topics))]
  const bounds = new Map(await Promise.all(topics.map(async topic =>
    [topic, await offsets.fetchTopicOffsets(topic)] as const)))
  const places = await Promise.all(groups.map(async ({ stage, group, topics }) => {
    const committed = await offsets.fetchOffsets({ groupId: group, topics: [...topics] })
    return committed.flatMap(({ topic, partitions }) => partitions.map(({ partition, offset }) => {
      const bound = bounds.get(topic)?.find(one => one.partition === partition)
      const [low, high] = [Number(bound?.low ?? 0), Number(bound?.high ?? 0)]
      const next = Math.max(Number(offset), low)
      return { stage, group, topic, partition, offset: next, lag: Math.max(0, high - next) }
    }))
  }))
  return places.flat()
}

type LagParts = {
  readonly connection: KafkaConnection
  readonly clientId: string
  readonly metrics: Pick<Metrics, 'watchAll'>
  readonly log: Pick<Log, 'warn'>
}

/**
 * Tells metrics how far each group is, by asking the brokers when metrics are read: a stage of
 * which no process lives could not tell it. Every ledger tells the same.
 */
export function watchLag ({ connection, clientId, metrics, log }: LagParts): {
  readonly stop: () => Promise<void>
} {
  const administrator = createAdministrator(connection, clientId)
  const read = createReading(() => administrator.use(placesOf), { what: 'the lag of groups', log })
  const watch = (name: 'consumer_lag_messages' | 'consumer_offset', of: 'lag' | 'offset') =>
    metrics.watchAll(name, async () => (await read()).map(place => ({
      labels: {
        stage: place.stage,
        group: place.group,
        topic: place.topic,
        partition: String(place.partition),
      },
      value: place[of],
    })))
  watch('consumer_lag_messages', 'lag')
  watch('consumer_offset', 'offset')
  return { stop: administrator.close }
}

/** Made when it is first needed and kept, as a new one costs more than all it is asked. */
function createAdministrator (connection: KafkaConnection, clientId: string) {
  let open: Promise<Admin> | undefined
  const connect = async () => {
    const kafka = new Kafka({
      ...kafkaOptionsOf(connection),
      clientId,
      logLevel: logLevel.NOTHING,
      retry: { retries: 2 },
    })
    const admin = kafka.admin()
    await admin.connect()
    return admin
  }
  const close = async () => {
    const closing = open
    open = undefined
    await closing?.then(admin => admin.disconnect()).catch(() => {})
  }
  const use = async <T>(work: (admin: Admin) => Promise<T>): Promise<T> => {
    open ??= connect()
    try {
      return await work(await open)
    } catch (error) {
      await close()
      throw error
    }
  }
  return { use, close }
}
