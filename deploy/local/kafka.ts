import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { Kafka, logLevel } from 'kafkajs'
import { toKafkaOptions, type KafkaConnection } from '../../services/runtime/kafka/connection.ts'
import { requireJava } from './java.ts'
import {
  argumentsFile, clientConnection, kafkaProperties, scramArguments, type KafkaNode,
} from './kafka-settings.ts'
import { installKafka, javaArgs, type PartOptions } from './parts.ts'
import type { ProcessSpec } from './process.ts'

/**
 * A cluster of brokers `kafka`, `kafka-2`, `kafka-3`, ...: with three of them every topic has three
 * copies, and any one may be lost. A folder keeps the number it was made with.
 */
export async function kafkaParts (
  options: PartOptions, count: number
): Promise<{ specs: readonly ProcessSpec[], brokers: string }> {
  await requireJava()
  const jars = await installKafka(options.say)
  const names = Array.from({ length: count }, (_, index) =>
    index === 0 ? 'kafka' : `kafka-${index + 1}`)
  checkNumber(options.dataDir, names)
  const cluster: KafkaNode['cluster'][number][] = []
  for (const name of names) {
    cluster.push({
      broker: await options.ports.port(name),
      controller: await options.ports.port(`${name}-controller`),
    })
  }
  const clusterId = ensureClusterId(options.dataDir)
  const specs = await Promise.all(names.map((name, index) =>
    nodePart(name, { ...options, jars, clusterId, cluster, id: index + 1 })))
  return { specs, brokers: cluster.map(({ broker }) => `127.0.0.1:${broker}`).join() }
}

type Node = KafkaNode & Readonly<Record<'dataDir' | 'jars' | 'clusterId', string>>

async function nodePart (
  name: string, { dataDir, jars, clusterId, cluster, id, access }: Node
): Promise<ProcessSpec> {
  const folder = `${dataDir}/${name}`
  const ports = cluster[id - 1] as KafkaNode['cluster'][number]
  const properties = `${folder}/server.properties`
  mkdirSync(folder, { recursive: true })
  writeFileSync(properties, kafkaProperties(ports, folder, { id, cluster, access }), {
    mode: 0o600,
  })
  const classPath = ['-cp', `${jars}/*`]
  if (!isFormatted(folder)) {
    const java = [...await javaArgs(128, jars), ...classPath]
    await format(folder, [...java, 'kafka.tools.StorageTool', 'format',
      '-t', clusterId, '-c', properties, ...scramArguments(access)])
  }
  const logging = `-Dlog4j2.configurationFile=${import.meta.dirname}/log4j2.xml`
  return {
    name,
    command: 'java',
    args: [...await javaArgs(512, jars), logging, ...classPath, 'kafka.Kafka', properties],
    dataDir,
    ...createReadiness(ports.broker, clientConnection(ports.broker, access)),
    graceMs: 15_000,
  }
}

const isFormatted = (folder: string): boolean => existsSync(`${folder}/log/meta.properties`)

/** Topics have as many copies as there were brokers when they were made. */
function checkNumber (dataDir: string, names: readonly string[]): void {
  const made = existsSync(dataDir)
    ? readdirSync(dataDir).filter(name => isFormatted(`${dataDir}/${name}`)).length
    : 0
  if (made === 0 || made === names.length) return
  throw new Error(`${dataDir} was made with ${made} Kafka brokers, not ${names.length}: ` +
    'start it with that number, or take another folder.')
}

/** All nodes of a cluster are formatted with the same id. */
function ensureClusterId (dataDir: string): string {
  const file = `${dataDir}/kafka-cluster-id`
  if (existsSync(file)) return readFileSync(file, 'utf8')
  const id = newClusterId()
  mkdirSync(dataDir, { recursive: true })
  writeFileSync(file, id)
  return id
}

async function format (folder: string, tool: readonly string[]): Promise<void> {
  const file = `${folder}/format.arguments`
  try {
    await promisify(execFile)('java', [argumentsFile(file, tool)])
  } finally {
    rmSync(file, { force: true })
  }
}

/** A random cluster id; one that begins with a dash would be read as an option by the tool. */
function newClusterId (): string {
  const id = randomBytes(16).toString('base64url')
  return id.startsWith('-') ? newClusterId() : id
}

/** A broker is ready when it answers and the controllers know it as one that serves. */
function createReadiness (port: number, connection: KafkaConnection) {
  let problem: unknown
  return {
    ready: async () => {
      try {
        await checkBroker(port, connection)
        return true
      } catch (error) {
        problem = error
        return false
      }
    },
    problem: () => problem,
  }
}

async function checkBroker (port: number, connection: KafkaConnection): Promise<void> {
  const client = new Kafka({
    ...toKafkaOptions(connection),
    logLevel: logLevel.NOTHING,
    connectionTimeout: 1_000,
    retry: { retries: 0 },
  })
  const admin = client.admin()
  try {
    await admin.connect()
    const cluster = await admin.describeCluster()
    if (cluster.brokers.some(broker => broker.port === port)) return
    throw new Error(`the broker at port ${port} is not registered yet`)
  } finally {
    await admin.disconnect().catch(() => undefined)
  }
}
