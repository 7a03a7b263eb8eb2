import { logLevel } from 'kafkajs'
import Type from 'typebox'
import { createApiKeys } from '../accounts/api-keys.ts'
import { connectAllKeys } from '../accounts/connect-organization-keys.ts'
import { copiesInTopic } from '../accounts/account-topics.ts'
import { createOrganizations } from '../accounts/organizations.ts'
import { createPartners } from '../accounts/partners.ts'
import { createPeople } from '../accounts/people.ts'
import { createAccountRecords } from '../accounts/records.ts'
import { createJobKeyCopy, type JobKeyCopy, type ReadTopic } from '../jobs/wrapped-keys.ts'
import { createOutbox, createRecoveryGuards, createWallet } from '../money/wallet.ts'
import { createMessageMac, createRecordMac } from '../runtime/crypto/mac.ts'
import type { Connections } from '../runtime/engine/connections.ts'
import type { Producer } from '../runtime/kafka/bus.ts'
import {
  type AccessRule, createAccessRules, createTopics, topicConfig, withAdmin,
} from '../runtime/kafka/admin.ts'
import { createKafka, type KafkaAdmin } from '../runtime/kafka/client.ts'
import { toKafkaConnection, describeAccessError } from '../runtime/kafka/connection.ts'
import { createKafkaBus } from '../runtime/kafka/kafka-bus.ts'
import { createCodec, registrySource } from '../runtime/kafka/registry.ts'
import { createTopicReader, type TopicReader } from '../runtime/kafka/topic-reader.ts'
import { Clickhouse, COMMAND_TIMEOUT_MS } from '../runtime/platform/clickhouse.ts'
import type { Environment } from '../runtime/platform/command-environment.ts'
import {
  cacheKeys, clickhouseKeys, commonConfig, defineConfig, kafkaKeys, loadConfig, messageKeys, pick,
  registryKeys, rootKeys, stateKeys,
} from '../runtime/platform/config.ts'
import { isInfrastructure } from '../runtime/platform/errors.ts'
import {
  connectCommandRedis, connectRedis, type RedisClient, redisCredentials,
} from '../runtime/platform/redis.ts'
import { CommandFailure, UsageError } from '../runtime/platform/run-command.ts'
import { createWebhookEndpoints } from '../webhooks/endpoints.ts'
import { createWebhookSecrets, createWebhookSigningKeys } from '../webhooks/secrets.ts'

export type WorkspaceDeps = ReturnType<typeof createWorkspace>

const accountSettings = {
  ...pick(commonConfig, [
    ...stateKeys, 'MESSAGE_KEYS', 'TOPIC_PREFIX',
    ...rootKeys.results, ...rootKeys.webhooks, ...rootKeys.partners,
  ]),
  WEBHOOK_ALLOW_HTTP: Type.Boolean({ default: false }),
  WEBHOOK_ALLOW_LOOPBACK: Type.Boolean({ default: false }),
}
const config = defineConfig(accountSettings)

/** Runs work on accounts and balances, with the state Redis. */
export async function withWorkspace<T> (
  env: Environment, work: (deps: WorkspaceDeps) => Promise<T>
): Promise<T> {
  const settings = loadConfig(config, env)
  return await withState(env, redis => work(createWorkspace(env, settings, redis)))
}

function createWorkspace (
  env: Environment, settings: ReturnType<typeof loadConfig<typeof accountSettings>>,
  redis: RedisClient
) {
  const keys = connectAllKeys(redis, settings)
  const webhooks = { redis, keys: keys.webhooks }
  return {
    organizations: createOrganizations(redis),
    organizationKeys: keys,
    /** The versions of an organization's keys that the topic `organization.keys` has. */
    readKeysInTopic: (orgId: string) =>
      withStores(env, stores => copiesInTopic(stores, orgId)),
    people: createPeople({ ...webhooks, messageKeys: settings.MESSAGE_KEYS }),
    apiKeys: createApiKeys(redis),
    webhookSecrets: createWebhookSecrets(webhooks),
    webhookSigningKeys: createWebhookSigningKeys(webhooks),
    endpoints: createWebhookEndpoints(webhooks),
    /** The exceptions of a development installation. */
    webhookRules: {
      allowHttp: settings.WEBHOOK_ALLOW_HTTP, allowLoopback: settings.WEBHOOK_ALLOW_LOOPBACK,
    },
    partners: createPartners({ redis, keys: keys.partners }),
    /** Reads the addresses of the brokers on its first use: no other task needs them. */
    createPartnerTopics: (options: PartnerTopicsOptions) => createPartnerTopics(env, options),
    /** What the names of topics and groups begin with on the brokers. */
    topicPrefix: settings.TOPIC_PREFIX ?? '',
    wallet: createWallet(redis),
    outbox: createOutbox(redis),
    gates: createRecoveryGuards(redis),
    accounts: createAccountRecords(redis),
  }
}

