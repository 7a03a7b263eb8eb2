import kafkajs, { logLevel, type AclEntry } from 'kafkajs'
import Type, { type Static } from 'typebox'
import { InfrastructureError } from '../platform/errors.ts'
import { retry } from '../platform/retry.ts'
import {
  deadTopic, logicalTopic, type RealTopic, listSubscriptions, topicPattern, TOPICS_BY_JOB,
} from '../platform/topics.ts'
import { createKafka, type KafkaAdmin, withClientAdmin } from './client.ts'
import { type KafkaConnection, describeAccessError, kafkaErrorType } from './connection.ts'
import { READING_STAGES, STAGES, topology, type StageName, type TopicName } from '../../topology.ts'

export type Setting = { readonly name: string, readonly value: string }

/** An ACL that allows one operation to a principal. */
export type AccessRule = {
  readonly principal: string
  readonly kind: 'topic' | 'group'
  readonly name: string
  /** True for all resources whose name starts with `name`. */
  readonly prefix: boolean
  readonly operation: 'read' | 'write' | 'describe' | 'delete'
}

/** What an installation chooses for its topics, and who sets their rules. */
export const topicConfig = {
  KAFKA_ACCESS_RULES: Type.Enum(['manage', 'check', 'off'], {
    default: 'manage',
    description: 'Whether the ACLs of the stages and partners are set, only compared, or left to ' +
      'others.',
  }),
  TOPIC_REPLICATION: Type.Optional(Type.Integer({
    minimum: 1, description: 'Copies of every topic; as the brokers are set up when left out.',
  })),
  TOPIC_MIN_INSYNC: Type.Optional(Type.Integer({
    minimum: 1,
    description: 'Copies that acknowledge a write; as the brokers are set up when left out.',
  })),
  TOPIC_COMPACTION_LAG_MS: Type.Integer({
    default: 600_000,
    minimum: 1,
    description: 'Time in ms after which an erased key has left its topic ' +
      '(max.compaction.lag.ms), for brokers that want a longer one.',
  }),
  TOPIC_COMPRESSION: Type.Enum(['gzip', 'zstd', 'producer'], {
    default: 'gzip',
    description: 'Codec that brokers recompress contacts of partners with, so that services can ' +
      'read whatever codec a partner uses. With "producer", for brokers that fix it, partners ' +
      'have to use gzip, zstd or none.',
  }),
}

export type TopicsOptions = Partial<Static<Type.TObject<typeof topicConfig>>> & {
  /** Gets a warning for each setting that the brokers refuse. */
  readonly say?: ((line: string) => void) | undefined
}

// Node detects only some exports of a CommonJS library; the others are on its default export.
const { AclOperationTypes, AclPermissionTypes, AclResourceTypes, ResourcePatternTypes } = kafkajs
/** The error of brokers that store no rules. */
export const NO_AUTHORIZER = 'SECURITY_DISABLED'
/** How long tombstones stay where messages are kept forever. */
const TOMBSTONE_HOURS = 2_184
const HOUR_MS = 3_600_000

/**
 * The settings of a topic: cleanup policy, retention and in-sync replicas. Partners may compress
 * with any codec, so the brokers recompress their topics with one that every consumer can read.
 */
export function toTopicSettings (
  topic: RealTopic, {
    TOPIC_MIN_INSYNC: minInsync, TOPIC_COMPACTION_LAG_MS: compactionLagMs = 600_000,
    TOPIC_COMPRESSION: compression = 'gzip',
  }: TopicsOptions = {}
): readonly Setting[] {
  const { name, keepHours, compact } = topic
  const isFromPartners = logicalTopic(name)?.topic === 'feeds.submitted'
  const tombstoneHours = keepHours < 0 ? TOMBSTONE_HOURS : keepHours
  const retentionMs = String(keepHours < 0 ? -1 : keepHours * HOUR_MS)
  const settings = [
    { name: 'cleanup.policy', value: compact ? 'compact,delete' : 'delete' },
    { name: 'retention.ms', value: retentionMs },
    // An erased key leaves the topic soon, however little is written to it.
    ...compact ? [{ name: 'max.compaction.lag.ms', value: String(compactionLagMs) }] : [],
    // Tombstones live as long as messages, for stores that are restored from an old backup.
    ...compact
      ? [{ name: 'delete.retention.ms', value: String(tombstoneHours * HOUR_MS) }]
      : [],
    ...isFromPartners ? [{ name: 'compression.type', value: compression }] : [],
  ]
  if (minInsync === undefined) return settings
  return [...settings, { name: 'min.insync.replicas', value: String(minInsync) }]
}

