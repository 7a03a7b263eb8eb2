import { Kafka, type KafkaMessage, logLevel } from 'kafkajs'
import { type ChildProcess, fork } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { join } from 'node:path'
import { LRUCache } from 'lru-cache'
import { connectOrganizationKeys } from '../../../services/accounts/connect-organization-keys.ts'
import {
  connectJobKeys, createNewJobKeys, type NewJobKeys,
} from '../../../services/jobs/job-keys.ts'
import type { Job } from '../../../services/jobs/job.ts'
import { CHUNK_ROWS, createSubmitter } from '../../../services/jobs/submit.ts'
import { createEmitter, type Emitter } from '../../../services/runtime/engine/stage.ts'
import { createMessageCodec } from '../../../services/jobs/message-codec.ts'
import { jobRedisKeys } from '../../../services/jobs/job-record.ts'
import { createTopics, withAdmin } from '../../../services/runtime/kafka/admin.ts'
import { createKafkaBus } from '../../../services/runtime/kafka/kafka-bus.ts'
import { createMessageMac } from '../../../services/runtime/crypto/mac.ts'
import { createCodec, registrySource } from '../../../services/runtime/kafka/registry.ts'
import {
  commonConfig, defineConfig, loadConfig, pick, rootKeys,
} from '../../../services/runtime/platform/config.ts'
import { chooseLane, topicName } from '../../../services/runtime/platform/topics.ts'
import { median, mixedPhones, withDeadline } from '../jobs.ts'
import { newOrganization } from '../../support/organizations.ts'
import { openRedis } from '../../support/redis/open-redis.ts'
import { startAll } from '../../support/stacks/services.ts'

export type HopFigures = { readonly wallMs: number, readonly ratio: number }

type Env = Readonly<Record<string, string>>

type PeersOptions = {
  readonly env: Env
  readonly overrides: Env
  readonly rows: number
  readonly bareLoopMs: () => number
  readonly log: (line: string) => void
}

const WARM_UP_ROUNDS = 2
const ROUNDS = 5

/**
 * Measures one hop from topic to topic with each Kafka client, and with the product's own
 * `normalize`. Beside it runs only `ledger`, which ships the keys of the organization and is idle.
 */
export async function measurePeers (options: PeersOptions) {
  const { env, overrides, rows, bareLoopMs, log } = options
  log(`peers: ${ROUNDS} rounds of ${rows} rows through kafkajs, @platformatic/kafka and normalize`)
  const services = await startAll({ env, stages: ['normalize', 'ledger'], overrides })
  const hops: Hop[] = []
  try {
    const before = bareLoopMs()
    await startHops(hops, options)
    const [kafkajs = NaN, platformatic = NaN, sealed = NaN] = await medianTimes(hops)
    const bareMs = (before + bareLoopMs()) / 2
    const figuresOf = (wallMs: number): HopFigures => ({ wallMs, ratio: wallMs / bareMs })
    return {
      /** Mean of one run before and one after the rounds. */
      bareLoopMs: bareMs,
      kafkajs: figuresOf(kafkajs),
      platformatic: figuresOf(platformatic),
      /** The service `normalize` alone, one instance. */
      sealed: figuresOf(sealed),
    }
  } finally {
    await Promise.all(hops.map(hop => hop.close()))
    await services.stop()
  }
}

/** Appends to a list, so that the caller closes the hops that started when another one fails. */
async function startHops (hops: Hop[], { env, rows }: PeersOptions): Promise<void> {
  const inputs = mixedPhones(rows)
  const chunks = Array.from({ length: Math.ceil(inputs.length / CHUNK_ROWS) }, (_, chunk) =>
    inputs.slice(chunk * CHUNK_ROWS, (chunk + 1) * CHUNK_ROWS))
  const brokers = (env.KAFKA_BROKERS ?? '').split(',')
  for (const name of ['kafkajs', 'platformatic']) {
    hops.push(await startPlainHop({ name, brokers, chunks }))
  }
  hops.push(await connectSealedHop(env, inputs))
}

/**
 * Returns the median time of each hop. The hops alternate, so that a slow period of the machine
 * affects all of them.
 */
async function medianTimes (hops: readonly Hop[]): Promise<readonly number[]> {
  const times = hops.map((): number[] => [])
  for (let round = 0; round < WARM_UP_ROUNDS + ROUNDS; round++) {
    for (const [index, hop] of hops.entries()) {
      const ms = await withDeadline(`a round of ${hop.name}`, hop.round())
      if (round >= WARM_UP_ROUNDS) times[index]?.push(ms)
    }
  }
  return times.map(median)
}

