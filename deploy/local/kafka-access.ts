import { X509Certificate } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import type { KafkaConnection } from '../../services/runtime/kafka/connection.ts'
import { STAGES } from '../../services/topology.ts'
import type { Access, Account } from './access.ts'

type Ports = { readonly broker: number, readonly controller: number }
type Settings = Readonly<Record<string, string>>

/** How a broker listens that lets everybody of this machine in. */
export function openListeners (ports: Ports): Settings {
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
export function secureListeners (ports: Ports, { accounts, certificate }: Access): Settings {
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
