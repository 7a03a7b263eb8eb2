import { type Admin, Kafka, logLevel } from 'kafkajs'
import Type from 'typebox'
import { createJobKeyCopy, type JobKeyCopy } from '../jobs/job-key-copy.ts'
import type { ReadTopic } from '../jobs/wrapped-keys.ts'
import { createRecordMac } from '../runtime/crypto/mac.ts'
import type { Connections } from '../runtime/engine/connections.ts'
import type { Producer } from '../runtime/kafka/bus.ts'
import { kafkaConnectionOf, kafkaOptionsOf } from '../runtime/kafka/connection.ts'
import { accessErrorOf } from '../runtime/kafka/errors.ts'
import { createKafkaBus } from '../runtime/kafka/kafka-bus.ts'
import { createMessageMac } from '../runtime/kafka/message-mac.ts'
import { createCodec, registrySource } from '../runtime/kafka/registry.ts'
import { createTopicReader } from '../runtime/kafka/topic-reader.ts'
import { COMMAND_TIMEOUT_MS, connectClickhouse } from '../runtime/platform/clickhouse.ts'
import type { Environment } from '../runtime/platform/command-environment.ts'
import {
  commonConfig, kafkaKeys, loadConfig, messageKeys, pick,
} from '../runtime/platform/config.ts'
import { isInfrastructure } from '../runtime/platform/errors.ts'
import {
  connectCommandRedis, connectRedisOrCluster, type RedisClient,
} from '../runtime/platform/redis.ts'
import { CommandFailure } from '../runtime/platform/run-command.ts'

const kafkaConfig = Type.Object(pick(commonConfig, kafkaKeys))
const stateConfig = Type.Object(pick(commonConfig, ['REDIS_STATE_URL']))

const RETRY = { retries: 1, initialRetryTime: 100 }
const CONNECT_TIMEOUT_MS = 2_000

/**
 * Runs work with an admin client of the brokers in the environment, and always disconnects. Retries
 * little, because an operator waits for the result.
 * @throws CommandFailure with the addresses, and what to do, when the brokers do not respond.
 */
export async function withBrokers<T> (
  env: Environment, work: (admin: Admin) => Promise<T>
): Promise<T> {
  const connection = kafkaConnectionOf(loadConfig(kafkaConfig, env))
  const admin = new Kafka({
    ...kafkaOptionsOf(connection),
    clientId: 'ops',
    logLevel: logLevel.NOTHING,
    connectionTimeout: CONNECT_TIMEOUT_MS,
    retry: RETRY,
  }).admin({ retry: RETRY })
  try {
    await admin.connect()
    return await work(admin)
  } catch (error) {
    throw explainKafkaError(error, connection.brokers)
  } finally {
    await admin.disconnect().catch(() => {})
  }
}

/** Converts an error of the brokers into a CommandFailure. Returns every other error unchanged. */
export function explainKafkaError (error: unknown, brokers: readonly string[]): unknown {
  const refusal = accessErrorOf(error)
  if (refusal !== undefined) return new CommandFailure(`${refusal}.`)
  const isOfKafka = error instanceof Error && error.name.startsWith('KafkaJS')
  if (!isOfKafka || !isInfrastructure(error)) return error
  return new CommandFailure(`Kafka does not respond at ${brokers.join(', ')}. Check that it is ` +
    'running and that KAFKA_BROKERS is correct. To start a local stack: "npm run up".')
}

/**
 * Runs work with the state Redis in the environment, and always disconnects.
 * @throws ConfigError when REDIS_STATE_URL is missing.
 */
export async function withState<T> (
  env: Environment, work: (redis: RedisClient) => Promise<T>
): Promise<T> {
  const redis = await connectCommandRedis('REDIS_STATE_URL', loadConfig(stateConfig, env))
  try {
    return await work(redis)
  } finally {
    redis.disconnect()
  }
}

/** What is optional must not delay the command. */
const SHORT_TIMEOUTS = { commandTimeout: 1_000, connectTimeout: 1_000 }

/** Reads from the state Redis; resolves with undefined when it is unavailable or not configured. */
type OptionalRead = <T>(read: (redis: RedisClient) => Promise<T>) => Promise<T | undefined>

/** Runs work that shows some of the state Redis as additional information. */
export async function withOptionalState<T> (
  env: Environment, work: (read: OptionalRead) => Promise<T>
): Promise<T> {
  const url = env['REDIS_STATE_URL'] ?? ''
  if (url === '') return await work(async () => undefined)
  const redis = await connectRedisOrCluster(url, SHORT_TIMEOUTS)
  try {
    return await work(read => read(redis).catch(() => undefined))
  } finally {
    redis.disconnect()
  }
}

/** Connections of the commands that read every store: `audit`, `job erase` and `keys`. */
export type Stores = Pick<Connections, 'bus' | 'clickhouse' | 'recordMac' | 'codec'> & {
  readonly redis: Connections['state']
  readonly keyCopy: JobKeyCopy
  readonly producer: Pick<Producer, 'send'>
  readonly read: ReadTopic
}

const config = Type.Object(pick(commonConfig, [
  ...messageKeys, 'SCHEMA_REGISTRY_URL', 'REDIS_STATE_URL', 'CLICKHOUSE_URL',
]))

/**
 * Connects to all stores in `env`, runs `work`, and closes the connections in any case.
 * @throws ConfigError when a setting is missing or invalid.
 */
export async function withStores<T> (
  env: Environment, work: (stores: Stores) => Promise<T>
): Promise<T> {
  const settings = loadConfig(config, env)
  const connection = { ...kafkaConnectionOf(settings), mac: createMessageMac(settings) }
  const redis = await connectCommandRedis('REDIS_STATE_URL', settings)
  const clickhouse = connectClickhouse(settings.CLICKHOUSE_URL, COMMAND_TIMEOUT_MS)
  const bus = createKafkaBus({
    ...connection, clientId: 'workspace', onFatal: error => { throw error },
  })
  const recordMac = createRecordMac(settings)
  try {
    return await work({
      bus,
      redis,
      clickhouse,
      recordMac,
      keyCopy: createJobKeyCopy(clickhouse, recordMac),
      codec: createCodec(registrySource(settings.SCHEMA_REGISTRY_URL)),
      producer: bus.producer('workspace'),
      read: createTopicReader({ ...connection, clientId: 'workspace' }).read,
    })
  } finally {
    await bus.close()
    redis.disconnect()
    await clickhouse.close()
  }
}