/** A process that consumes chunks from a topic, verifies them and produces them to another one. */
type Hop = {
  readonly name: string
  /** Sends all chunks; resolves with the time from the first message to the last output, in ms. */
  readonly round: () => Promise<number>
  readonly close: () => Promise<void>
}

type Waiter = { readonly round: string, left: number, readonly resolve: (at: number) => void }

/** Counts the new messages of a topic by round, which the header `job` of a message contains. */
async function watchOutputs (brokers: readonly string[], topic: string) {
  const groupId = `bench.${randomUUID()}`
  await commitEndOffsets({ brokers, topic, groupId })
  const kafka = new Kafka({ brokers: [...brokers], clientId: 'bench', logLevel: logLevel.NOTHING })
  const consumer = kafka.consumer({ groupId, maxWaitTimeInMs: 100 })
  const waiters = new Set<Waiter>()
  const countMessage = ({ headers }: KafkaMessage) => {
    const round = String(headers?.job)
    for (const waiter of waiters) {
      if (waiter.round !== round) continue
      waiter.left -= 1
      if (waiter.left > 0) continue
      waiters.delete(waiter)
      waiter.resolve(performance.now())
    }
  }
  const joined = new Promise(resolve => { consumer.on(consumer.events.GROUP_JOIN, resolve) })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    partitionsConsumedConcurrently: 4,
    eachBatch: async ({ batch }) => batch.messages.forEach(countMessage),
  })
  await joined
  return {
    /** Resolves with the time at which this many messages of a round have arrived. */
    waitFor: (round: string, count: number) => new Promise<number>(resolve => {
      waiters.add({ round, left: count, resolve })
    }),
    close: () => consumer.disconnect(),
  }
}

/** With committed offsets, the group also gets the messages that are produced while it joins. */
async function commitEndOffsets (
  { brokers, topic, groupId }: {
    readonly brokers: readonly string[], readonly topic: string, readonly groupId: string,
  }
): Promise<void> {
  await withAdmin({ brokers }, async admin => {
    const ends = await admin.fetchTopicOffsets(topic)
    const partitions = ends.map(({ partition, high }) => ({ partition, offset: high }))
    await admin.setOffsets({ groupId, topic, partitions })
  })
}

type PlainHopOptions = {
  /** Name of the program `<name>.ts` in `test/bench/peers/`. */
  readonly name: string
  readonly brokers: readonly string[]
  /** Inputs of each chunk. */
  readonly chunks: readonly (readonly string[])[]
}

const PARTITIONS = 4
const MESSAGES_PER_REQUEST = 25

/** Starts a hop that takes and produces plain JSON, with some Kafka client, as a child process. */
async function startPlainHop ({ name, brokers, chunks }: PlainHopOptions): Promise<Hop> {
  const from = `bench.${name}.in`
  const to = `bench.${name}.out`
  await createHopTopics(brokers, [from, to])
  const program = join(import.meta.dirname, `../peers/${name}.ts`)
  const child = fork(program, [brokers.join(','), from, to])
  await withDeadline(`the start of ${name}`, once(child, 'message'))
  const kafka = new Kafka({ brokers: [...brokers], clientId: 'bench', logLevel: logLevel.NOTHING })
  const producer = kafka.producer()
  await producer.connect()
  const outputs = await watchOutputs(brokers, to)
  const bodies = chunks.map(inputs => JSON.stringify({ inputs }))
  let rounds = 0
  return {
    name,
    round: async () => {
      const round = `${name}-${++rounds}`
      const end = outputs.waitFor(round, bodies.length)
      const startedAt = performance.now()
      const messages = bodies.map((value, chunk) =>
        ({ key: `${round}:${chunk}`, value, headers: { job: round } }))
      await Promise.all(batchesOf(messages).map(batch =>
        producer.send({ topic: from, acks: -1, messages: batch })))
      return await end - startedAt
    },
    close: async () => {
      await Promise.all([stopChild(child), outputs.close(), producer.disconnect()])
      await withAdmin({ brokers }, admin => admin.deleteTopics({ topics: [from, to] }))
    },
  }
}

/** A batch for one partition must not exceed the maximum message size of brokers, 1 MB. */
function batchesOf<T> (messages: readonly T[]): T[][] {
  return Array.from({ length: Math.ceil(messages.length / MESSAGES_PER_REQUEST) }, (_, index) =>
    messages.slice(index * MESSAGES_PER_REQUEST, (index + 1) * MESSAGES_PER_REQUEST))
}

async function createHopTopics (
  brokers: readonly string[], names: readonly string[]
): Promise<void> {
  const topics = names.map(name =>
    ({ name, partitions: PARTITIONS, keepHours: 1, compact: false }))
  await withAdmin({ brokers }, admin => createTopics(admin, topics, {}))
}

