import { execFile } from 'node:child_process'
import { appendFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import kafkajs, { type AclEntry } from 'kafkajs'
import { kafkaPart } from '../../deploy/local/kafka.ts'
import { openPortBook } from '../../deploy/local/ports.ts'
import { startChild, type ProcessSpec } from '../../deploy/local/process.ts'
import { withAdmin } from '../../services/lib/kafka/admin.ts'

type Account = { readonly username: string, readonly password: string }
type Certificate = { readonly cert: string, readonly key: string }

export type SecureBroker = {
  /** Where it listens with TLS, for those only who sign in: by PLAIN or by SCRAM-SHA-512. */
  readonly address: string
  /** Takes the right to read in any group from the user, and gives it back. */
  readonly deny: () => Promise<unknown>
  readonly permit: () => Promise<unknown>
  /** Lets the user sign in by SCRAM no more; who is signed in has to do so again within seconds. */
  readonly revoke: () => Promise<void>
  /** Lets the user sign in by SCRAM again, with the same password. */
  readonly restore: () => Promise<void>
  readonly close: () => Promise<void>
}

/**
 * How long the brokers believe a user to be who signed in. The client signs in again ten seconds
 * before that ends, so it has to be longer.
 */
const SESSION_MS = 14_000

/** A broker as in production: its open listener is only for those who set it up. */
export async function startSecureBroker (
  account: Account, certificate: Certificate
): Promise<SecureBroker> {
  const dataDir = mkdtempSync(`${tmpdir()}/verification-jobs-secure-`)
  const ports = openPortBook(dataDir)
  const { spec, brokers } = await kafkaPart({ dataDir, ports, say: () => {} })
  const address = `127.0.0.1:${await ports.port('kafka-secure')}`
  appendFileSync(`${dataDir}/kafka/server.properties`,
    listeners({ brokers, address, controller: await ports.port('kafka-controller') },
      account, certificate))
  const child = startChild(spec)
  const close = async () => {
    child.kill('SIGKILL')
    await child.exited
    rmSync(dataDir, { recursive: true, force: true })
  }
  try {
    while (!await spec.ready()) await sleep(100)
    const change = (...words: readonly string[]) =>
      changeUser(spec, ['--bootstrap-server', brokers, '--entity-name', account.username, ...words])
    const password = `[iterations=4096,password=${account.password}]`
    const restore = () => change('--add-config', `SCRAM-SHA-512=${password}`)
    const revoke = () => change('--delete-config', 'SCRAM-SHA-512')
    await restore()
    const acl = [denialOf(account)]
    const open = { brokers: [brokers] }
    const deny = () => withAdmin(open, admin => admin.createAcls({ acl }))
    const permit = () => withAdmin(open, admin => admin.deleteAcls({ filters: acl }))
    return { address, deny, permit, restore, revoke, close }
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
  { brokers, address, controller }: Places, { username, password }: Account,
  { cert, key }: Certificate
): string {
  const both = `PLAINTEXT://${brokers},SASL_SSL://${address}`
  const escaped = (text: string) => text.replaceAll('\n', '\\n')
  const plain = 'org.apache.kafka.common.security.plain.PlainLoginModule'
  const scram = 'org.apache.kafka.common.security.scram.ScramLoginModule'
  const settings = {
    listeners: `${both},CONTROLLER://127.0.0.1:${controller}`,
    'advertised.listeners': both,
    'listener.security.protocol.map':
      'PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL',
    'sasl.enabled.mechanisms': 'PLAIN,SCRAM-SHA-512',
    'listener.name.sasl_ssl.plain.sasl.jaas.config':
      `${plain} required user_${username}="${password}";`,
    'listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config': `${scram} required;`,
    'listener.name.sasl_ssl.scram-sha-512.connections.max.reauth.ms': SESSION_MS,
    // Everybody may do what no rule is about, until a test makes one.
    'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
    'allow.everyone.if.no.acl.found': true,
    'super.users': 'User:ANONYMOUS',
    'listener.name.sasl_ssl.ssl.keystore.type': 'PEM',
    'listener.name.sasl_ssl.ssl.keystore.certificate.chain': escaped(cert),
    'listener.name.sasl_ssl.ssl.keystore.key': escaped(key),
  }
  return Object.entries(settings).map(([name, value]) => `${name}=${value}\n`).join('')
}

/** Who signs in by SCRAM is no setting but known to the cluster. */
async function changeUser ({ args }: ProcessSpec, words: readonly string[]): Promise<void> {
  const classPath = args.slice(args.indexOf('-cp'), args.indexOf('-cp') + 2)
  await promisify(execFile)('java', [
    '-Xmx128m', ...classPath, 'kafka.admin.ConfigCommand', '--alter', '--entity-type', 'users',
    ...words,
  ])
}