/**
 * Runs an action with a connected admin client and disconnects it afterwards.
 * @throws InfrastructureError with the settings to fix when the brokers reject this user.
 */
export async function withAdmin<T> (
  connection: KafkaConnection, work: (admin: KafkaAdmin) => Promise<T>
): Promise<T> {
  const kafka = createKafka(connection, { clientId: 'admin', logLevel: logLevel.NOTHING })
  try {
    return await withClientAdmin(kafka, work)
  } catch (error) {
    const refusal = describeAccessError(error)
    throw refusal === undefined ? error : new InfrastructureError(refusal, { cause: error })
  }
}

/** The names of all topics; throws when the brokers are unavailable. */
export async function topicNames (connection: KafkaConnection): Promise<ReadonlySet<string>> {
  return new Set(await withAdmin(connection, admin => admin.listTopics()))
}

/** Creates topics; topics that exist are not changed. */
export async function createTopics (
  admin: KafkaAdmin, topics: readonly RealTopic[], options: TopicsOptions
): Promise<void> {
  const { TOPIC_REPLICATION: replicationFactor = -1 } = options
  const existing = new Set(await admin.listTopics())
  const missing = topics.filter(({ name }) => !existing.has(name))
  if (missing.length === 0) return
  const create = (some: readonly TopicSettings[], validateOnly: boolean) => admin.createTopics({
    // The wait of the client fails at the first broker without metadata of the topics.
    waitForLeaders: false,
    timeout: 30_000,
    validateOnly,
    topics: some.map(({ topic, settings }) => ({
      topic: topic.name,
      numPartitions: topic.partitions,
      replicationFactor,
      configEntries: [...settings],
    })),
  })
  await applySettings(
    missing.map(topic => ({ topic, settings: toTopicSettings(topic, options) })),
    { apply: create, say: options.say })
  await waitForLeaders(admin, missing.map(({ name }) => name))
}

/** A topic with the settings that it is to have. */
export type TopicSettings = { readonly topic: RealTopic, readonly settings: readonly Setting[] }

/** Without these no message is lost: erased keys stay longer, or fewer copies answer. */
const OPTIONAL_SETTINGS: ReadonlySet<string> = new Set([
  'max.compaction.lag.ms', 'delete.retention.ms', 'compression.type', 'min.insync.replicas',
])
const REFUSALS: readonly string[] = ['INVALID_CONFIG', 'POLICY_VIOLATION']

/**
 * Applies the settings of topics, without those that the brokers refuse for any topic: many managed
 * ones fix some. Their answer names no setting, so each is validated alone.
 * @throws InfrastructureError naming the topics, or refused settings that they cannot go without.
 */
export async function applySettings (topics: readonly TopicSettings[], { apply, say }: {
  readonly apply: (topics: readonly TopicSettings[], validateOnly: boolean) => Promise<unknown>
  readonly say: TopicsOptions['say']
}): Promise<void> {
  const findRefusal = async (some: readonly TopicSettings[], validateOnly = false) => {
    try {
      await apply(some, validateOnly)
    } catch (error) {
      // The client reports topics one by one; some of them may be there by now.
      const { errors = [error] } = error as { readonly errors?: readonly unknown[] }
      const cause = errors.find(each => REFUSALS.includes(kafkaErrorType(each)))
      if (cause === undefined) throw error
      return cause
    }
  }
  const cause = await findRefusal(topics)
  if (cause === undefined) return
  const settings = new Map(topics.flatMap(topic =>
    topic.settings.map(setting => [textOfSetting(setting), setting])))
  const refused = new Map<string, string>()
  for (const [text, setting] of settings) {
    const those = topics
      .filter(({ settings: all }) => all.some(other => textOfSetting(other) === text))
      .map(({ topic }) => ({ topic, settings: [setting] }))
    if (await findRefusal(those, true) === undefined) continue
    refused.set(text, `${text} of ${those.map(({ topic }) => topic.name).join(', ')}`)
    if (!OPTIONAL_SETTINGS.has(setting.name)) {
      throw new InfrastructureError(`the brokers refuse ${refused.get(text)}, without which ` +
        'messages are lost: have it allowed by their operator', { cause })
    }
  }
  if (refused.size === 0) throw cause
  for (const text of refused.values()) say?.(`warning: topics: the brokers refuse ${text}`)
  await apply(topics.map(({ topic, settings: all }) =>
    ({ topic, settings: all.filter(setting => !refused.has(textOfSetting(setting))) })), false)
}

