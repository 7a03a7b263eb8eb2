import { execFileSync } from 'node:child_process'
import { appendFileSync, mkdirSync, rmSync } from 'node:fs'
import { makeSecure, openAccess, signInEnv, type EnvOfStages } from '../../deploy/local/access.ts'
import { clickhousePart } from '../../deploy/local/clickhouse.ts'
import { kafkaParts } from '../../deploy/local/kafka.ts'
import { loadSecrets } from '../../deploy/local/launcher/secrets.ts'
import { openPortBook } from '../../deploy/local/ports.ts'
import { redisPart } from '../../deploy/local/redis.ts'
import { registryPart } from '../../deploy/local/registry.ts'
import type { Addresses } from '../../deploy/local/source.ts'
import { provision } from '../../deploy/provision.ts'
import { startRedisCluster } from '../support/redis/cluster.ts'
import {
  oauthListener, startTokenProvider, type TokenProvider,
} from '../support/stacks/token-provider.ts'
import { createPart } from '../support/stacks/processes.ts'
import { newFolder } from '../support/folder.ts'

export type FaultStack = Awaited<ReturnType<typeof openStack>>

/** Describes the parts in a folder; nothing runs yet. `stateUrl` is that of a state that runs. */
async function describe (
  dataDir: string, brokers: number, stateUrl: string | undefined, tokens?: TokenProvider
) {
  const access = openAccess(dataDir)
  const common = { dataDir, ports: openPortBook(dataDir), say: console.log, access }
  const state = stateUrl === undefined
    ? await redisPart({ ...common, role: 'state' })
    : { url: stateUrl, spec: undefined }
  const cache = await redisPart({ ...common, role: 'cache' })
  const registry = await registryPart(common)
  const kafka = await kafkaParts(common, brokers)
  const oauthBrokers: string[] = []
  for (const { name } of tokens === undefined ? [] : kafka.specs) {
    const { port } = common.ports
    const address = `127.0.0.1:${await port(`${name}-oauth`)}`
    oauthBrokers.push(address)
    appendFileSync(`${dataDir}/${name}/server.properties`, oauthListener({
      address,
      open: `127.0.0.1:${await port(name)}`,
      controller: `127.0.0.1:${await port(`${name}-controller`)}`,
      jwksUrl: tokens!.jwksUrl,
    }))
  }
  const clickhouse = await clickhousePart(common)
  const addresses: Addresses = {
    KAFKA_BROKERS: kafka.brokers,
    SCHEMA_REGISTRY_URL: registry.url,
    REDIS_STATE_URL: state.url,
    REDIS_CACHE_URL: cache.url,
    CLICKHOUSE_URL: clickhouse.url,
  }
  const others = [registry, state, cache, clickhouse].flatMap(({ spec }) => spec ?? [])
  const fronts = registry.front === undefined ? [] : [registry.front]
  const trust: Readonly<Record<string, string>> =
    access === undefined ? {} : { NODE_EXTRA_CA_CERTS: access.files.authority }
  const envByStage: EnvOfStages = access === undefined ? {} : signInEnv(access, addresses)
  const managed: Readonly<Record<string, string>> = tokens === undefined
    ? {}
    : {
        KAFKA_BROKERS: oauthBrokers.join(),
        KAFKA_SASL_MECHANISM: 'oauthbearer',
        KAFKA_OAUTH_TOKEN_URL: tokens.tokenUrl,
        KAFKA_OAUTH_CLIENT_ID: TOKEN_CLIENT.id,
        KAFKA_OAUTH_CLIENT_SECRET: TOKEN_CLIENT.secret,
        KAFKA_OAUTH_SCOPE: 'kafka',
        TOPIC_PREFIX: 'verification.',
        STATE_DURABILITY: 'replicas',
      }
  // A broker fetches keys only from where its operator says.
  const javaEnv = tokens === undefined
    ? {}
    : {
        JAVA_TOOL_OPTIONS:
          `-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=${tokens.jwksUrl}`,
      }
  const kafkaSpecs = kafka.specs.map(spec => ({ ...spec, env: { ...spec.env, ...javaEnv } }))
  return {
    addresses,
    env: { ...addresses, ...trust, ...managed },
    envByStage,
    specs: [...kafkaSpecs, ...others, ...fronts],
  }
}

const TOKEN_CLIENT = { id: 'jobs', secret: 'a-secret-of-32-characters-or-more' }

export type StackOptions = {
  /** Folders of it that are disks of their own, and their sizes; only root can mount them. */
  readonly disks?: Disks
  /** With three, every topic has three copies, two of which acknowledge. */
  readonly brokers?: number
  /** With TLS and passwords everywhere, and a user a stage at the brokers. */
  readonly secure?: boolean
  /** The state on three masters of a Redis Cluster, each with a replica. */
  readonly cells?: boolean
  /**
   * As managed services are: brokers that others use too and that ask for tokens, and cells without
   * an append-only file.
   */
  readonly managed?: boolean
}

/** Each write is on disk before its answer, as in production. */
const DURABLE = ['--appendonly', 'yes', '--appendfsync', 'always']

/**
 * Infrastructure of its own, so that faults affect no other test: a running stack with topics,
 * schemas and tables, in a folder that is removed at its end.
 */
export async function openStack (
  { disks = {}, brokers = 1, secure = false, cells: hasCells = false, managed = false }:
  StackOptions = {}
) {
  const dataDir = newFolder('verification-jobs-faults-')
  for (const [folder, megabytes] of Object.entries(disks)) {
    mkdirSync(`${dataDir}/${folder}`)
    mountDisk(`${dataDir}/${folder}`, megabytes)
  }
  if (secure) makeSecure(dataDir)
  /** The servers of the state Redis, if they are several. */
  const cells = hasCells || managed
    ? await startRedisCluster(managed ? [] : DURABLE, 1)
    : undefined
  const tokens = managed ? await startTokenProvider(TOKEN_CLIENT) : undefined
  const { addresses, env: settings, envByStage, specs } =
    await describe(dataDir, brokers, cells?.url, tokens)
  const parts = specs.map(createPart)
  const close = async () => {
    await Promise.all([...parts.map(part => part.down()), cells?.stop()])
    tokens?.close()
    for (const folder of Object.keys(disks)) execFileSync('umount', ['-l', `${dataDir}/${folder}`])
    rmSync(dataDir, { recursive: true, force: true })
  }
  /** Addresses and secrets under the names services read them by, around all proxies. */
  const env: Readonly<Record<string, string>> = { ...settings, ...loadSecrets(dataDir) }
  try {
    await Promise.all(parts.map(part => part.up()))
    await provision(env)
  } catch (error) {
    await close()
    throw error
  }
  /** By name: kafka, registry, redis-state, redis-cache, clickhouse. */
  const part = (name: string) => {
    const found = parts.find(one => one.name === name)
    if (found === undefined) throw new Error(`the stack has no part ${name}`)
    return found
  }
  return { addresses, env, envByStage, dataDir, cells, part, close }
}

type Disks = Readonly<Record<string, number>>

/** Mounts memory as a disk of a size. */
export function mountDisk (folder: string, megabytes: number): void {
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs', folder],
    { stdio: 'pipe' })
}
