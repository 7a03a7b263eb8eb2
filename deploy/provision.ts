import { COMPATIBILITY, SchemaType } from '@kafkajs/confluent-schema-registry'
import { Command } from 'commander'
import Type, { type Static } from 'typebox'
import {
  clickhouseKeys, commonConfig, ConfigError, describeConfig, kafkaKeys, loadConfig, pick,
  registryKeys,
} from '../services/runtime/platform/config.ts'
import { topicConfig, withAdmin } from '../services/runtime/kafka/admin.ts'
import { toKafkaConnection } from '../services/runtime/kafka/connection.ts'
import {
  connectRegistry, describeRegistryFailure, ownSchemas,
} from '../services/runtime/kafka/registry.ts'
import { parseTopicPartitions, type TopicPartitions } from '../services/runtime/platform/topics.ts'
import { recordsText } from '../services/runtime/platform/text-table.ts'
import { alignAccess } from './provision/access.ts'
import { findDifferences } from './provision/check.ts'
import { applyMigrations } from './provision/tables.ts'
import { createTopics } from './provision/topics.ts'

/** Addresses of the infrastructure, and the replication of topics. */
export const provisionConfig = Type.Object({
  ...pick(commonConfig, [
    ...kafkaKeys, ...registryKeys, ...clickhouseKeys, 'JOBS_KEEP_MONTHS',
  ]),
  ...topicConfig,
  CLICKHOUSE_KIND: Type.Enum(['single', 'replicated', 'cloud'], {
    default: 'single',
    needs: (text: string) => text === 'replicated' ? ['CLICKHOUSE_CLUSTER'] : [],
    description: 'Tables of one server; on every server of CLICKHOUSE_CLUSTER, replicated, and ' +
      'divided by tenant; or those of ClickHouse Cloud (SharedMergeTree). It cannot be changed ' +
      'later.',
  }),
  CLICKHOUSE_CLUSTER: Type.Optional(Type.String({
    needs: ['CLICKHOUSE_KIND'],
    pattern: '^[A-Za-z0-9_.-]+$',
    description: 'Cluster of the configuration of the ClickHouse servers, for the kind ' +
      'replicated.',
  })),
  TOPIC_PARTITIONS: Type.Optional(Type.String({
    minLength: 1,
    description: 'Partitions of topics: a number for all that may grow, numbers by topic, lane ' +
      'or service, or both; those of services/topology.ts when left out. Existing topics grow.',
    examples: ['8,rows.completed.bulk=16,rows.to-verify.bulk.whatsapp=32'],
  })),
})

type Env = Readonly<Record<string, string | undefined>>
type Say = (line: string) => void

/**
 * Creates or updates topics, ACLs, schemas and tables for this release. Idempotent, and safe at any
 * time: it deletes nothing except ACLs of stages that are not in the topology, unless `keepsRules`
 * leaves them to the release before while its processes run.
 * @throws Error with the reason and what to do, if this release cannot use the infrastructure.
 */
export async function provision (
  env: Env, say: Say = () => {}, { keepsRules = false }: { readonly keepsRules?: boolean } = {}
): Promise<void> {
  const config = loadConfig(provisionConfig, env)
  const { CLICKHOUSE_KIND: kind, CLICKHOUSE_CLUSTER: cluster } = config
  if (cluster !== undefined && kind !== 'replicated') {
    throw new ConfigError([`CLICKHOUSE_CLUSTER is set, but CLICKHOUSE_KIND is ${kind}: set it to ` +
      'replicated, or remove the cluster.'])
  }
  const connection = toKafkaConnection(config)
  const partitions = readPartitions(config.TOPIC_PARTITIONS)
  await Promise.all([
    createTopics({ ...config, connection, partitions, say }),
    withAdmin(connection, admin =>
      alignAccess(admin, config.KAFKA_ACCESS_RULES, say, config.TOPIC_PREFIX, keepsRules)),
    registerSchemas(config, say),
    applyMigrations({
      url: config.CLICKHOUSE_URL,
      passwordFile: config.CLICKHOUSE_PASSWORD_FILE,
      kind,
      cluster,
      keepMonths: config.JOBS_KEEP_MONTHS,
    }, say),
  ])
}

