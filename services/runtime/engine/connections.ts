import { Cluster } from 'ioredis'
import { randomUUID } from 'node:crypto'
import {
  createMessageMac, createRecordMac, type MessageKeySettings, type RecordMac, reportForged,
  reportForgedRecords,
} from '../crypto/mac.ts'
import { publishRootKeyIds } from '../crypto/root-keys.ts'
import { type Attempts, createAttempts } from './dead-letters.ts'
import type { Bus } from '../kafka/bus.ts'
import { toKafkaConnection, type KafkaSettings } from '../kafka/connection.ts'
import { createKafkaBus } from '../kafka/kafka-bus.ts'
import {
  type Codec, createCodec, type RegistrySettings, registrySource,
} from '../kafka/registry.ts'
import { Clickhouse, type ClickhouseSettings } from '../platform/clickhouse.ts'
import {
  connectRedis, logAccessErrors, type RedisClient, redisClock, type RedisClock, redisCredentials,
  type RedisSettings,
} from '../platform/redis.ts'
import type { ProcessContext, ServiceContext } from '../platform/run.ts'
import { type Gate, startPauseGate } from './pause.ts'

/** The settings of each dependency. */
type DepsConfig = {
  readonly bus: KafkaSettings & MessageKeySettings &
    { readonly INSTANCE: string, readonly METADATA_MAX_AGE_MS: number }
  readonly codec: RegistrySettings
  readonly state: RedisSettings<'STATE'>
  readonly cache: RedisSettings<'CACHE'>
  readonly clickhouse: ClickhouseSettings
  readonly recordMac: MessageKeySettings
  readonly clock: RedisSettings<'STATE'>
  readonly gate: RedisSettings<'STATE'>
  readonly attempts: RedisSettings<'STATE'>
}

export type Connections = {
  readonly bus: Bus
  readonly codec: Codec
  /** Redis for state, or a cluster. */
  readonly state: RedisClient
  /** Redis for the cache, which may evict, or a cluster. */
  readonly cache: RedisClient
  readonly clickhouse: Clickhouse
  readonly recordMac: RecordMac
  /** Redis TIME of the state Redis. */
  readonly clock: RedisClock
  /** Closed while operators have paused the stage with the name of the service. */
  readonly gate: Gate
  /** Of all stages of the process, in the state Redis. */
  readonly attempts: Attempts
}

type DepName = keyof Connections
type ConfigOf<K extends DepName> = { [N in K]: (config: DepsConfig[N]) => void }[K] extends
(config: infer C) => void ? C : never

/**
 * Opens dependencies in the given order, and closes them in reverse order when the process stops.
 * The services of one process share them, except for the gate, which each stage has. Adds `log` and
 * `metrics` of the service.
 */
export async function connectDeps<K extends DepName> (
  config: ConfigOf<K>, context: ServiceContext, which: readonly K[]
): Promise<Pick<Connections, K> & Pick<ServiceContext, 'log' | 'metrics'>> {
  const deps: Partial<Record<DepName, unknown>> = {}
  const settings = config as unknown as AllConfig
  for (const name of which as readonly DepName[]) {
    deps[name] = name === 'gate'
      ? await openGate(settings, context)
      : await context.share<unknown>(name, owner => openers[name](settings, owner))
  }
  const { log, metrics } = context
  return { ...deps as Pick<Connections, K>, log, metrics }
}

type AllConfig = ConfigOf<DepName>

/**
 * A further connection to the same Redis or cluster, for subscriptions: a subscribed one allows no
 * other commands. A cluster passes each message to all of its nodes, and this listens at one.
 */
export function openSubscriber (
  redis: RedisClient, { onStop }: Pick<ServiceContext, 'onStop'>
): RedisClient {
  const subscriber = redis instanceof Cluster
    ? redis.duplicate([], { enableOfflineQueue: true, lazyConnect: false })
    : redis.duplicate({ autoResubscribe: true })
  subscriber.on('error', () => {})
  onStop(() => subscriber.disconnect())
  return subscriber
}

