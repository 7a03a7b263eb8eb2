import { LRUCache } from 'lru-cache'
import { connectOrganizationKeys } from '../../../services/accounts/connect-organization-keys.ts'
import {
  connectJobKeys, createNewJobKeys, type NewJobKeys,
} from '../../../services/jobs/job-keys.ts'
import type { Job } from '../../../services/jobs/job.ts'
import { jobKeys } from '../../../services/jobs/redis-keys.ts'
import { createSubmitter } from '../../../services/jobs/submit.ts'
import { createMessageCodec } from '../../../services/jobs/message-codec.ts'
import {
  commonConfig, defineConfig, loadConfig, pick, rootKeys,
} from '../../../services/runtime/platform/config.ts'
import { createEmitter, type Emitter } from '../../../services/runtime/engine/stage.ts'
import { createKafkaBus } from '../../../services/runtime/kafka/kafka-bus.ts'
import { createMessageMac } from '../../../services/runtime/kafka/message-mac.ts'
import { openRedis } from '../../support/redis/open-redis.ts'
import { createCodec, registrySource } from '../../../services/runtime/kafka/registry.ts'
import { laneOf, topicName } from '../../../services/runtime/platform/topics.ts'
import { newOrganization } from '../../support/organizations.ts'
import type { Hop } from './hop.ts'
import { watchOutputs } from './output-watcher.ts'

type SealedBatch = Awaited<ReturnType<Emitter['seal']>>

type Env = Readonly<Record<string, string>>

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
export async function connectSealedHop (env: Env, inputs: readonly string[]): Promise<Hop> {
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
  const topic = topicName('rows.normalized', { lane: laneOf(inputs.length) })
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
          await redis.set(jobKeys(of, id).dataKey, dataKey.wrapped, 'PX', KEY_TTL_MS)
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
  const submitter = createSubmitter({
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
  })
  await submitter.submit({
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
