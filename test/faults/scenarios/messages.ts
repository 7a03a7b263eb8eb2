import { Kafka, logLevel, type Message } from 'kafkajs'
import type { RawMessage } from '../../../services/runtime/kafka/bus.ts'
import { withAdmin } from '../../../services/runtime/kafka/admin.ts'
import { createTopicReader } from '../../../services/runtime/kafka/topic-reader.ts'
import { listSubscriptions, topicName } from '../../../services/runtime/platform/topics.ts'
import type { Promised } from '../client-log.ts'
import type { Fault, Scene } from '../fault.ts'
import { messageMacOf } from '../../support/keys/signed.ts'
import { poll } from '../poll.ts'

const brokersOf = ({ environment }: Scene) =>
  (environment.stack.env['KAFKA_BROKERS'] ?? '').split(',')

type Spoil = (message: RawMessage) => Pick<RawMessage, 'key' | 'headers' | 'value'>

const half = (bytes: Buffer | null) => bytes?.subarray(0, bytes.length / 2) ?? null

/** One byte of the sealed rows is another. */
function flipped (bytes: Buffer | null): Buffer | null {
  if (bytes === null) return null
  const copy = Buffer.from(bytes)
  copy[copy.length - 20] = (copy[copy.length - 20] ?? 0) ^ 1
  return copy
}

const SPOILS: readonly Spoil[] = [
  ({ value, headers, key }) => ({ key, headers, value: half(value) }),
  ({ value, headers, key }) => ({ key, headers, value: flipped(value) }),
  ({ headers, key }) => ({ key, headers, value: Buffer.from('{"no":"avro"}') }),
  ({ value, headers, key }) => ({ key, headers: { ...headers, chunk: '999' }, value: half(value) }),
  ({ value, key }) => ({ key, headers: {}, value: half(value) }),
]

/** Topics of one job's way, with the group of the stage that reads each. */
function wayOf (): readonly { readonly topic: string, readonly stage: string }[] {
  const lane = 'small'
  const service = 'phone-validation'
  return [
    { topic: topicName('rows.submitted', { lane }), stage: 'normalize' },
    { topic: topicName('rows.normalized', { lane }), stage: 'lookup' },
    { topic: topicName('rows.to-verify', { lane, service }), stage: 'verify' },
    { topic: topicName('rows.completed', { lane }), stage: 'settle' },
  ]
}

type Spoiled = ReturnType<Spoil> & { readonly partition?: number }

/** The message as if a service had sent it. */
function signed (scene: Scene, topic: string, message: Spoiled): Spoiled {
  const mac = messageMacOf({ ...scene.environment.stack.env })
  return { ...message, headers: mac.sign({ ...message, topic, key: String(message.key) }).headers }
}

async function send (scene: Scene, topic: string, spoiled: readonly Spoiled[]): Promise<void> {
  const messages = spoiled.map((message): Message =>
    ({ ...message, headers: { ...message.headers } }))
  const kafka = new Kafka({ brokers: brokersOf(scene), logLevel: logLevel.NOTHING })
  const producer = kafka.producer()
  await producer.connect()
  await producer.send({ topic, messages, acks: -1 })
  await producer.disconnect()
}

async function messagesOf (scene: Scene, topic: string, job?: string): Promise<RawMessage[]> {
  const found: RawMessage[] = []
  const { read } = createTopicReader({ brokers: brokersOf(scene), clientId: 'faults' })
  await read(topic, messages => {
    found.push(...messages.filter(({ headers }) => job === undefined || headers['job'] === job))
  })
  return found
}

const poison: Fault = {
  name: 'poison',
  kind: 'message',
  about: 'spoiled copies of messages, cut, flipped, of no schema, beside the good ones, half of ' +
    'them unsigned',
  allows: { deadLetters: true },
  inject: async scene => {
    const { load, random } = scene
    await load.untilEnded(4)
    let injected = 0
    for (const { topic } of wayOf()) {
      const good = (await messagesOf(scene, topic)).slice(-8)
      const spoiled = good.map(message =>
        (SPOILS[Math.floor(random() * SPOILS.length)] ?? SPOILS[0])!(message))
      await send(scene, topic, spoiled.map(message =>
        random() < 0.5 ? message : signed(scene, topic, message)))
      injected += spoiled.length
      await load.untilEnded(2)
    }
    return { injected }
  },
}

/** In place of the only message of a chunk there is a spoiled one. */
const corrupted: Fault = {
  name: 'corrupted',
  kind: 'message',
  about: 'the only copy of a message of a running job is spoiled, at each stage in turn: the job ' +
    'ends all the same, its rows free',
  allows: { deadLetters: true, unanswered: true },
  load: { clients: 1, bulkShare: 0 },
  inject: async scene => {
    const { load, log, environment: { services }, say } = scene
    await load.untilEnded(2)
    await load.stop()
    let injected = 0
    for (const { topic, stage } of wayOf()) {
      await services.setScale({ [stage]: 0 })
      const posting = log.post({ ...load.request(30), forceFresh: true }, { forMs: 40_000 })
      const spoiled = await spoilNewest(scene, { topic, stage })
      injected += spoiled
      await services.setScale({})
      await services.untilReady()
      const made: Promised | undefined = await posting
      const end = made === undefined ? undefined : await log.client.waitForEnd(made.id)
      say(`${stage}: ${spoiled} messages spoiled, the job is ${end?.status ?? 'refused'}, ` +
        `charged ${end?.chargedMicros ?? 0}`)
    }
    return { injected }
  },
}

/** What a group has not read yet, by partition: from where to where. */
async function unread (scene: Scene, groupId: string, topic: string) {
  return await withAdmin({ brokers: brokersOf(scene) }, async admin => {
    const [known] = await admin.fetchOffsets({ groupId, topics: [topic] })
    const next = new Map(known?.partitions.map(it => [it.partition, BigInt(it.offset)]))
    return (await admin.fetchTopicOffsets(topic)).map(({ partition, high, low }) => {
      const committed = next.get(partition) ?? -1n
      const from = committed < 0n ? BigInt(low) : committed
      return { partition, from, to: BigInt(high) }
    }).filter(({ from, to }) => from < to)
  })
}

/** Moves the group past its unread messages, and appends spoiled copies of them. */
async function spoilNewest (
  scene: Scene, { topic, stage }: { readonly topic: string, readonly stage: string }
): Promise<number> {
  const group = listSubscriptions(stage as 'verify').find(({ topics }) => topics.includes(topic))
  if (group === undefined) throw new Error(`no group reads ${topic}`)
  const ranges = await poll(async () => {
    const some = await unread(scene, group.group, topic)
    return some.length === 0 ? undefined : some
  }, 20_000, 200)
  if (ranges === undefined) return 0
  const all = await messagesOf(scene, topic)
  const newest = all.filter(message => ranges.some(({ partition, from, to }) =>
    message.partition === partition && message.offset >= from && message.offset < to))
  await withAdmin({ brokers: brokersOf(scene) }, async admin => {
    const partitions = ranges.map(({ partition, to }) => ({ partition, offset: String(to) }))
    await admin.setOffsets({ groupId: group.group, topic, partitions })
  })
  await send(scene, topic, newest.map(message => {
    const { key, headers, value } = message
    const { partition } = message
    return signed(scene, topic, { key, headers, value: flipped(value), partition })
  }))
  return newest.length
}

export const messages: readonly Fault[] = [poison, corrupted]