const textOfSetting = ({ name, value }: Setting): string => `${name}=${value}`

const LEADER_TRIES = 100
const NOT_YET: readonly unknown[] = ['UNKNOWN_TOPIC_OR_PARTITION', 'LEADER_NOT_AVAILABLE']

/** Resolves when all partitions of the topics have a leader. */
async function waitForLeaders (admin: KafkaAdmin, names: readonly string[]): Promise<void> {
  await retry(LEADER_TRIES, async () => {
    const { topics } = await admin.fetchTopicMetadata({ topics: [...names] })
    const led = topics.filter(({ partitions }) =>
      partitions.length > 0 && partitions.every(({ leader }) => leader >= 0))
    if (led.length === names.length) return
    const withoutLeader = names.filter(name => led.every(topic => topic.name !== name))
    throw Object.assign(
      new InfrastructureError(
        `new topics without a leader: ${withoutLeader.join(', ')}; check the brokers`),
      { type: 'LEADER_NOT_AVAILABLE' })
  }, { maxMs: 500, when: error => NOT_YET.includes((error as { type?: unknown }).type) })
}

/** Creates ACLs; existing ones stay. False on brokers without an authorizer. */
export async function createAccessRules (
  admin: KafkaAdmin, rules: readonly AccessRule[]
): Promise<boolean> {
  try {
    await admin.createAcls({ acl: rules.map(toAcl) })
    return true
  } catch (error) {
    if ((error as { type?: unknown }).type === NO_AUTHORIZER) return false
    throw error
  }
}

/**
 * Deletes all other ALLOW rules of the principals of these rules, and resolves to their number.
 * DENY rules and rules of other principals stay.
 */
export async function deleteOtherAccessRules (
  admin: KafkaAdmin, rules: readonly AccessRule[]
): Promise<number> {
  const { surplus } = await compareAccessRules(admin, rules)
  if (surplus.length > 0) await admin.deleteAcls({ filters: [...surplus] })
  return surplus.length
}

/** The rules that the brokers lack, and other ALLOW rules that they have for these principals. */
export async function compareAccessRules (admin: KafkaAdmin, rules: readonly AccessRule[]) {
  const wanted = new Set(rules.map(rule => formatAcl(toAcl(rule))))
  const principals = new Set(rules.map(({ principal }) => principal))
  const { resources } = await admin.describeAcls(ALLOWED)
  const stored = resources.flatMap(({ acls, ...resource }) => acls.map(acl => ({
    ...acl,
    resourceType: resource.resourceType,
    resourceName: resource.resourceName,
    resourcePatternType: resource.resourcePatternType,
  })))
  const texts = new Set(stored.map(formatAcl))
  return {
    missing: rules.filter(rule => !texts.has(formatAcl(toAcl(rule)))),
    surplus: stored.filter(acl => principals.has(acl.principal) && !wanted.has(formatAcl(acl))),
  }
}