async function stopChild (child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return
  const exited = once(child, 'exit')
  child.disconnect()
  await exited
}

type SealedBatch = Awaited<ReturnType<Emitter['seal']>>

const ACCEPT_DEADLINE_MS = 600_000
const KEY_TTL_MS = 3_600_000

const config = defineConfig(pick(commonConfig, [
  'KAFKA_BROKERS', 'SCHEMA_REGISTRY_URL', 'REDIS_STATE_URL', ...rootKeys.results,
  ...rootKeys.webhooks, 'CACHE_SECRET_ACTIVE', 'MESSAGE_KEYS', 'MESSAGE_KEY_ACTIVE',
]))

/**
 * Connects to the first hop of the product: the code of `ingest` seals and sends chunks, and the
 * running service `normalize` processes them. Sealing is not timed, like the JSON serialization of
 * the plain chunks.
 */
async function connectSealedHop (env: Env, inputs: readonly string[]): Promise<Hop> {
  const settings = loadConfig(config, env)
  const redis = openRedis(settings.REDIS_STATE_URL)
  const bus = createKafkaBus({
    brokers: settings.KAFKA_BROKERS,
    clientId: 'bench',
    mac: createMessageMac(settings),
    onFatal: error => { throw error },
  })
  const codec = createCodec(registrySource({ SCHEMA_REGISTRY_URL: settings.SCHEMA_REGISTRY_URL }))
  const connected = { bus, codec, state: redis }
  const tenant = `${await newOrganization(env)}.live`
  const keys = connectJobKeys(connected, settings, { part: 'results' })
  const newKeys = createNewJobKeys({
    results: connectOrganizationKeys('results', settings, connected),
    webhooks: connectOrganizationKeys('webhooks', settings, connected),
  }, new LRUCache({ max: 1_000 }))
  const emitter = createEmitter({
    messageCodec: createMessageCodec({ codec, keys }), producerOf: name => bus.producer(name),
  })
  const topic = topicName('rows.normalized', { lane: chooseLane(inputs.length) })
  const outputs = await watchOutputs(settings.KAFKA_BROKERS, topic)
  const tokenVersion = settings.CACHE_SECRET_ACTIVE
  return {
    name: 'sealed',
    round: async () => {
      const { job, batches, chunks } = await sealJob({
        emitter,
        tokenVersion,
        createKey: async (of, id) => {
          const dataKey = await newKeys.create(of, id)
          await redis.set(jobRedisKeys(of, id).dataKey, dataKey.wrapped, 'PX', KEY_TTL_MS)
          return dataKey
        },
      }, tenant, inputs)
      const end = outputs.waitFor(job, chunks)
      const startedAt = performance.now()
      await Promise.all(batches.map(sealed => emitter.send(sealed)))
      return await end - startedAt
    },
    close: async () => {
      await Promise.all([outputs.close(), bus.close()])
      redis.disconnect()
    },
  }
}

type SealContext = {
  readonly emitter: Emitter
  readonly tokenVersion: string
  readonly createKey: NewJobKeys['create']
}

type SealedJob = {
  readonly job: string
  readonly batches: readonly SealedBatch[]
  readonly chunks: number
}

/** Seals what `ingest` sends of a job, without sending it. */
async function sealJob (
  { emitter, tokenVersion, createKey }: SealContext, tenant: string, inputs: readonly string[]
): Promise<SealedJob> {
  const batches: SealedBatch[] = []
  let job = ''
  const now = Date.now()
  const accepted = { kind: 'accepted', job: { announced: true } as Job } as const
  const submit = createSubmitter({
    emitter: {
      emit: async emissions => {
        const chunks = emissions.filter(({ topic }) => topic === 'rows.submitted')
        batches.push(await emitter.seal(chunks))
      },
    },
    tokenVersion,
    store: {
      claim: async () => ({ kind: 'new', nowMs: now, acceptByMs: now + ACCEPT_DEADLINE_MS }),
      refuse: async () => { throw new Error('sealing a job failed') },
    },
    keys: {
      create: async (of, id) => {
        job = id
        return await createKey(of, id)
      },
    },
    outcomes: { wait: async () => accepted },
    clock: { now: Date.now },
    acceptWithinMs: ACCEPT_DEADLINE_MS,
    partitionsOf: () => ({}),
  })
  await submit({
    tenant,
    service: 'phone-validation',
    inputs,
    country: 'US',
    forceFresh: false,
    idempotencyKey: '',
    fingerprint: '',
    metadata: {},
    webhookUrl: '',
  })
  const messages = batches.flatMap(sealed => [...sealed.values()].flat())
  return { job, batches, chunks: messages.length }
}
