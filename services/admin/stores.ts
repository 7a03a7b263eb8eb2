import Type from 'typebox'
import type { ReadTopic } from '../jobs/wrapped-keys.ts'
import type { Producer } from '../runtime/kafka/bus.ts'
import { COMMAND_TIMEOUT_MS, connectClickhouse } from '../runtime/platform/clickhouse.ts'
import type { Environment } from '../runtime/platform/command-environment.ts'
import { commonConfig, loadConfig, messageKeys, pick } from '../runtime/platform/config.ts'
import type { Connections } from '../runtime/engine/connections.ts'
import { createKafkaBus } from '../runtime/kafka/kafka-bus.ts'
import { kafkaConnectionOf } from '../runtime/kafka/connection.ts'
import { createTopicReader } from '../runtime/kafka/topic-reader.ts'
import { createMessageMac } from '../runtime/kafka/message-mac.ts'
import { createRecordMac } from '../runtime/crypto/mac.ts'
import { connectCommandRedis } from '../runtime/platform/redis.ts'
import { createCodec, registrySource } from '../runtime/kafka/registry.ts'
import { createJobKeyCopy, type JobKeyCopy } from '../jobs/job-key-copy.ts'

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
