import { appendFileSync, rmSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import kafkajs, { type AclEntry } from 'kafkajs'
import { kafkaPart } from '../../../deploy/local/kafka.ts'
import { openPortBook } from '../../../deploy/local/ports.ts'
import { startChild } from '../../../deploy/local/process.ts'
import { withAdmin } from '../../../services/runtime/kafka/admin.ts'
import { scramUsersOf } from '../kafka/scram-users.ts'
import { newFolder } from '../folder.ts'

type Account = { readonly username: string, readonly password: string }
type Certificate = { readonly cert: string, readonly key: string }

export type SecureBroker = {
  /** Where it listens with TLS, for those only who sign in: by PLAIN or by SCRAM-SHA-512. */
  readonly address: string
  /** Takes the right to read in any group from a user, and gives it back. */
  readonly deny: (account: Account) => Promise<unknown>
  readonly permit: (account: Account) => Promise<unknown>
  /** Lets a user sign in by SCRAM no more; who is signed in has to do so again within seconds. */
  readonly revoke: (account: Account) => Promise<void>
  /** Lets a user sign in by SCRAM again, with the same password. */
  readonly restore: (account: Account) => Promise<void>
  readonly close: () => Promise<void>
}

/**
 * How long the brokers accept an authentication. The client authenticates again ten seconds
 * before that ends, so it has to be longer.
 */
const SESSION_MS = 11_000

/** A broker as in production: its open listener is only for those who set it up. */
export async function startSecureBroker (
  accounts: readonly Account[], certificate: Certificate
): Promise<SecureBroker> {
  const dataDir = newFolder('verification-jobs-secure-')
  const ports = openPortBook(dataDir)
  const { spec, brokers } = await kafkaPart({ dataDir, ports, say: () => {} })
  const address = `127.0.0.1:${await ports.port('kafka-secure')}`
  appendFileSync(`${dataDir}/kafka/server.properties`,
    listeners({ brokers, address, controller: await ports.port('kafka-controller') },
      accounts, certificate))
  const child = startChild(spec)
  const close = async () => {
    child.kill('SIGKILL')
    await child.exited
    rmSync(dataDir, { recursive: true, force: true })
  }
  try {
    while (!await spec.ready()) await sleep(100)
    const users = scramUsersOf(brokers)
    for (const account of accounts) await users.add(account)
    const open = { brokers: [brokers] }
    return {
      address,
      deny: account => withAdmin(open, admin => admin.createAcls({ acl: [denialOf(account)] })),
      permit: account =>
        withAdmin(open, admin => admin.deleteAcls({ filters: [denialOf(account)] })),
      revoke: users.remove,
      restore: users.add,
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

const { AclOperationTypes, AclPermissionTypes, AclResourceTypes, ResourcePatternTypes } = kafkajs

const denialOf = ({ username }: Account): AclEntry => ({
  principal: `User:${username}`,
  host: '*',
  operation: AclOperationTypes.READ,
  permissionType: AclPermissionTypes.DENY,
  resourceType: AclResourceTypes.GROUP,
  resourceName: '*',
  resourcePatternType: ResourcePatternTypes.LITERAL,
})

type Places = { readonly brokers: string, readonly address: string, readonly controller: number }

/** Of a setting that is there twice the last one counts. */
function listeners (
  { brokers, address, controller }: Places, accounts: readonly Account[],
  { cert, key }: Certificate
): string {
  const both = `PLAINTEXT://${brokers},SASL_SSL://${address}`
  const escaped = (text: string) => text.replaceAll('\n', '\\n')
  const passwords = accounts.map(({ username, password }) => `user_${username}="${password}"`)
    .join(' ')
  const plain = 'org.apache.kafka.common.security.plain.PlainLoginModule'
  const scram = 'org.apache.kafka.common.security.scram.ScramLoginModule'
  const settings = {
    listeners: `${both},CONTROLLER://127.0.0.1:${controller}`,
    'advertised.listeners': both,
    'listener.security.protocol.map':
      'PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL',
    'sasl.enabled.mechanisms': 'PLAIN,SCRAM-SHA-512',
    'listener.name.sasl_ssl.plain.sasl.jaas.config': `${plain} required ${passwords};`,
    'listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config': `${scram} required;`,
    'listener.name.sasl_ssl.scram-sha-512.connections.max.reauth.ms': SESSION_MS,
    // Without a matching rule every operation is allowed, until a test adds one.
    'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
    'allow.everyone.if.no.acl.found': true,
    'super.users': 'User:ANONYMOUS',
    'listener.name.sasl_ssl.ssl.keystore.type': 'PEM',
    'listener.name.sasl_ssl.ssl.keystore.certificate.chain': escaped(cert),
    'listener.name.sasl_ssl.ssl.keystore.key': escaped(key),
  }
  return Object.entries(settings).map(([name, value]) => `${name}=${value}\n`).join('')
}