/**
 * Prints where topics, ACLs and schemas differ from what is configured, and changes nothing.
 * Resolves to the number of differences.
 */
async function checkProvisioned (env: Env, say: Say): Promise<number> {
  const config = loadConfig(provisionConfig, env)
  const differences = await findDifferences({
    ...config,
    connection: toKafkaConnection(config),
    partitions: readPartitions(config.TOPIC_PARTITIONS),
    accessRules: config.KAFKA_ACCESS_RULES,
    registryUrl: config.SCHEMA_REGISTRY_URL,
    registryPasswordFile: config.SCHEMA_REGISTRY_PASSWORD_FILE,
  })
  if (differences.length > 0) say(recordsText(differences))
  say(differences.length === 0
    ? 'topics, ACLs and schemas are as configured'
    : `${differences.length} differences; nothing was changed`)
  return differences.length
}

function readPartitions (text = ''): TopicPartitions {
  try {
    return parseTopicPartitions(text)
  } catch (error) {
    throw new ConfigError([`TOPIC_PARTITIONS: ${(error as Error).message}.`])
  }
}

/**
 * Registers all schemas. Releases overlap during an upgrade and topics keep old messages, so each
 * version must be backward and forward compatible with all earlier versions.
 */
async function registerSchemas (
  {
    SCHEMA_REGISTRY_URL: url, SCHEMA_REGISTRY_PASSWORD_FILE: passwordFile,
    TOPIC_PREFIX: prefix = '',
  }: Static<typeof provisionConfig>, say: Say
): Promise<void> {
  const registry = connectRegistry(url, passwordFile)
  const schemas = ownSchemas()
  for (const [name, { json }] of schemas) {
    const subject = prefix + name
    try {
      await registry.register({ type: SchemaType.AVRO, schema: JSON.stringify(json) }, {
        subject, compatibility: COMPATIBILITY.FULL_TRANSITIVE,
      })
    } catch (cause) {
      throw new Error(describeFault({ subject, url }, cause), { cause })
    }
  }
  say(`schemas: ${schemas.size} subjects registered`)
}

function describeFault (
  { subject, url }: { readonly subject: string, readonly url: string }, cause: unknown
): string {
  const reason = cause instanceof Error ? cause.message : String(cause)
  const refused = cause instanceof Error && 'status' in cause && cause.status === 409
  if (!refused && !/incompatible/i.test(reason)) {
    return `the schema of ${subject} could not be registered: ` +
      describeRegistryFailure(url, cause)
  }
  return `the schema of ${subject} is incompatible with a version that is registered, which ` +
    'running services and stored messages still use. Only add fields that have a default, or ' +
    `remove ones that had a default: ${reason}`
}

if (import.meta.main) {
  const keys = describeConfig(provisionConfig)
    .map(({ key, description }) => `  ${key.padEnd(20)} ${description}`)
  const command = new Command('provision')
    .description('Makes topics, rules of access, schemas and tables ready for the services. ' +
      'Safe to run again.')
    .option('--check', 'only compare topics, ACLs and schemas; exits with 1 if any differ')
    .option('--keep-rules', 'delete no rules of access, which an earlier release may still use: ' +
      'for an upgrade, before its processes are replaced')
    .addHelpText('after', ['\nEnvironment:', ...keys].join('\n'))
    .parse()
  const say = (line: string) => console.log(line)
  try {
    if (command.opts()['check'] === true) {
      if (await checkProvisioned(process.env, say) > 0) process.exitCode = 1
    } else {
      await provision(process.env, say, { keepsRules: command.opts()['keepRules'] === true })
      say('provisioned')
    }
  } catch (error) {
    console.error(error instanceof ConfigError ? error.message : describeError(error))
    process.exit(1)
  }
}

function describeError (error: unknown): string {
  return error instanceof Error ? `provision failed: ${error.message}` : 'provision failed'
}