type PartnerTopicsOptions = {
  readonly topics: Parameters<typeof createTopics>[1]
  /** Give the partner access to its own topics only. */
  readonly rules: readonly AccessRule[]
  /** Accepts brokers without an authorizer. */
  readonly trial: boolean
}

const topicsConfig = Type.Object({ ...pick(commonConfig, kafkaKeys), ...topicConfig })

/** What became of the access rules of a partner. */
export type RulesOfPartner = 'created' | 'left to others' | 'no authorizer'

/**
 * Creates the rules of a partner, unless KAFKA_ACCESS_RULES leaves them to others, then its topics.
 * Existing ones remain unchanged.
 * @throws UsageError when the brokers have no authorizer, unless `trial` is set.
 */
async function createPartnerTopics (
  env: Environment, { topics, rules, trial }: PartnerTopicsOptions
): Promise<RulesOfPartner> {
  const config = loadConfig(topicsConfig, env)
  return await withAdmin(toKafkaConnection(config), async admin => {
    let outcome: RulesOfPartner = 'left to others'
    if (config.KAFKA_ACCESS_RULES === 'manage') {
      outcome = await createAccessRules(admin, rules) ? 'created' : 'no authorizer'
    }
    if (outcome === 'no authorizer' && !trial) {
      throw new UsageError('The brokers have no authorizer, so every Kafka client can read and ' +
        'write this feed. Set one up (deploy/docs/security.md), or accept the risk for a trial: ' +
        '--trial')
    }
    await createTopics(admin, topics, config)
    return outcome
  })
}

/** What commands connect to, by name. */
type CommandConnections = Pick<Connections,
  'state' | 'cache' | 'clickhouse' | 'bus' | 'codec' | 'recordMac'> & {
    readonly read: TopicReader['read']
  }
type ConnectionName = keyof CommandConnections

/** The settings that each connection reads. */
const SETTINGS = {
  state: stateKeys,
  cache: cacheKeys,
  clickhouse: clickhouseKeys,
  bus: messageKeys,
  read: messageKeys,
  codec: [...registryKeys, 'TOPIC_PREFIX'],
  recordMac: ['MESSAGE_KEYS', 'MESSAGE_KEY_ACTIVE'],
} as const

const connectionConfig = Type.Object(pick(commonConfig, Object.values(SETTINGS).flat()))
type ConnectionSettings = ReturnType<typeof loadConfig<typeof connectionConfig.properties>>
type OnClose = (close: () => unknown) => void

const OPENERS: {
  readonly [N in ConnectionName]: (
    settings: ConnectionSettings, onClose: OnClose,
  ) => CommandConnections[N] | Promise<CommandConnections[N]>
} = {
  state: openRedis('STATE'),
  cache: openRedis('CACHE'),
  clickhouse: (settings, onClose) => {
    const clickhouse = new Clickhouse(settings.CLICKHOUSE_URL, {
      timeoutMs: COMMAND_TIMEOUT_MS, passwordFile: settings.CLICKHOUSE_PASSWORD_FILE,
    })
    onClose(() => clickhouse.close())
    return clickhouse
  },
  bus: (settings, onClose) => {
    const bus = createKafkaBus({
      ...toSignedConnection(settings), onFatal: error => { throw error },
    })
    onClose(() => bus.close())
    return bus
  },
  read: settings => createTopicReader(toSignedConnection(settings)).read,
  codec: settings => createCodec(registrySource(settings)),
  recordMac: settings => createRecordMac(settings),
}

function openRedis (name: 'STATE' | 'CACHE') {
  return async (settings: ConnectionSettings, onClose: OnClose) => {
    const redis = await connectCommandRedis(name, settings)
    onClose(() => redis.disconnect())
    return redis
  }
}

const toSignedConnection = (settings: ConnectionSettings) => ({
  ...toKafkaConnection(settings), mac: createMessageMac(settings), clientId: 'workspace',
})

