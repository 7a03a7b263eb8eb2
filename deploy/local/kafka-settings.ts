import { X509Certificate } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import type { KafkaConnection } from '../../services/runtime/kafka/connection.ts'
import { STAGES } from '../../services/topology.ts'
import type { Access, Account } from './access.ts'

type Ports = { readonly broker: number, readonly controller: number }
type Settings = Readonly<Record<string, string>>

/** A broker that is a controller too, the `id`-th (from 1) of its cluster. */
export type KafkaNode = {
  readonly id: number
  readonly cluster: readonly Ports[]
  readonly access?: Access | undefined
}

/** Largest batch of records the broker takes; a sealed chunk has at most 256 KiB of it. */
const MESSAGE_MAX_BYTES = 2 * 1024 * 1024
const MAX_COPIES = 3

/**
 * The settings of a broker: as many of three copies as there are brokers, and all but one of them
 * have to acknowledge a write.
 */
export function kafkaProperties (
  ports: Ports, dataDir: string,
  { id, cluster, access }: KafkaNode = { id: 1, cluster: [ports] }
): string {
  const voters = cluster.map(({ controller }, index) => `${index + 1}@127.0.0.1:${controller}`)
  const copies = Math.min(cluster.length, MAX_COPIES)
  const inSync = Math.max(1, copies - 1)
  const settings = {
    'process.roles': 'broker,controller',
    'node.id': id,
    'controller.quorum.voters': voters.join(),
    ...access === undefined ? openListeners(ports) : secureListeners(ports, access),
    'controller.listener.names': 'CONTROLLER',
    'log.dirs': `${dataDir}/log`,
    'auto.create.topics.enable': false,
    'default.replication.factor': copies,
    'min.insync.replicas': inSync,
    'offsets.topic.num.partitions': 4,
    'offsets.topic.replication.factor': copies,
    'transaction.state.log.num.partitions': 2,
    'transaction.state.log.replication.factor': copies,
    'transaction.state.log.min.isr': inSync,
    'share.coordinator.state.topic.num.partitions': 1,
    'share.coordinator.state.topic.replication.factor': copies,
    'share.coordinator.state.topic.min.isr': inSync,
    // A killed broker may register again only when its last session has expired. Where others take
    // its place, one that is merely slow must not be taken for dead.
    'broker.session.timeout.ms': cluster.length === 1 ? 2_000 : 4_000,
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

/** How a broker listens that lets everybody of this machine in. */
function openListeners (ports: Ports): Settings {
  const broker = `PLAINTEXT://127.0.0.1:${ports.broker}`
  return {
    listeners: `${broker},CONTROLLER://127.0.0.1:${ports.controller}`,
    'advertised.listeners': broker,
    'listener.security.protocol.map': 'PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT',
    'inter.broker.listener.name': 'PLAINTEXT',
  }
}

/**
 * How a broker listens as in production: only with TLS; brokers and clients sign in by
 * SCRAM, controllers know each other by their certificate, and others than the administrator may do
 * only what a rule of access allows.
 */
function secureListeners (ports: Ports, { accounts, certificate }: Access): Settings {
  const broker = `SASL_SSL://127.0.0.1:${ports.broker}`
  const chain = escaped(certificate.cert)
  // By it controllers know each other.
  const { subject } = new X509Certificate(certificate.cert)
  const superUsers = [accounts.broker, accounts.kafka].map(({ username }) => username)
  return {
    listeners: `${broker},CONTROLLER://127.0.0.1:${ports.controller}`,
    'advertised.listeners': broker,
    'listener.security.protocol.map': 'SASL_SSL:SASL_SSL,CONTROLLER:SSL',
    'inter.broker.listener.name': 'SASL_SSL',
    'sasl.mechanism.inter.broker.protocol': 'SCRAM-SHA-512',
    'sasl.enabled.mechanisms': 'SCRAM-SHA-512',
    'listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config': scramLogin(accounts.broker),
    'listener.name.controller.ssl.client.auth': 'required',
    'ssl.keystore.type': 'PEM',
    'ssl.keystore.certificate.chain': chain,
    'ssl.keystore.key': escaped(certificate.key),
    'ssl.truststore.type': 'PEM',
    'ssl.truststore.certificates': chain,
    'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
    'super.users': [...superUsers, subject].map(name => `User:${name}`).join(';'),
  }
}

/** How the stack itself, and commands, reach a broker. */
export function clientConnection (port: number, access: Access | undefined): KafkaConnection {
  const brokers = [`127.0.0.1:${port}`]
  if (access === undefined) return { brokers }
  return { brokers, ssl: true, sasl: { mechanism: 'scram-sha-512', ...access.accounts.kafka } }
}

/**
 * The arguments of a Java program in a file, to be given as `@<file>`: passwords among arguments
 * could be read by everybody of the machine.
 */
export function argumentsFile (file: string, words: readonly string[]): string {
  const quoted = words.map(word => `"${word.replaceAll(/["\\]/g, '\\$&')}"\n`)
  writeFileSync(file, quoted.join(''), { mode: 0o600 })
  return `@${file}`
}

/** What the tool that formats a folder has to know of those who sign in. */
export function scramArguments (access: Access | undefined): readonly string[] {
  if (access === undefined) return []
  const names = ['broker', 'kafka', ...STAGES] as const
  return names.map(name => access.accounts[name]).flatMap(({ username, password }) =>
    ['--add-scram', `SCRAM-SHA-512=[name=${username},password=${password}]`])
}

/** A line break is written as two characters in a file of properties. */
const escaped = (text: string) => text.replaceAll('\n', '\\n')

function scramLogin ({ username, password }: Account): string {
  return 'org.apache.kafka.common.security.scram.ScramLoginModule required ' +
    `username="${username}" password="${password}";`
}
