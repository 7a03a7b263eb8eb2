import kafkajs, { Kafka, logLevel, type Admin, type AclEntry } from 'kafkajs'
import { InfrastructureError } from '../platform/errors.ts'
import { retry } from '../platform/retry.ts'
import { logicalTopic, type RealTopic } from '../platform/topics.ts'
import { kafkaOptionsOf, type KafkaConnection } from './connection.ts'
import { refusalOf } from './errors.ts'

export type Setting = { readonly name: string, readonly value: string }

/** One thing a principal may do, as brokers with an authorizer know it. */
export type AccessRule = {
  readonly principal: string
  readonly kind: 'topic' | 'group'
  readonly name: string
  /** True for everything whose name begins like this. */
  readonly prefix: boolean
  readonly operation: 'read' | 'write' | 'describe' | 'delete'
}

export type TopicsOptions = {
  /** Copies of each topic; the brokers' own setting when undefined. */
  readonly replication?: number | undefined
  readonly minInsync?: number | undefined
}

// Node finds only some names of a CommonJS library; the others are on its default export.
const { AclOperationTypes, AclPermissionTypes, AclResourceTypes, ResourcePatternTypes } = kafkajs
const HOUR_MS = 3_600_000
const COMPACTED_WITHIN_MS = 600_000

/**
 * How long messages are kept, and how many copies have to acknowledge them. What partners compress
 * with whatever their producers know, brokers turn into what every reader here can read.
 */
export function settingsOf (topic: RealTopic, minInsync: number | undefined): readonly Setting[] {
  const { name, keepHours, compact } = topic
  const isForeign = logicalTopic(name)?.topic === 'feeds.submitted'
  const keptMs = String(keepHours < 0 ? -1 : keepHours * HOUR_MS)
  const settings = [
    { name: 'cleanup.policy', value: compact ? 'compact,delete' : 'delete' },
    { name: 'retention.ms', value: keptMs },
    // What was taken back is out of the topic soon, however little is written to it.
    ...compact ? [{ name: 'max.compaction.lag.ms', value: String(COMPACTED_WITHIN_MS) }] : [],
    // That it was taken back is known as long, for stores that come back from an old file.
    ...compact && keepHours >= 0 ? [{ name: 'delete.retention.ms', value: keptMs }] : [],
    ...isForeign ? [{ name: 'compression.type', value: 'gzip' }] : [],
  ]
  if (minInsync === undefined) return settings
  return [...settings, { name: 'min.insync.replicas', value: String(minInsync) }]
}

/**
 * Works as administrator of the brokers, and disconnects whatever happens.
 * @throws InfrastructureError that names the settings when the brokers refuse this user.
 */
export async function withAdmin<T> (
  connection: KafkaConnection, work: (admin: Admin) => Promise<T>
): Promise<T> {
  const kafka = new Kafka({
    clientId: 'admin', ...kafkaOptionsOf(connection), logLevel: logLevel.NOTHING,
  })
  const admin = kafka.admin()
  try {
    await admin.connect()
    return await work(admin)
  } catch (error) {
    throw explained(error)
  } finally {
    await admin.disconnect()
  }
}

function explained (error: unknown): unknown {
  const refusal = refusalOf(error)
  return refusal === undefined ? error : new InfrastructureError(refusal, { cause: error })
}

/** Whether the brokers have a topic; throws when they are not to be had. */
export async function hasTopic (connection: KafkaConnection, name: string): Promise<boolean> {
  return (await withAdmin(connection, admin => admin.listTopics())).includes(name)
}

