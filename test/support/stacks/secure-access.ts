import { readFileSync } from 'node:fs'
import kafkajs, { Kafka, logLevel, type Admin, type Producer } from 'kafkajs'
import {
  loadConfig, pick, commonConfig, kafkaKeys,
} from '../../../services/runtime/platform/config.ts'
import {
  kafkaTypeOf, kafkaConnectionOf, kafkaOptionsOf,
} from '../../../services/runtime/kafka/connection.ts'
import Type from 'typebox'
import type { SecureEnvironment } from './secure-stack.ts'

const config = Type.Object(pick(commonConfig, kafkaKeys))
const { AclOperationTypes, AclPermissionTypes, AclResourceTypes, ResourcePatternTypes } = kafkajs

/** Works at the brokers of a stack as a stage does, or as its administrator where none is named. */
export async function atBrokers<T> (
  { env, stack }: Pick<SecureEnvironment, 'env' | 'stack'>, stage: string | undefined,
  work: (clients: { readonly admin: Admin, readonly producer: Producer }) => Promise<T>
): Promise<T> {
  const own = { ...env, ...stage === undefined ? {} : stack.envOf[stage] }
  const kafka = new Kafka({
    ...kafkaOptionsOf(kafkaConnectionOf(loadConfig(config, own))), logLevel: logLevel.NOTHING,
  })
  const clients = {
    admin: kafka.admin(), producer: kafka.producer({ allowAutoTopicCreation: false }),
  }
  await Promise.all([clients.admin.connect(), clients.producer.connect()])
  try {
    return await work(clients)
  } finally {
    await Promise.all([clients.admin.disconnect(), clients.producer.disconnect()])
  }
}

/** `done`, or the name of the error that brokers answered with or the client made of it. */
export const answerOf = async (asking: Promise<unknown>): Promise<string> =>
  await asking.then(() => 'done', (error: Error) => kafkaTypeOf(error) || error.name)

/** What brokers allow, a line a rule. */
export async function rulesAt (admin: Admin): Promise<readonly string[]> {
  const { resources } = await admin.describeAcls({
    resourceType: AclResourceTypes.ANY,
    resourcePatternType: ResourcePatternTypes.ANY,
    operation: AclOperationTypes.ANY,
    permissionType: AclPermissionTypes.ANY,
  })
  return resources.flatMap(({ acls, ...on }) => acls.map(acl => [
    acl.principal, acl.permissionType, acl.operation,
    on.resourceType, on.resourceName, on.resourcePatternType,
  ].join(' '))).toSorted()
}

/** Lets principals write a topic, as an operator would by hand. */
export async function allowWriting (
  admin: Admin, resourceName: string, principals: readonly string[]
): Promise<void> {
  await admin.createAcls({
    acl: principals.map(principal => ({
      principal,
      host: '*',
      operation: AclOperationTypes.WRITE,
      permissionType: AclPermissionTypes.ALLOW,
      resourceType: AclResourceTypes.TOPIC,
      resourceName,
      resourcePatternType: ResourcePatternTypes.LITERAL,
    })),
  })
}

/** Lines of the logs of all services that report something the brokers deny. */
export function denials ({ services }: Pick<SecureEnvironment, 'services'>): readonly string[] {
  return services.list().flatMap(({ name }) =>
    readFileSync(`${services.dataDir}/logs/${name}.log`, 'utf8').split('\n')
      .filter(line => line.includes('AUTHORIZATION_FAILED')))
}
