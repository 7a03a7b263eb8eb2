import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { Kafka, logLevel } from 'kafkajs'
import { javaArgs } from './java.ts'
import { installKafka, requireJava } from './parts.ts'
import type { PartOptions } from './part.ts'
import type { ProcessSpec } from './process.ts'

/** Largest batch of records the broker takes; a sealed chunk has at most 256 KiB of it. */
const MESSAGE_MAX_BYTES = 2 * 1024 * 1024

/** The settings of a broker that is its own controller and all of its cluster. */
export function kafkaProperties (ports: { broker: number, controller: number }, dataDir: string) {
  const broker = `PLAINTEXT://127.0.0.1:${ports.broker}`
  const settings = {
    'process.roles': 'broker,controller',
    'node.id': 1,
    'controller.quorum.voters': `1@127.0.0.1:${ports.controller}`,
    listeners: `${broker},CONTROLLER://127.0.0.1:${ports.controller}`,
    'advertised.listeners': broker,
    'listener.security.protocol.map': 'PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT',
    'controller.listener.names': 'CONTROLLER',
    'inter.broker.listener.name': 'PLAINTEXT',
    'log.dirs': `${dataDir}/log`,
    'auto.create.topics.enable': false,
    'default.replication.factor': 1,
    'min.insync.replicas': 1,
    'offsets.topic.num.partitions': 4,
    'offsets.topic.replication.factor': 1,
    'transaction.state.log.num.partitions': 2,
    'transaction.state.log.replication.factor': 1,
    'transaction.state.log.min.isr': 1,
    'share.coordinator.state.topic.num.partitions': 1,
    'share.coordinator.state.topic.replication.factor': 1,
    'share.coordinator.state.topic.min.isr': 1,
    // A killed broker may register again only when its last session has expired.
    'broker.session.timeout.ms': 2_000,
    'broker.heartbeat.interval.ms': 500,
    'group.initial.rebalance.delay.ms': 0,
    'message.max.bytes': MESSAGE_MAX_BYTES,
    'replica.fetch.max.bytes': MESSAGE_MAX_BYTES,
    // An index file is mapped in its full size for every partition: small ones keep a stack with
    // a hundred topics cheap.
    'log.index.size.max.bytes': 1024 * 1024,
    'log.cleaner.dedupe.buffer.size': 16 * 1024 * 1024,
    'num.network.threads': 2,
    'num.io.threads': 4,
    'num.recovery.threads.per.data.dir': 2,
  }
  return Object.entries(settings).map(([key, value]) => `${key}=${value}\n`).join('')
}

/** One Kafka node in KRaft mode; formats its folder at the first start. */
export async function kafkaPart (
  options: PartOptions
): Promise<{ spec: ProcessSpec, brokers: string }> {
  await requireJava()
  const jars = await installKafka(options.say)
  const folder = `${options.dataDir}/kafka`
  const ports = {
    broker: await options.ports.port('kafka'),
    controller: await options.ports.port('kafka-controller'),
  }
  const properties = `${folder}/server.properties`
  mkdirSync(folder, { recursive: true })
  writeFileSync(properties, kafkaProperties(ports, folder))
  const classPath = ['-cp', `${jars}/*`]
  if (!existsSync(`${folder}/log/meta.properties`)) await format(classPath, properties)
  const brokers = `127.0.0.1:${ports.broker}`
  const logging = `-Dlog4j2.configurationFile=${import.meta.dirname}/log4j2.xml`
  return {
    brokers,
    spec: {
      name: 'kafka',
      command: 'java',
      args: [...javaArgs(512), logging, ...classPath, 'kafka.Kafka', properties],
      dataDir: options.dataDir,
      ready: () => brokerIsReady(brokers),
      graceMs: 15_000,
    },
  }
}

async function format (classPath: readonly string[], properties: string): Promise<void> {
  const tool = ['kafka.tools.StorageTool', 'format', '-t', clusterId(), '-c', properties]
  await promisify(execFile)('java', [...javaArgs(128), ...classPath, ...tool])
}

/** A random cluster id; one that begins with a dash would be read as an option by the tool. */
function clusterId (): string {
  const id = randomBytes(16).toString('base64url')
  return id.startsWith('-') ? clusterId() : id
}

async function brokerIsReady (brokers: string): Promise<boolean> {
  const client = new Kafka({
    brokers: [brokers], logLevel: logLevel.NOTHING, connectionTimeout: 1_000, retry: { retries: 0 },
  })
  const admin = client.admin()
  try {
    await admin.connect()
    const cluster = await admin.describeCluster()
    return cluster.brokers.length === 1
  } catch {
    return false
  } finally {
    await admin.disconnect().catch(() => undefined)
  }
}