/** Creates topics; the names of those that are there already are left alone. */
export async function createTopics (
  admin: Admin, topics: readonly RealTopic[], options: TopicsOptions
): Promise<void> {
  const { replication = -1, minInsync } = options
  const existing = new Set(await admin.listTopics())
  const missing = topics.filter(({ name }) => !existing.has(name))
  if (missing.length === 0) return
  await admin.createTopics({
    // The client's own wait gives up at the first broker that has not heard of the topics yet.
    waitForLeaders: false,
    timeout: 30_000,
    topics: missing.map(topic => ({
      topic: topic.name,
      numPartitions: topic.partitions,
      replicationFactor: replication,
      configEntries: [...settingsOf(topic, minInsync)],
    })),
  })
  await untilLed(admin, missing.map(({ name }) => name))
}

const LEADER_TRIES = 100
const NOT_YET: readonly unknown[] = ['UNKNOWN_TOPIC_OR_PARTITION', 'LEADER_NOT_AVAILABLE']

/** Resolves when every partition of the topics can be written to. */
export async function untilLed (admin: Admin, names: readonly string[]): Promise<void> {
  await retry(LEADER_TRIES, async () => {
    const { topics } = await admin.fetchTopicMetadata({ topics: [...names] })
    const led = topics.filter(({ partitions }) =>
      partitions.length > 0 && partitions.every(({ leader }) => leader >= 0))
    if (led.length === names.length) return
    throw Object.assign(new Error('some new topics have no leader'), {
      type: 'LEADER_NOT_AVAILABLE',
    })
  }, { maxMs: 500, when: error => NOT_YET.includes((error as { type?: unknown }).type) })
}

/**
 * Creates rules of access; those that are there already stay. False on brokers that have no
 * authorizer and let everybody in.
 */
export async function allow (admin: Admin, rules: readonly AccessRule[]): Promise<boolean> {
  try {
    await admin.createAcls({ acl: rules.map(aclOf) })
    return true
  } catch (error) {
    if ((error as { type?: unknown }).type === 'SECURITY_DISABLED') return false
    throw error
  }
}

/**
 * Removes what principals are allowed beyond these rules, on any resource, and resolves to how much
 * that was. What they are denied stays, and so does everything of other principals.
 */
export async function disallowBeyond (admin: Admin, rules: readonly AccessRule[]): Promise<number> {
  const wanted = new Set(rules.map(rule => textOf(aclOf(rule))))
  const principals = new Set(rules.map(({ principal }) => principal))
  const { resources } = await admin.describeAcls(ALLOWED)
  const surplus = resources.flatMap(({ acls, ...resource }) => acls.map(acl => ({
    ...acl,
    resourceType: resource.resourceType,
    resourceName: resource.resourceName,
    resourcePatternType: resource.resourcePatternType,
  }))).filter(acl => principals.has(acl.principal) && !wanted.has(textOf(acl)))
  if (surplus.length > 0) await admin.deleteAcls({ filters: surplus })
  return surplus.length
}

const textOf = (acl: AclEntry): string => [
  acl.principal, acl.host, acl.operation, acl.permissionType,
  acl.resourceType, acl.resourceName, acl.resourcePatternType,
].join(' ')

const ALLOWED = {
  resourceType: AclResourceTypes.ANY,
  resourcePatternType: ResourcePatternTypes.ANY,
  operation: AclOperationTypes.ANY,
  permissionType: AclPermissionTypes.ALLOW,
}

const RESOURCES = { topic: AclResourceTypes.TOPIC, group: AclResourceTypes.GROUP } as const
const OPERATIONS = {
  read: AclOperationTypes.READ,
  write: AclOperationTypes.WRITE,
  describe: AclOperationTypes.DESCRIBE,
  delete: AclOperationTypes.DELETE,
} as const

function aclOf ({ principal, kind, name, prefix, operation }: AccessRule): AclEntry {
  return {
    principal,
    host: '*',
    operation: OPERATIONS[operation],
    permissionType: AclPermissionTypes.ALLOW,
    resourceType: RESOURCES[kind],
    resourceName: name,
    resourcePatternType: prefix ? ResourcePatternTypes.PREFIXED : ResourcePatternTypes.LITERAL,
  }
}
