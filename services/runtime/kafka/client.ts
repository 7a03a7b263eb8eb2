import { promisify } from 'node:util'
import { gzip, unzip, zstdCompress, zstdDecompress } from 'node:zlib'
import kafkajs, {
  Kafka, logLevel, type Admin, type Consumer, type ConsumerConfig, type EachBatchPayload,
  type KafkaConfig, type Producer, type ProducerConfig,
} from 'kafkajs'
import { type KafkaConnection, toKafkaOptions } from './connection.ts'

/** What the services use of the client of kafkajs; whatever carries a name has a prefixed form. */
export type KafkaClient = {
  readonly producer: (config?: ProducerConfig) => KafkaProducer
  readonly consumer: (config: ConsumerConfig) => KafkaConsumer
  readonly admin: (config?: Parameters<Kafka['admin']>[0]) => KafkaAdmin
}

export type KafkaProducer = Pick<Producer, 'connect' | 'disconnect' | 'sendBatch'>

export type KafkaConsumer =
  Pick<Consumer, 'connect' | 'disconnect' | 'subscribe' | 'run' | 'seek' | 'on' | 'events'>

export type KafkaAdmin = Pick<Admin,
  'connect' | 'disconnect' | 'listTopics' | 'createTopics' | 'createPartitions' |
  'fetchTopicMetadata' | 'fetchTopicOffsets' | 'fetchTopicOffsetsByTimestamp' | 'fetchOffsets' |
  'setOffsets' | 'describeGroups' | 'deleteGroups' | 'describeCluster' | 'describeConfigs' |
  'alterConfigs' | 'createAcls' | 'describeAcls' | 'deleteAcls' | 'listGroups' | 'deleteTopics' |
  'deleteTopicRecords'>

// Node detects only some exports of a CommonJS library; the others are on its default export.
const { AclResourceTypes, CompressionCodecs, CompressionTypes, ConfigResourceTypes } = kafkajs

/**
 * A client of the brokers. With a prefix, topics and consumer groups have it on the brokers and
 * nowhere else: code, metrics, logs and signatures have the names of services/topology.ts, and see
 * no topic, group or rule of others who share the cluster.
 */
export function createKafka (
  connection: KafkaConnection, options: Omit<KafkaConfig, 'brokers' | 'ssl' | 'sasl'>
): KafkaClient {
  const kafka = new Kafka({ ...toKafkaOptions(connection), ...options })
  const { prefix = '' } = connection
  if (prefix === '') return kafka
  const names: Names = {
    add: name => prefix + name,
    has: name => name.startsWith(prefix),
    strip: name => name.slice(prefix.length),
  }
  return {
    producer: config => prefixedProducer(kafka, config, names),
    consumer: config => prefixedConsumer(kafka, config, names),
    admin: config => prefixedAdmin(kafka.admin(config), names),
  }
}

type Names = {
  readonly add: (name: string) => string
  readonly has: (name: string) => boolean
  readonly strip: (name: string) => string
}

type Topical = { readonly topic: string }

function renameTopic (rename: Names['add']) {
  return <T extends Topical>(item: T): T => ({ ...item, topic: rename(item.topic) })
}

function prefixedProducer (
  kafka: Kafka, config: ProducerConfig | undefined, { add, strip }: Names
): KafkaProducer {
  const { createPartitioner } = config ?? {}
  const producer = kafka.producer({
    ...config,
    ...createPartitioner && {
      createPartitioner: () => {
        const choose = createPartitioner()
        return args => choose({ ...args, topic: strip(args.topic) })
      },
    },
  })
  return {
    connect: producer.connect,
    disconnect: producer.disconnect,
    sendBatch: async ({ topicMessages = [], ...batch }) => {
      const sent = await producer.sendBatch({
        ...batch, topicMessages: topicMessages.map(renameTopic(add)),
      })
      return sent.map(result => ({ ...result, topicName: strip(result.topicName) }))
    },
  }
}

function prefixedConsumer (
  kafka: Kafka, config: ConsumerConfig, { add, strip }: Names
): KafkaConsumer {
  const consumer = kafka.consumer({ ...config, groupId: add(config.groupId) })
  const renamed = (payload: EachBatchPayload): EachBatchPayload => ({
    ...payload,
    // A batch has methods and getters of its class.
    batch: Object.create(payload.batch, { topic: { value: strip(payload.batch.topic) } }),
    commitOffsetsIfNecessary: offsets => payload.commitOffsetsIfNecessary(
      offsets && { topics: offsets.topics.map(renameTopic(add)) }),
  })
  return {
    connect: consumer.connect,
    disconnect: consumer.disconnect,
    on: consumer.on,
    events: consumer.events,
    subscribe: async subscription => {
      if (!('topics' in subscription)) throw new TypeError('subscribe to a list of topics')
      await consumer.subscribe({
        ...subscription, topics: subscription.topics.map(topic => add(String(topic))),
      })
    },
    seek: position => consumer.seek(renameTopic(add)(position)),
    run: async ({ eachBatch, ...options } = {}) => consumer.run({
      ...options, ...eachBatch && { eachBatch: payload => eachBatch(renamed(payload)) },
    }),
  }
}

