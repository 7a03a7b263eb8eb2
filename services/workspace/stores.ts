import type { ClickHouseClient } from '@clickhouse/client'
import type { Redis } from 'ioredis'
import Type from 'typebox'
import type { ReadTopic } from '../jobs/wrapped-keys.ts'
import type { Producer } from '../lib/bus.ts'
import { connectClickhouse } from '../lib/clickhouse.ts'
import { commonConfig, loadConfig, pick } from '../lib/config.ts'
import { createKafkaBus } from '../lib/kafka/bus.ts'
import { createTopicReader } from '../lib/kafka/topic-reader.ts'
import { connectRedis } from '../lib/redis.ts'
import { createCodec, registrySource, type Codec } from '../lib/registry.ts'
import type { Environment } from './environment.ts'

/** What commands work with that reach into every store. */
export type Stores = {
  readonly redis: Redis
  readonly clickhouse: ClickHouseClient
  readonly codec: Codec
  readonly producer: Pick<Producer, 'send'>
  readonly read: ReadTopic
}

const config = Type.Object(pick(commonConfig, [
  'KAFKA_BROKERS', 'SCHEMA_REGISTRY_URL', 'REDIS_STATE_URL', 'CLICKHOUSE_URL',
]))

/** Connects to the stores that the environment names, and closes them whatever happens. */
export async function withStores<T> (
  env: Environment, work: (stores: Stores) => Promise<T>
): Promise<T> {
  const settings = loadConfig(config, env)
  const { KAFKA_BROKERS: brokers } = settings
  const redis = connectRedis(settings.REDIS_STATE_URL)
  const clickhouse = connectClickhouse(settings.CLICKHOUSE_URL)
  const bus = createKafkaBus({ brokers, clientId: 'workspace', onFatal: error => { throw error } })
  try {
    return await work({
      redis,
      clickhouse,
      codec: createCodec(registrySource(settings.SCHEMA_REGISTRY_URL)),
      producer: bus.producer('workspace'),
      read: createTopicReader({ brokers, clientId: 'workspace' }).read,
    })
  } finally {
    await bus.close()
    redis.disconnect()
    await clickhouse.close()
  }
}
