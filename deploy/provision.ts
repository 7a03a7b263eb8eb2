import { pathToFileURL } from 'node:url'
import { Command } from 'commander'
import Type from 'typebox'
import {
  ConfigError, commonConfig, describeConfig, kafkaKeys, loadConfig, pick,
} from '../services/platform/config.ts'
import { withAdmin } from '../services/kafka/admin.ts'
import { kafkaConnectionOf } from '../services/kafka/connection.ts'
import { alignAccess } from './provision/access.ts'
import { applyMigrations } from './provision/migrations.ts'
import { registerSchemas } from './provision/schemas.ts'
import { createTopics } from './provision/topics.ts'

/** Addresses of the infrastructure, and the replication of topics. */
export const provisionConfig = Type.Object({
  ...pick(commonConfig, [...kafkaKeys, 'SCHEMA_REGISTRY_URL', 'CLICKHOUSE_URL']),
  TOPIC_REPLICATION: Type.Optional(Type.Integer({
    minimum: 1, description: 'Copies of every topic; as the brokers are set up when left out.',
  })),
  TOPIC_MIN_INSYNC: Type.Optional(Type.Integer({
    minimum: 1,
    description: 'Copies that acknowledge a write; as the brokers are set up when left out.',
  })),
})

type Env = Readonly<Record<string, string | undefined>>
type Say = (line: string) => void

/**
 * Creates or updates topics, ACLs, schemas and tables for this release. Idempotent, and safe at any
 * time: it deletes nothing except ACLs of stages that are not in the topology.
 * @throws Error with the reason and what to do, if this release cannot use the infrastructure.
 */
export async function provision (env: Env, say: Say = () => {}): Promise<void> {
  const config = loadConfig(provisionConfig, env)
  const connection = kafkaConnectionOf(config)
  await Promise.all([
    createTopics({
      connection,
      replication: config.TOPIC_REPLICATION,
      minInsync: config.TOPIC_MIN_INSYNC,
      say,
    }),
    withAdmin(connection, admin => alignAccess(admin, say)),
    registerSchemas(config.SCHEMA_REGISTRY_URL, say),
    applyMigrations(config.CLICKHOUSE_URL, say),
  ])
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const keys = describeConfig(provisionConfig)
    .map(({ key, description }) => `  ${key.padEnd(20)} ${description}`)
  new Command('provision')
    .description('Makes topics, rules of access, schemas and tables ready for the services. ' +
      'Safe to run again.')
    .addHelpText('after', ['\nEnvironment:', ...keys].join('\n'))
    .parse()
  try {
    await provision(process.env, line => console.log(line))
    console.log('provisioned')
  } catch (error) {
    console.error(error instanceof ConfigError ? error.message : reasonOf(error))
    process.exit(1)
  }
}

function reasonOf (error: unknown): string {
  return error instanceof Error ? `provision failed: ${error.message}` : 'provision failed'
}
