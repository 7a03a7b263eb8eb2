import { execFile } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import kafkajs, { Kafka, logLevel } from 'kafkajs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { alignAccess } from '../../deploy/provision/access.ts'
import { findDifferences } from '../../deploy/provision/check.ts'
import { createTopics } from '../../deploy/provision/topics.ts'
import { withAdmin } from '../../services/runtime/kafka/admin.ts'
import {
  toKafkaOptions, type KafkaConnection, kafkaErrorType,
} from '../../services/runtime/kafka/connection.ts'
import { DEFAULT_PARTITIONS } from '../../services/runtime/platform/topics.ts'
import { stackEnv } from '../support/stacks/stack.ts'
import { eventually } from '../support/eventually.ts'
import { requireJava } from '../../deploy/local/java.ts'
import { installKafka, javaArgs } from '../../deploy/local/parts.ts'
import { freePort } from '../../deploy/local/ports.ts'
import { startChild } from '../../deploy/local/process.ts'
import { composeModel, newSecrets } from '../support/deploy/compose.ts'
import { newFolder } from '../support/folder.ts'

const { AclOperationTypes, AclPermissionTypes, AclResourceTypes, ResourcePatternTypes } = kafkajs

type ComposeBroker = {
  /** How a user of `compose.yaml` connects: `admin`, or a stage. */
  readonly as: (user: string) => KafkaConnection
  readonly address: string
  readonly close: () => Promise<void>
}

/** The broker with the settings that `compose.yaml` gives its container, at ports of its own. */
async function startComposeBroker (): Promise<ComposeBroker> {
  await requireJava()
  const jars = await installKafka(() => {})
  const folder = newFolder('verification-jobs-compose-')
  const secrets = newSecrets()
  const ports = { 9092: await freePort(), 9093: await freePort(), 9094: await freePort() }
  const properties = `${folder}/server.properties`
  writeFileSync(properties, propertiesOf(secrets, ports, folder), { mode: 0o600 })
  const java = [...await javaArgs(256, jars), '-cp', `${jars}/*`]
  await promisify(execFile)('java', [...java, 'kafka.tools.StorageTool', 'format',
    '-t', 'MkU3OEVBNTcwNTJENDM2Qg', '-c', properties])
  const child = startChild({
    name: 'kafka',
    command: 'java',
    args: [...java, 'kafka.Kafka', properties],
    dataDir: folder,
    ready: async () => true,
    graceMs: 1_000,
  })
  const address = `127.0.0.1:${ports[9092]}`
  const as = (user: string): KafkaConnection => ({
    brokers: [address],
    sasl: {
      mechanism: 'plain',
      username: user,
      password: secrets[`KAFKA_PASSWORD_${user.toUpperCase()}`] ?? '',
    },
  })
  const isUp = () => withAdmin(as('admin'), admin => admin.listTopics())
    .then(() => true, () => false)
  while (!await isUp()) await sleep(100)
  const close = async () => {
    child.kill('SIGKILL')
    await child.exited
    rmSync(folder, { recursive: true, force: true })
  }
  return { as, address, close }
}

/** The image of the broker makes a property of each variable: `KAFKA_LOG_DIRS` is `log.dirs`. */
function propertiesOf (
  secrets: Readonly<Record<string, string>>, ports: Readonly<Record<string, number>>, folder: string
): string {
  const { environment } = composeModel(secrets).services['kafka'] ?? {}
  const settings = Object.entries(environment ?? {}).map(([name, value]) => {
    const key = name.replace(/^KAFKA_/, '').toLowerCase().replaceAll('_', '.')
    if (key === 'log.dirs') return [key, `${folder}/log`]
    const here = value.replaceAll('kafka:', '127.0.0.1:')
      .replace(/:(909[234])\b/g, (_, port: string) => `:${ports[port]}`)
    return [key, here]
  })
  return settings.map(([key, value]) => `${key}=${value}\n`).join('')
}

let broker: ComposeBroker
beforeAll(async () => { broker = await startComposeBroker() })
afterAll(() => broker?.close())

