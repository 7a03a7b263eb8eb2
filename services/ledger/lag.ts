import { Kafka, logLevel, type Admin } from 'kafkajs'
import { kafkaOptionsOf, type KafkaConnection } from '../kafka/connection.ts'
import { lagsOf } from '../kafka/lag.ts'
import type { Log } from '../platform/log.ts'
import type { Metrics } from '../platform/metrics.ts'
import { createCachedReading } from '../platform/cached-reading.ts'

/** A connection to the brokers for what they are asked now and then. */
export type Administrator = ReturnType<typeof createAdministrator>

type LagDeps = {
  readonly administrator: Pick<Administrator, 'use'>
  readonly metrics: Pick<Metrics, 'watchAll'>
  readonly log: Pick<Log, 'warn'>
}

/**
 * Tells metrics how far each group is, by asking the brokers when metrics are read: a stage of
 * which no process lives could not tell it. Every ledger tells the same. The groups of partners'
 * topics are left out, as names of partners belong into no metric.
 */
export function watchLag ({ administrator, metrics, log }: LagDeps): void {
  const lags = () => administrator.use(admin => lagsOf(admin))
  const read = createCachedReading(lags, { name: 'the lag of groups', log })
  const watch = (name: 'consumer_lag_messages' | 'consumer_offset', of: 'lag' | 'offset') =>
    metrics.watchAll(name, async () => (await read()).map(groupLag => ({
      labels: {
        stage: groupLag.stage,
        group: groupLag.group,
        topic: groupLag.topic,
        partition: String(groupLag.partition),
      },
      value: groupLag[of],
    })))
  watch('consumer_lag_messages', 'lag')
  watch('consumer_offset', 'offset')
}

/** Made when it is first needed and kept, as a new one costs more than all it is asked. */
export function createAdministrator (connection: KafkaConnection, clientId: string) {
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
