import Type from 'typebox'
import { connectOrganizationKeys } from '../../accounts/connect-organization-keys.ts'
import { createPartners, readPartners } from '../../accounts/partners.ts'
import { createJobMessageCodec } from '../../jobs/connect-keys.ts'
import { keysInTopic } from '../../jobs/job-keys.ts'
import type { Outcome } from '../../jobs/store-types.ts'
import { createJobStore } from '../../jobs/store.ts'
import type { Bus, OutgoingMessage, RawMessage } from '../../runtime/kafka/bus.ts'
import { kafkaConnectionOf } from '../../runtime/kafka/connection.ts'
import { createKafkaBus } from '../../runtime/kafka/kafka-bus.ts'
import { createMessageMac } from '../../runtime/kafka/message-mac.ts'
import { createCodec, registrySource } from '../../runtime/kafka/registry.ts'
import { createTopicReader, type TopicReader } from '../../runtime/kafka/topic-reader.ts'
import type { Environment } from '../../runtime/platform/command-environment.ts'
import {
  commonConfig, loadConfig, messageKeys, pick, rootKeys,
} from '../../runtime/platform/config.ts'
import { connectCommandRedis } from '../../runtime/platform/redis.ts'
import { sleep } from '../../runtime/platform/retry.ts'
import { logicalTopic } from '../../runtime/platform/topics.ts'
import { openContent, readEnvelope } from './content.ts'

export type DeadLetterDeps = {
  readonly read: TopicReader['read']
  /** Resolves when all messages are acknowledged, in this order; rejects after 30 s. */
  readonly send: (messages: readonly OutgoingMessage[]) => Promise<void>
  /** Runs work with an inspector. `open` lets it decrypt content, which needs the key ring. */
  readonly inspect: <T>(open: boolean, work: (inspector: Inspector) => Promise<T>) => Promise<T>
  /** The state of jobs by id; without those that are gone or whose store is unavailable. */
  readonly readJobs: Inspector['jobs']
  readonly now: () => number
  readonly sleep: (ms: number) => Promise<void>
}

const brokersConfig = Type.Object(pick(commonConfig, messageKeys))
const SEND_TIMEOUT_MS = 30_000

/**
 * Runs work with the dependencies of the dead-letter commands. Lists and decisions need only the
 * brokers and the message keys, so that they work while other stores are down.
 */
export async function withDeadLetters<T> (
  env: Environment, work: (deps: DeadLetterDeps) => Promise<T>
): Promise<T> {
  const settings = loadConfig(brokersConfig, env)
  const connection = { ...kafkaConnectionOf(settings), mac: createMessageMac(settings) }
  const clientId = 'dead-letters'
  const bus = createKafkaBus({ ...connection, clientId, onFatal: () => {} })
  const producer = bus.producer('resend')
  const inspect: DeadLetterDeps['inspect'] = (open, inspectWork) =>
    withInspector({ env, bus, open }, inspectWork)
  try {
    return await work({
      read: createTopicReader({ ...connection, clientId }).read,
      send: messages => producer.send(messages, AbortSignal.timeout(SEND_TIMEOUT_MS)),
      inspect,
      readJobs: async jobs => {
        try {
          return await inspect(false, inspector => inspector.jobs(jobs))
        } catch {
          return new Map()
        }
      },
      now: Date.now,
      sleep,
    })
  } finally {
    await bus.close()
  }
}

/** A job, by the letter of one of its messages. The tenant of a contact follows from its topic. */
export type LetterJob = { readonly tenant: string, readonly topic: string, readonly job: string }
export type JobState = {
  readonly status: string, readonly ended: boolean, readonly chargedMicros: number,
}

type Inspector = {
  readonly envelope: (raw: RawMessage) => ReturnType<typeof readEnvelope>
  readonly replayEffect: (tenant: string, job: string) => Promise<ReplayEffect>
  /** The state of these jobs, by id, without those that are gone. */
  readonly jobs: (jobs: readonly LetterJob[]) => Promise<ReadonlyMap<string, JobState>>
  /** The decrypted content, or why it cannot be decrypted; undefined unless `open` is set. */
  readonly content: (raw: RawMessage) => Promise<unknown>
}

type Options = { readonly env: Environment, readonly bus: Bus, readonly open: boolean }

const config = Type.Object(pick(commonConfig, ['SCHEMA_REGISTRY_URL', 'REDIS_STATE_URL']))
const rootConfig = Type.Object(
  pick(commonConfig, [...rootKeys.results, ...rootKeys.partners]))

/** Runs work with an inspector of letters, connected to Redis and the schema registry. */
async function withInspector<T> (
  { env, bus, open }: Options, work: (inspector: Inspector) => Promise<T>
): Promise<T> {
  const settings = loadConfig(config, env)
  const roots = open ? loadConfig(rootConfig, env) : undefined
  const codec = createCodec(registrySource(settings.SCHEMA_REGISTRY_URL))
  const state = await connectCommandRedis('REDIS_STATE_URL', settings)
  const store = createJobStore(state)
  const content = async (raw: RawMessage) => {
    if (roots === undefined) return undefined
    const findClosed = keysInTopic({ bus, codec })
    const messageCodec = createJobMessageCodec({ bus, codec, state }, roots, findClosed)
    const partners = createPartners({
      redis: state, keys: connectOrganizationKeys('partners', roots, { state }),
    })
    return await openContent({ codec, messageCodec, partners }, raw)
  }
  const jobs = async (letterJobs: readonly LetterJob[]) => {
    const tenants = new Map((await readPartners(state)).map(({ name, tenant }) => [name, tenant]))
    const states = new Map<string, JobState>()
    for (const { tenant, topic, job } of letterJobs) {
      const partner = logicalTopic(topic)?.partner
      const outcome =
        await store.outcome(partner === undefined ? tenant : tenants.get(partner) ?? '', job)
      if (outcome.kind !== 'accepted') continue
      const { status, ended, chargedMicros } = outcome.job
      states.set(job, { status, ended, chargedMicros })
    }
    return states
  }
  try {
    return await work({
      jobs,
      envelope: raw => readEnvelope(codec, raw),
      replayEffect: async (tenant, job) => describeEffect(await store.outcome(tenant, job)),
      content,
    })
  } finally {
    state.disconnect()
  }
}

/** The status of the job of a letter, and what a replay of the letter can change. */
export type ReplayEffect = { readonly jobStatus: string, readonly replayEffect: string }

/**
 * Describes what a replay changes for a job with this outcome. The tally charges the first result
 * of each row and nothing after the end of the job, so a replay can charge open rows only.
 */
export function describeEffect (outcome: Outcome): ReplayEffect {
  if (outcome.kind === 'refused') {
    return { jobStatus: 'refused', replayEffect: 'changes nothing: the job was rejected' }
  }
  if (outcome.kind === 'open') {
    return {
      jobStatus: 'unknown',
      replayEffect: 'charges nothing: the job does not exist or ended more than 10 minutes ago',
    }
  }
  const { ended, closed, status: jobStatus } = outcome.job
  if (ended || closed) return { jobStatus, replayEffect: 'charges nothing: the job has ended' }
  return {
    jobStatus,
    replayEffect: 'can complete open rows; all other rows keep their result and price',
  }
}
