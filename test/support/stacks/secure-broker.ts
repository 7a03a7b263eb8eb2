import { appendFileSync, rmSync } from 'node:fs'
import kafkajs, { type AclEntry } from 'kafkajs'
import { kafkaPart } from '../kafka/own-broker.ts'
import { openPortBook } from '../../../deploy/local/ports.ts'
import { withAdmin } from '../../../services/runtime/kafka/admin.ts'
import { scramUsersOf } from '../kafka/scram-users.ts'
import { createPart } from './part.ts'
import { TOKEN_AUDIENCE } from './token-provider.ts'
import { newFolder } from '../folder.ts'

type Account = { readonly username: string, readonly password: string }
type Certificate = { readonly cert: string, readonly key: string }

export type SecureBroker = {
  /**
   * Where it listens with TLS, for those only who sign in: by PLAIN, SCRAM-SHA-512, or a token of
   * the OpenID provider.
   */
  readonly address: string
  /** Where it listens with TLS for those only who have the certificate. */
  readonly addressOfCertificates: string
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
  accounts: readonly Account[], certificate: Certificate, jwksUrl: string
): Promise<SecureBroker> {
  const dataDir = newFolder('verification-jobs-secure-')
  const ports = openPortBook(dataDir)
  const { spec, brokers } = await kafkaPart({ dataDir, ports, say: () => {} })
  const address = `127.0.0.1:${await ports.port('kafka-secure')}`
  const addressOfCertificates = `127.0.0.1:${await ports.port('kafka-certificates')}`
  const controller = await ports.port('kafka-controller')
  appendFileSync(`${dataDir}/kafka/server.properties`,
    listeners({ brokers, address, addressOfCertificates, controller, jwksUrl },
      accounts, certificate))
  // A broker fetches keys only from where its operator says.
  const allowed = `-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=${jwksUrl}`
  const part = createPart({ ...spec, args: [allowed, ...spec.args] })
  await part.up()
  const users = scramUsersOf(brokers)
  for (const account of accounts) await users.add(account)
  const open = { brokers: [brokers] }
  return {
    address,
    addressOfCertificates,
    deny: account => withAdmin(open, admin => admin.createAcls({ acl: [denialOf(account)] })),
    permit: account =>
      withAdmin(open, admin => admin.deleteAcls({ filters: [denialOf(account)] })),
    revoke: users.remove,
    restore: users.add,
    close: async () => {
      await part.down()
      rmSync(dataDir, { recursive: true, force: true })
    },
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

type Places = Pick<SecureBroker, 'address' | 'addressOfCertificates'> & {
  readonly brokers: string
  readonly controller: number
  readonly jwksUrl: string
}

/** Of a setting that is there twice the last one counts. */
function listeners (
  { brokers, address, addressOfCertificates, controller, jwksUrl }: Places,
  accounts: readonly Account[], { cert, key }: Certificate
): string {
  const open = `PLAINTEXT://${brokers},SASL_SSL://${address},SSL://${addressOfCertificates}`
  const escaped = (text: string) => text.replaceAll('\n', '\\n')
  const passwords = accounts.map(({ username, password }) => `user_${username}="${password}"`)
    .join(' ')
  const plain = 'org.apache.kafka.common.security.plain.PlainLoginModule'
  const oauth = 'org.apache.kafka.common.security.oauthbearer'
  const scram = 'org.apache.kafka.common.security.scram.ScramLoginModule'
  const settings = {
    listeners: `${open},CONTROLLER://127.0.0.1:${controller}`,
    'advertised.listeners': open,
    'listener.security.protocol.map':
      'PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL',
    'sasl.enabled.mechanisms': 'PLAIN,SCRAM-SHA-512,OAUTHBEARER',
    'listener.name.sasl_ssl.plain.sasl.jaas.config': `${plain} required ${passwords};`,
    'listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config': `${scram} required;`,
    'listener.name.sasl_ssl.scram-sha-512.connections.max.reauth.ms': SESSION_MS,
    'listener.name.sasl_ssl.oauthbearer.sasl.jaas.config':
      `${oauth}.OAuthBearerLoginModule required;`,
    'listener.name.sasl_ssl.oauthbearer.sasl.server.callback.handler.class':
      `${oauth}.OAuthBearerValidatorCallbackHandler`,
    'listener.name.sasl_ssl.oauthbearer.sasl.oauthbearer.jwks.endpoint.url': jwksUrl,
    'listener.name.sasl_ssl.oauthbearer.sasl.oauthbearer.expected.audience': TOKEN_AUDIENCE,
    // Without a matching rule every operation is allowed, until a test adds one.
    'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
    'allow.everyone.if.no.acl.found': true,
    'super.users': 'User:ANONYMOUS',
    'ssl.keystore.type': 'PEM',
    'ssl.keystore.certificate.chain': escaped(cert),
    'ssl.keystore.key': escaped(key),
    'ssl.truststore.type': 'PEM',
    'ssl.truststore.certificates': escaped(cert),
    'listener.name.ssl.ssl.client.auth': 'required',
  }
  return Object.entries(settings).map(([name, value]) => `${name}=${value}\n`).join('')
}