/** `done`, or the name of the error that the broker answered a message with. */
async function sent (connection: KafkaConnection, topic: string): Promise<string> {
  const kafka = new Kafka({
    ...toKafkaOptions(connection), logLevel: logLevel.NOTHING, retry: { retries: 2 },
  })
  const producer = kafka.producer({ allowAutoTopicCreation: false })
  try {
    await producer.connect()
    await producer.send({ topic, messages: [{ key: 'key', value: null }] })
    return 'done'
  } catch (error) {
    return kafkaErrorType(error) || (error as Error).name
  } finally {
    await producer.disconnect()
  }
}

it('the broker of compose.yaml ' +
  'allows each stage what provision grants, and nothing without a password', async () => {
  const said: string[] = []
  const say = (line: string) => { said.push(line) }
  const connection = broker.as('admin')
  await createTopics({ connection, say: () => {} })
  const denied = 'TOPIC_AUTHORIZATION_FAILED'
  expect(await sent(broker.as('verify'), 'verify.dead')).toBe(denied)
  await withAdmin(broker.as('verify'), admin => alignAccess(admin, 'manage', say))
  expect(said.splice(0)).toEqual([expect.stringMatching(
    /^warning: ACLs: the brokers refuse them to this user \(CLUSTER_AUTHORIZATION_FAILED\)/)])
  await withAdmin(connection, admin => alignAccess(admin, 'check', say))
  expect(said.splice(0)).toContain('warning: ACLs: User:verify lacks write on topic verify.dead')
  await withAdmin(connection, admin => alignAccess(admin, 'manage', say))
  // A broker receives new rules from its controller.
  await eventually(async () => {
    expect(await sent(broker.as('verify'), 'verify.dead')).toBe('done')
    expect(await sent(broker.as('ledger'), 'wallet.journal')).toBe('done')
    await withAdmin(connection, admin => alignAccess(admin, 'check', say))
    expect(said.at(-1)).toBe('ACLs: compared, 0 missing, 0 others of the stages')
  })
  const check = (user: string) => findDifferences({
    connection: broker.as(user),
    partitions: DEFAULT_PARTITIONS,
    accessRules: 'manage',
    registryUrl: stackEnv()['SCHEMA_REGISTRY_URL']!,
  })
  expect(await check('admin')).toEqual([])
  await withAdmin(connection, admin => admin.createAcls({
    acl: [AclOperationTypes.DESCRIBE, AclOperationTypes.DESCRIBE_CONFIGS].map(operation => ({
      principal: 'User:verify',
      host: '*',
      operation,
      permissionType: AclPermissionTypes.ALLOW,
      resourceType: AclResourceTypes.TOPIC,
      resourceName: '*',
      resourcePatternType: ResourcePatternTypes.LITERAL,
    })),
  }))
  await eventually(async () => expect(await check('verify')).toMatchObject([
    { of: 'rules of access', is: 'hidden (CLUSTER_AUTHORIZATION_FAILED)' },
  ]))
  await withAdmin(connection, admin => alignAccess(admin, 'manage', say))
  expect(await sent(broker.as('verify'), 'wallet.journal')).toBe(denied)
  // Of deployments with different prefixes, each has its own rules, in any order.
  await withAdmin({ ...connection, prefix: 'eu.' }, async admin => {
    await alignAccess(admin, 'manage', () => {}, 'eu.')
    await withAdmin(connection, plain => alignAccess(plain, 'manage', say))
    expect(said.at(-1)).toMatch(/ 0 others deleted$/)
    await alignAccess(admin, 'check', say, 'eu.')
    expect(said.at(-1)).toBe('ACLs: compared, 0 missing, 0 others of the stages')
  })
  const wrong = { mechanism: 'plain', username: 'verify', password: 'wrong' } as const
  expect(await sent({ brokers: [broker.address], sasl: wrong }, 'verify.dead'))
    .toBe('KafkaJSSASLAuthenticationError')
})