const formatAcl = (acl: AclEntry): string => [
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

function toAcl ({ principal, kind, name, prefix, operation }: AccessRule): AclEntry {
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

type Right = Omit<AccessRule, 'principal'>
type Operation = AccessRule['operation']

/** The principal of a stage: its user has the name of the stage, after the prefix of the topics. */
export const toPrincipal = (stage: StageName, prefix = ''): string => `User:${prefix}${stage}`

/**
 * The ACLs of a stage, from the topology. Read and write include describe. An idempotent producer
 * needs no ACL of its own: since Kafka 2.8, write access to any topic is enough.
 */
export function listAccessRules (stage: StageName, prefix = ''): readonly AccessRule[] {
  const { writes } = topology.stages[stage]
  const { all, ledger } = topology.recovery
  const reads = new Set<TopicName>(
    [...topology.stages[stage].reads, ...all, ...stage === 'ledger' ? ledger : []])
  const rights: readonly Right[] = [
    ...onTopics([...reads], 'read'),
    ...onTopics(writes, 'write'),
    // Submitters watch the partitions that the messages of a job are spread over.
    ...(writes as readonly TopicName[]).includes('rows.submitted')
      ? onTopics(TOPICS_BY_JOB, 'describe')
      : [],
    ...READING_STAGES.includes(stage)
      ? [{ kind: 'topic', name: deadTopic(stage), prefix: false, operation: 'write' } as const]
      : [],
    ...onGroups(stage, 'read'),
    // A stage deletes the temporary groups of its recovery reads.
    ...onGroups(stage, 'delete'),
    // `ledger` measures the lag of all groups.
    ...stage === 'ledger' ? lagRights(READING_STAGES.filter(reader => reader !== stage)) : [],
  ]
  return rights.map(right => ({ principal: toPrincipal(stage, prefix), ...right }))
}

/** The ACLs of all stages. Partners have their own; no other principal has any. */
export const stageRules = (prefix = ''): readonly AccessRule[] =>
  STAGES.flatMap(stage => listAccessRules(stage, prefix))

function onTopics (topics: readonly TopicName[], operation: Operation): readonly Right[] {
  return topics.map(topic => ({ kind: 'topic', ...topicPattern(topic), operation }))
}

/** The names of groups start with the stage, mostly followed by a dot and more. */
function onGroups (stage: StageName, operation: Operation): readonly Right[] {
  return [
    { kind: 'group', name: stage, prefix: false, operation },
    { kind: 'group', name: `${stage}.`, prefix: true, operation },
  ]
}

/** Describe access for the lag; the groups of partner topics are left out. */
function lagRights (stages: readonly StageName[]): readonly Right[] {
  const topics = new Set<TopicName>(stages.flatMap(stage => topology.stages[stage].reads))
  const described = [...topics].filter(topic => topology.topics[topic].split !== 'partner')
  return [
    ...onTopics(described, 'describe'),
    ...stages.flatMap(stage => onGroups(stage, 'describe')),
  ]
}

/** The committed offset and lag of a group in one partition, in messages. */
export type GroupLag = {
  readonly stage: StageName
  readonly group: string
  readonly topic: string
  readonly partition: number
  readonly offset: number
  readonly lag: number
}

/** A consumer group with its stage and topics. */
export type ConsumerGroup = {
  readonly stage: StageName
  readonly group: string
  readonly topics: readonly string[]
}

export type OffsetsAdmin = Pick<KafkaAdmin, 'fetchOffsets' | 'fetchTopicOffsets'>

/** All groups of the topology, without those of partners. */
export const TOPOLOGY_GROUPS: readonly ConsumerGroup[] =
  STAGES.flatMap(stage =>
    listSubscriptions(stage).map(({ group, topics }) => ({ stage, group, topics })))

/**
 * The lag of groups per partition. A group without a committed offset, or with one below the log
 * start offset, starts at the log start offset.
 */
export async function fetchLags (
  offsets: OffsetsAdmin, groups: readonly ConsumerGroup[] = TOPOLOGY_GROUPS
): Promise<readonly GroupLag[]> {
  const topics = [...new Set(groups.flatMap(group => group.topics))]
  const bounds = new Map(await Promise.all(topics.map(async topic =>
    [topic, await offsets.fetchTopicOffsets(topic)] as const)))
  const lags = await Promise.all(groups.map(async ({ stage, group, topics }) => {
    const committed = await offsets.fetchOffsets({ groupId: group, topics: [...topics] })
    return committed.flatMap(({ topic, partitions }) => partitions.map(({ partition, offset }) => {
      const bound = bounds.get(topic)?.find(offsets => offsets.partition === partition)
      const [low, high] = [Number(bound?.low ?? 0), Number(bound?.high ?? 0)]
      const next = Math.max(Number(offset), low)
      return { stage, group, topic, partition, offset: next, lag: Math.max(0, high - next) }
    }))
  }))
  return lags.flat()
}
