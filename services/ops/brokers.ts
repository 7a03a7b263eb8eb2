import { Kafka, logLevel, type Admin } from 'kafkajs'
import Type from 'typebox'
import type { Environment } from '../lib/command-environment.ts'
import { commonConfig, kafkaKeys, loadConfig, pick } from '../lib/config.ts'
import { isInfrastructure } from '../lib/errors.ts'
import { kafkaConnectionOf, kafkaOptionsOf } from '../lib/kafka/connection.ts'
import { refusalOf } from '../lib/kafka/errors.ts'
import { UsageError } from '../lib/run-command.ts'

const config = Type.Object(pick(commonConfig, kafkaKeys))
const RETRY = { retries: 1, initialRetryTime: 100 }
const CONNECT_WITHIN_MS = 2_000

/**
 * Works with the brokers that the environment names, and disconnects whatever happens. Gives up
 * soon, as a person waits.
 * @throws UsageError with the addresses, and what to do, when they do not answer.
 */
export async function withBrokers<T> (
  env: Environment, work: (admin: Admin) => Promise<T>
): Promise<T> {
  const connection = kafkaConnectionOf(loadConfig(config, env))
  const admin = new Kafka({
    ...kafkaOptionsOf(connection),
    clientId: 'ops',
    logLevel: logLevel.NOTHING,
    connectionTimeout: CONNECT_WITHIN_MS,
    retry: RETRY,
  }).admin({ retry: RETRY })
  try {
    await admin.connect()
    return await work(admin)
  } catch (error) {
    throw faultOf(error, connection.brokers)
  } finally {
    await admin.disconnect().catch(() => {})
  }
}

/** What an operator is told of a failure; one that is not of the brokers stays as it is. */
export function faultOf (error: unknown, brokers: readonly string[]): unknown {
  const refusal = refusalOf(error)
  if (refusal !== undefined) return new UsageError(`${refusal}.`)
  const isOfKafka = error instanceof Error && error.name.startsWith('KafkaJS')
  if (!isOfKafka || !isInfrastructure(error)) return error
  return new UsageError(`Kafka does not answer at ${brokers.join(', ')}. Is it up, and is ` +
    'KAFKA_BROKERS right? A local stack is started by "npm run up".')
}