function prefixedAdmin (admin: Admin, names: Names): KafkaAdmin {
  const { add, has, strip } = names
  return {
    connect: admin.connect,
    disconnect: admin.disconnect,
    describeCluster: admin.describeCluster,
    listTopics: async () => (await admin.listTopics()).filter(has).map(strip),
    createTopics: ({ topics, ...options }) =>
      admin.createTopics({ ...options, topics: topics.map(renameTopic(add)) }),
    deleteTopics: ({ topics, ...options }) =>
      admin.deleteTopics({ ...options, topics: topics.map(add) }),
    deleteTopicRecords: options => admin.deleteTopicRecords(renameTopic(add)(options)),
    createPartitions: ({ topicPartitions, ...options }) => admin.createPartitions({
      ...options, topicPartitions: topicPartitions.map(renameTopic(add)),
    }),
    fetchTopicMetadata: async options => {
      const { topics } = await admin.fetchTopicMetadata(
        options?.topics && { topics: options.topics.map(add) })
      return {
        topics: topics.filter(({ name }) => has(name))
          .map(topic => ({ ...topic, name: strip(topic.name) })),
      }
    },
    fetchTopicOffsets: topic => admin.fetchTopicOffsets(add(topic)),
    fetchTopicOffsetsByTimestamp: (topic, ms) => admin.fetchTopicOffsetsByTimestamp(add(topic), ms),
    fetchOffsets: async ({ groupId, topics, ...options }) => {
      const offsets = await admin.fetchOffsets({
        ...options, groupId: add(groupId), ...topics && { topics: topics.map(add) },
      })
      return offsets.filter(({ topic }) => has(topic)).map(renameTopic(strip))
    },
    setOffsets: ({ groupId, topic, ...options }) =>
      admin.setOffsets({ ...options, groupId: add(groupId), topic: add(topic) }),
    listGroups: async () => {
      const { groups } = await admin.listGroups()
      return {
        groups: groups.filter(({ groupId }) => has(groupId))
          .map(group => ({ ...group, groupId: strip(group.groupId) })),
      }
    },
    describeGroups: async ids => {
      const { groups } = await admin.describeGroups(ids.map(add))
      return { groups: groups.map(group => ({ ...group, groupId: strip(group.groupId) })) }
    },
    deleteGroups: async ids => (await admin.deleteGroups(ids.map(add)))
      .map(result => ({ ...result, groupId: strip(result.groupId) })),
    ...prefixedConfigs(admin, names),
    ...prefixedAcls(admin, names),
  }
}

function prefixedConfigs (
  admin: Admin, { add, strip }: Names
): Pick<KafkaAdmin, 'describeConfigs' | 'alterConfigs'> {
  const { TOPIC } = ConfigResourceTypes
  const prefixed = <T extends { readonly type: number, readonly name: string }>(resource: T): T =>
    resource.type === TOPIC ? { ...resource, name: add(resource.name) } : resource
  return {
    describeConfigs: async ({ resources, ...options }) => {
      const answer = await admin.describeConfigs({
        ...options, resources: resources.map(prefixed),
      })
      return {
        ...answer,
        resources: answer.resources.map(resource => resource.resourceType === TOPIC
          ? { ...resource, resourceName: strip(resource.resourceName) }
          : resource),
      }
    },
    alterConfigs: ({ resources, ...options }) =>
      admin.alterConfigs({ ...options, resources: resources.map(prefixed) }),
  }
}

function prefixedAcls (
  admin: Admin, { add, has, strip }: Names
): Pick<KafkaAdmin, 'createAcls' | 'describeAcls' | 'deleteAcls'> {
  const isNamed = (type: number) => type === AclResourceTypes.TOPIC ||
    type === AclResourceTypes.GROUP
  const prefixed = <T extends { resourceType: number, resourceName?: string }>(rule: T): T =>
    isNamed(rule.resourceType) && rule.resourceName !== undefined
      ? { ...rule, resourceName: add(rule.resourceName) }
      : rule
  return {
    createAcls: ({ acl }) => admin.createAcls({ acl: acl.map(prefixed) }),
    describeAcls: async filter => {
      const answer = await admin.describeAcls(prefixed(filter))
      const resources = answer.resources
        .filter(({ resourceType, resourceName }) => isNamed(resourceType) && has(resourceName))
        .map(resource => ({ ...resource, resourceName: strip(resource.resourceName) }))
      return { ...answer, resources }
    },
    deleteAcls: async ({ filters }) =>
      admin.deleteAcls({ filters: filters.map(prefixed) }),
  }
}