const connectState = (settings: RedisSettings<'STATE'>) =>
  connectRedis(settings.REDIS_STATE_URL, redisCredentials('STATE', settings))

/** An idle partition has no use for the attempts at its last message. */
const KEEP_ATTEMPTS_MS = 86_400_000

type Openers = {
  readonly [N in Exclude<DepName, 'gate'>]:
  (config: AllConfig, context: ProcessContext) => Promise<Connections[N]>
}

const openers: Openers = {
  bus: async (config, { name, log, metrics, fatal, onStop }) => {
    const clientId = `${name}.${config.INSTANCE}`
    const bus = createKafkaBus({
      ...toKafkaConnection(config),
      clientId,
      mac: createMessageMac(config, reportForged({ log, metrics })),
      onFatal: fatal,
      settings: { metadataMaxAgeMs: config.METADATA_MAX_AGE_MS },
      // kafkajs itself reports texts in place of errors.
      log: (level, message, { error, ...details }) =>
        log[level]({ ...details, ...error instanceof Error ? { err: error } : { error } }, message),
    })
    onStop(() => bus.close())
    return bus
  },
  codec: async settings => createCodec(registrySource(settings)),
  state: async (settings, { onStop, log }) => {
    const redis = await connectState(settings)
    logAccessErrors(redis, 'REDIS_STATE_URL', refusal => log.error(refusal))
    onStop(() => redis.disconnect())
    publishRootKeyIds(redis, { process: settings.INSTANCE, settings, onStop })
    return redis
  },
  cache: async (settings, { onStop, log }) => {
    const cache =
      await connectRedis(settings.REDIS_CACHE_URL, redisCredentials('CACHE', settings))
    logAccessErrors(cache, 'REDIS_CACHE_URL', refusal => log.error(refusal))
    onStop(() => cache.disconnect())
    return cache
  },
  clickhouse: async ({ CLICKHOUSE_URL: url, CLICKHOUSE_PASSWORD_FILE: passwordFile }, {
    onStop,
  }) => {
    const clickhouse = new Clickhouse(url, { passwordFile })
    onStop(() => clickhouse.close())
    return clickhouse
  },
  recordMac: async (config, { log, metrics }) =>
    createRecordMac(config, reportForgedRecords({ log, metrics })),
  clock: async (settings, { onStop, log, metrics }) => {
    const redis = await connectState(settings)
    logAccessErrors(redis, 'REDIS_STATE_URL', refusal => log.error(refusal))
    onStop(() => redis.disconnect())
    const onRetry = (error: unknown) =>
      log.warn({ err: error }, 'failed to read Redis TIME, retrying')
    const clock = await redisClock(redis, onRetry)
    metrics.watch('redis_clock_offset_seconds', {}, () => (clock.now() - Date.now()) / 1_000)
    onStop(() => clock.stop())
    return clock
  },
  attempts: async (settings, { onStop, log, hasFailed }) => {
    const redis = await connectState(settings)
    onStop(() => redis.disconnect())
    const attemptsKey = (partition: string) => `attempts:${partition}`
    return createAttempts({
      store: {
        read: async partition => await redis.get(attemptsKey(partition)) ?? undefined,
        write: async (partition, text) => {
          await redis.set(attemptsKey(partition), text, 'PX', KEEP_ATTEMPTS_MS)
        },
        remove: async partition => { await redis.del(attemptsKey(partition)) },
      },
      process: randomUUID(),
      hasFailed,
      log,
    })
  },
}

/** The gate of one stage. All gates share a connection, which no other commands delay. */
async function openGate (
  settings: DepsConfig['gate'], context: ServiceContext
): Promise<Gate> {
  const redis = await context.share('gates', async ({ onStop }) => {
    const connection = await connectState(settings)
    onStop(() => connection.disconnect())
    return connection
  })
  const gate = startPauseGate(context.name, { redis, ...context })
  context.onStop(gate.stop)
  return gate
}
