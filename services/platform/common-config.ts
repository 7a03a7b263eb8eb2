import Type from 'typebox'

const base64Of32Bytes = '^[A-Za-z0-9+/]{43}=$'
const exampleKey = `{"1":"${Buffer.alloc(32).toString('base64')}"}`
const url = (scheme: string, description: string, example: string) =>
  Type.String({ pattern: `^${scheme}://.+`, description, examples: [example] })
const secretKeys = (description: string) =>
  Type.Record(Type.String(), Type.String({ pattern: base64Of32Bytes }), {
    minProperties: 1, secret: true, description, examples: [exampleKey],
  })

const saslKeys = ['KAFKA_SASL_MECHANISM', 'KAFKA_SASL_USERNAME', 'KAFKA_SASL_PASSWORD'] as const
const saslField = (index: number) => ({ needs: saslKeys.filter((_, other) => other !== index) })

/** Settings of every client of Kafka. */
export const kafkaKeys = ['KAFKA_BROKERS', 'KAFKA_TLS', ...saslKeys] as const

/** Settings of every service that produces or consumes messages. */
export const messageKeys = [...kafkaKeys, 'MESSAGE_KEYS', 'MESSAGE_KEY_ACTIVE'] as const

/** Keys that several services share; each service picks what it needs. */
export const commonConfig = {
  KAFKA_BROKERS: Type.Array(Type.String({ pattern: '^[^:/]+:[0-9]+$' }), {
    minItems: 1, description: 'Addresses of the brokers, host:port.', examples: ['localhost:9092'],
  }),
  KAFKA_TLS: Type.Boolean({
    default: false, description: 'Connect to the brokers over TLS.',
  }),
  KAFKA_SASL_MECHANISM: Type.Optional(Type.Enum(['plain', 'scram-sha-256', 'scram-sha-512'], {
    ...saslField(0), description: 'SASL mechanism; no authentication by default.',
  })),
  KAFKA_SASL_USERNAME: Type.Optional(Type.String({
    ...saslField(1), description: 'SASL user.',
  })),
  KAFKA_SASL_PASSWORD: Type.Optional(Type.String({
    ...saslField(2), secret: true, description: 'Password of the SASL user.',
  })),
  MESSAGE_KEYS: secretKeys(
    'Keys that sign messages between services and rows of ClickHouse: JSON, key id to 32 bytes ' +
    'of base64. Keep old keys: the journal keeps the messages that they signed forever.'),
  MESSAGE_KEY_ACTIVE: Type.String({
    minLength: 1, description: 'Id of the key that signs messages and rows.', examples: ['1'],
  }),
  SCHEMA_REGISTRY_URL: url('https?', 'Address of the schema registry.', 'http://localhost:8081'),
  REDIS_STATE_URL: url(
    'rediss?(-sentinel)?', 'Redis for state: appendfsync always, noeviction; with ' +
    'Sentinel: redis-sentinel://host:port,host:port/group.', 'redis://localhost:6379'),
  REDIS_CACHE_URL: url(
    'rediss?(-cluster|-sentinel)?', 'Redis for the cache, which may evict; a cluster: ' +
    'redis-cluster://host:port,host:port.', 'redis://localhost:6380'),
  CLICKHOUSE_URL: url('https?', 'Address of ClickHouse.', 'http://localhost:8123'),
  KEY_RING: secretKeys('Keys that wrap data keys: JSON, key id to 32 bytes of base64.'),
  KEY_ACTIVE: Type.String({
    minLength: 1, description: 'Id of the key that wraps new data keys.', examples: ['1'],
  }),
  CACHE_SECRETS: secretKeys('Secrets of cache tokens: JSON, version to 32 bytes of base64.'),
  CACHE_SECRET_ACTIVE: Type.String({
    minLength: 1,
    description: 'Version of the cache secret for new tokens.',
    examples: ['1'],
  }),
}