/** Runs an action with a connected admin client, and disconnects it afterwards. */
export async function withClientAdmin<T> (
  kafka: KafkaClient, work: (admin: KafkaAdmin) => Promise<T>
): Promise<T> {
  const admin = kafka.admin()
  try {
    await admin.connect()
    return await work(admin)
  } finally {
    await admin.disconnect()
  }
}

/** A lazily opened admin connection to Kafka. */
export type AdminClient = ReturnType<typeof createAdminClient>

/** Connects on first use and keeps the connection, as connecting costs more than the requests. */
export function createAdminClient (connection: KafkaConnection, clientId: string) {
  let open: Promise<KafkaAdmin> | undefined
  const connect = async () => {
    const kafka = createKafka(connection, {
      clientId,
      logLevel: logLevel.NOTHING,
      retry: { retries: 2 },
    })
    const admin = kafka.admin()
    await admin.connect()
    return admin
  }
  const close = async () => {
    const closing = open
    open = undefined
    await closing?.then(admin => admin.disconnect()).catch(() => {})
  }
  const use = async <T>(work: (admin: KafkaAdmin) => Promise<T>): Promise<T> => {
    open ??= connect()
    try {
      return await work(await open)
    } catch (error) {
      await close()
      throw error
    }
  }
  return { use, close }
}

/** A batch of our producers has at most a megabyte before the broker compresses it. */
const MAX_BATCH_BYTES = 16 * 1_024 * 1_024
/** Sealed and signed messages have random bytes, so that theirs is below 20. */
const MAX_RATIO = 100
/** For batches so small that a ratio says nothing. */
const SPARE_BYTES = 16_384
const SPARE_RECORDS = 100
/** Even of equal records each takes some: their offsets differ. */
const BYTES_PER_RECORD = 2

type Decompress = (bytes: Buffer, options: { readonly maxOutputLength: number }) => Promise<Buffer>

/**
 * Limits what a compressed batch may grow to, in bytes and in records: partners compress batches,
 * and a batch within the limit of the broker may grow to a gigabyte. kafkajs has no limit.
 */
function bounded (decompress: Decompress): (bytes: Buffer) => Promise<Buffer> {
  return async bytes => {
    const maxOutputLength = Math.min(MAX_BATCH_BYTES, SPARE_BYTES + MAX_RATIO * bytes.length)
    const records = await decompress(bytes, { maxOutputLength }).catch((error: unknown) => {
      if ((error as { code?: unknown }).code !== 'ERR_BUFFER_TOO_LARGE') throw error
      throw tooLarge(bytes, `${maxOutputLength} bytes`)
    })
    const maxRecords = SPARE_RECORDS + bytes.length / BYTES_PER_RECORD
    if (hasMoreRecords(records, maxRecords)) throw tooLarge(bytes, `${maxRecords} records`)
    return records
  }
}

const tooLarge = (bytes: Buffer, limit: string) =>
  new RangeError(`a batch of ${bytes.length} compressed bytes has more than ${limit}`)

/** Whether a batch has more records than these. Each begins with its length, a zigzag varint. */
function hasMoreRecords (records: Buffer, maxRecords: number): boolean {
  let at = 0
  for (let count = 0; at < records.length; count++) {
    if (count >= maxRecords) return true
    let zigzag = 0
    for (let factor = 1, byte = 0x80; byte >= 0x80; factor *= 0x80) {
      byte = records[at++] ?? 0
      zigzag += (byte & 0x7f) * factor
    }
    at += Math.floor(zigzag / 2)
  }
  return false
}

const compressGzip = promisify(gzip)
const compressZstd = promisify(zstdCompress)

// kafkajs has only gzip of its own. It cannot read Snappy and LZ4.
CompressionCodecs[CompressionTypes.GZIP] = () => ({
  compress: ({ buffer }: { readonly buffer: Buffer }) => compressGzip(buffer),
  decompress: bounded(promisify(unzip)),
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: ({ buffer }: { readonly buffer: Buffer }) => compressZstd(buffer),
  decompress: bounded(promisify(zstdDecompress)),
})
