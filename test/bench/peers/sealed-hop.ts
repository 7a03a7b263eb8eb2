import { connectJobKeys, connectNewJobKeys } from '../../../services/jobs/connect-keys.ts'
import type { NewJobKey } from '../../../services/jobs/job-keys.ts'
import { jobKeys } from '../../../services/jobs/redis-keys.ts'
import { send } from '../../../services/jobs/send.ts'
import { createMessageCodec } from '../../../services/jobs/message-codec.ts'
import {
  defineConfig, loadConfig, pick, commonConfig, rootKeys,
} from '../../../services/runtime/platform/config.ts'
import { createEmitter, type Emitter } from '../../../services/runtime/engine/emit.ts'
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
  const newKeys = connectNewJobKeys(connected, settings)
  const emitter = createEmitter({
    messageCodec: createMessageCodec({ codec, keys }), producerOf: name => bus.producer(name),
  })
  const topic = topicName('rows.normalized', { lane: laneOf(inputs.length) })
  const outputs = await watchOutputs(settings.KAFKA_BROKERS, topic)
  const tokenVersion = settings.CACHE_SECRET_ACTIVE
  let rounds = 0
  return {
    name: 'sealed',
    round: async () => {
      const job = `job_bench${++rounds}`
      const dataKey = await newKeys.create(tenant, job)
      await redis.set(jobKeys(tenant, job).dataKey, dataKey.wrapped, 'PX', KEY_TTL_MS)
      const { batches, chunks } = await sealJob(
        { emitter, tokenVersion }, { tenant, job, dataKey, inputs })
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

type SealedJob = {
  readonly tenant: string
  readonly job: string
  readonly dataKey: NewJobKey
  readonly inputs: readonly string[]
}
type SendContext = Parameters<typeof send>[0] & { readonly emitter: Emitter }

/** Seals what `ingest` sends of a job, without sending it. */
async function sealJob (
  { emitter, tokenVersion }: SendContext, { tenant, job, dataKey, inputs }: SealedJob
): Promise<{ readonly batches: readonly SealedBatch[], readonly chunks: number }> {
  const batches: SealedBatch[] = []
  const sealOnly = {
    emit: async (emissions: Parameters<Emitter['emit']>[0]) => {
      batches.push(await emitter.seal(emissions))
    },
  }
  await send({ emitter: sealOnly, tokenVersion }, {
    submission: {
      tenant,
      service: 'phone-validation',
      inputs,
      country: 'US',
      forceFresh: false,
      idempotencyKey: '',
      fingerprint: '',
      metadata: {},
      webhookUrl: '',
    },
    claimed: {
      job,
      dataKey,
      nowMs: Date.now(),
      acceptByMs: Date.now() + ACCEPT_DEADLINE_MS,
      quoteOnly: true,
    },
    signal: new AbortController().signal,
  })
  const messages = batches.flatMap(sealed => [...sealed.values()].flat())
  return { batches, chunks: messages.length }
}
