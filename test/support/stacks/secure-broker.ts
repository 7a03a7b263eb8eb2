import { pbkdf2Sync, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { appendFileSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { openPortBook } from '../../../deploy/local/ports.ts'
import { withAdmin } from '../../../services/runtime/kafka/admin.ts'
import { newFolder } from '../folder.ts'
import { kafkaPart } from '../kafka/own-broker.ts'
import { int16, int32 } from '../kafka/wire.ts'
import { createPart } from './processes.ts'
import { TOKEN_AUDIENCE } from './token-provider.ts'

import kafkajs, { type AclEntry } from 'kafkajs'

type Account = { readonly username: string, readonly password: string }
type Certificate = { readonly cert: string, readonly key: string }

export type SecureBroker = Awaited<ReturnType<typeof startSecureBroker>>

/**
 * How long the brokers accept an authentication. The client authenticates again ten seconds
 * before that ends, so it has to be longer.
 */
const SESSION_MS = 11_000

/** A broker as in production: its open listener is only for those who set it up. */
export async function startSecureBroker (
  accounts: readonly Account[], certificate: Certificate, jwksUrl: string
) {
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
    /**
     * Where it listens with TLS, for those only who sign in: by PLAIN, SCRAM-SHA-512, or a token of
     * the OpenID provider.
     */
    address,
    /** Where it listens with TLS for those only who have the certificate. */
    addressOfCertificates,
    /** Takes the right to read in any group from a user; `permit` gives it back. */
    deny: (account: Account) =>
      withAdmin(open, admin => admin.createAcls({ acl: [denialOf(account)] })),
    permit: (account: Account) =>
      withAdmin(open, admin => admin.deleteAcls({ filters: [denialOf(account)] })),
    /** Lets a user sign in by SCRAM no more; who is signed in has to do so again in seconds. */
    revoke: users.remove,
    /** Lets a user sign in by SCRAM again, with the same password. */
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

type Places =
  Readonly<Record<'brokers' | 'address' | 'addressOfCertificates' | 'jwksUrl', string>> &
  { readonly controller: number }

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

const API_KEY = 51
const SHA_512 = 2
const ITERATIONS = 4_096
/** No tagged fields, which end every part of a message of this kind. */
const NO_TAGS = Buffer.of(0)
const NONE = Buffer.of(1)

/**
 * Changes whom a broker lets sign in by SCRAM-SHA-512, over an open listener: no client for Node
 * can, and Kafka's own tool takes a Java for each change.
 */
function scramUsersOf (broker: string) {
  return {
    add: async ({ username, password }: Account) => {
      const salt = randomBytes(16)
      const salted = pbkdf2Sync(password, salt, ITERATIONS, 64, 'sha512')
      const insertion = [
        compact(Buffer.from(username)), Buffer.of(SHA_512), int32(ITERATIONS), compact(salt),
        compact(salted), NO_TAGS,
      ]
      await alter(broker, [NONE, listOfOne(insertion)])
    },
    remove: async ({ username }: Account) => {
      const deletion = [compact(Buffer.from(username)), Buffer.of(SHA_512), NO_TAGS]
      await alter(broker, [listOfOne(deletion), NONE])
    },
  }
}

/** Asks for one change, whose result must be that of one user and no error. */
async function alter (broker: string, change: readonly Buffer[]): Promise<void> {
  const header = Buffer.concat([int16(API_KEY), int16(0), int32(1), int16(-1), NO_TAGS])
  const request = Buffer.concat([header, ...change, NO_TAGS])
  const [host, port] = broker.split(':')
  const socket = connect(Number(port), host)
  socket.write(Buffer.concat([int32(request.length), request]))
  let answer = Buffer.alloc(0)
  while (answer.length < 4 || answer.length < 4 + answer.readInt32BE(0)) {
    const [chunk] = await once(socket, 'data') as [Buffer]
    answer = Buffer.concat([answer, chunk])
  }
  socket.destroy()
  // Length, id, tags, the time it was held back and the number of users; then name and code.
  const results = 4 + 4 + 1 + 4
  const code = answer.readInt16BE(results + 1 + (answer[results + 1] ?? 0))
  if (code !== 0) throw new Error(`the broker refused to change a user: error ${code}`)
}

/** Bytes with their length, plus one, in front; as one byte, so they must be few. */
const compact = (bytes: Buffer) => Buffer.concat([Buffer.of(bytes.length + 1), bytes])
const listOfOne = (item: readonly Buffer[]) => Buffer.concat([Buffer.of(2), ...item])