/**
 * Opens connections in `env` in the given order, runs `work`, and closes them in any case.
 * @throws ConfigError with all settings that are missing or invalid.
 */
export async function withConnections<N extends ConnectionName, T> (
  env: Environment, names: readonly N[],
  work: (connections: Pick<CommandConnections, N>) => Promise<T>
): Promise<T> {
  const fields = pick(commonConfig, names.flatMap(name => SETTINGS[name]))
  const settings = loadConfig(Type.Object(fields), env) as ConnectionSettings
  const closings: (() => unknown)[] = []
  const connections: Partial<Record<ConnectionName, unknown>> = {}
  try {
    for (const name of names) {
      connections[name] = await OPENERS[name](settings, close => closings.push(close))
    }
    return await work(connections as Pick<CommandConnections, N>)
  } finally {
    for (const close of closings.toReversed()) await close()
  }
}

/** Connections of the commands that read every store: `audit`, `job erase` and `keys`. */
export type Stores = Pick<CommandConnections, 'bus' | 'clickhouse' | 'recordMac' | 'codec'> & {
  readonly redis: RedisClient
  readonly keyCopy: JobKeyCopy
  readonly producer: Pick<Producer, 'send'>
  readonly read: ReadTopic
}

/** Runs work with the connections to all stores. */
export async function withStores<T> (
  env: Environment, work: (stores: Stores) => Promise<T>
): Promise<T> {
  return await withConnections(
    env, ['state', 'clickhouse', 'bus', 'read', 'codec', 'recordMac'],
    ({ state, ...connections }) => work({
      ...connections,
      redis: state,
      keyCopy: createJobKeyCopy(connections.clickhouse, connections.recordMac),
      producer: connections.bus.producer('workspace'),
    }))
}

/** What the commands of operators read, all together. */
export const adminConfig = Type.Object({
  ...accountSettings,
  ...connectionConfig.properties,
  ...topicsConfig.properties,
  JOBS_KEEP_MONTHS: commonConfig.JOBS_KEEP_MONTHS,
})

const kafkaConfig = Type.Object(pick(commonConfig, kafkaKeys))
const stateConfig = Type.Object(pick(commonConfig, stateKeys))

/**
 * Runs work with an admin client of the brokers in the environment, and always disconnects. Retries
 * little, because an operator waits for the result.
 * @throws CommandFailure with the addresses, and what to do, when the brokers do not respond.
 */
export async function withBrokers<T> (
  env: Environment, work: (admin: KafkaAdmin) => Promise<T>
): Promise<T> {
  const connection = toKafkaConnection(loadConfig(kafkaConfig, env))
  const retry = { retries: 1, initialRetryTime: 100 }
  const admin = createKafka(connection, {
    clientId: 'ops',
    logLevel: logLevel.NOTHING,
    connectionTimeout: 2_000,
    retry,
  }).admin({ retry })
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
function explainKafkaError (error: unknown, brokers: readonly string[]): unknown {
  const refusal = describeAccessError(error)
  if (refusal !== undefined) return new CommandFailure(`${refusal}.`)
  const isOfKafka = error instanceof Error && error.name.startsWith('KafkaJS')
  if (!isOfKafka || !isInfrastructure(error)) return error
  return new CommandFailure(`Kafka does not respond at ${brokers.join(', ')}. Check that it is ` +
    'running and that KAFKA_BROKERS is correct. To start a local stack: "npm run up".')
}

/** Runs work with the state Redis. */
export async function withState<T> (
  env: Environment, work: (redis: RedisClient) => Promise<T>
): Promise<T> {
  return await withConnections(env, ['state'], ({ state }) => work(state))
}

/** Reads from the state Redis; resolves with undefined when it is unavailable or not configured. */
type OptionalRead = <T>(read: (redis: RedisClient) => Promise<T>) => Promise<T | undefined>

/** Runs work that shows some of the state Redis as additional information. */
export async function withOptionalState<T> (
  env: Environment, work: (read: OptionalRead) => Promise<T>
): Promise<T> {
  if ((env['REDIS_STATE_URL'] ?? '') === '') return await work(async () => undefined)
  const settings = loadConfig(stateConfig, env)
  // What is optional must not delay the command.
  const redis = await connectRedis(settings.REDIS_STATE_URL, {
    commandTimeout: 1_000, connectTimeout: 1_000, ...redisCredentials('STATE', settings),
  })
  try {
    return await work(read => read(redis).catch(() => undefined))
  } finally {
    redis.disconnect()
  }
}
