import Type from 'typebox'
import type { OutgoingMessage } from '../../runtime/kafka/bus.ts'
import type { Environment } from '../../runtime/platform/command-environment.ts'
import { loadConfig, pick, commonConfig, messageKeys } from '../../runtime/platform/config.ts'
import { createKafkaBus } from '../../runtime/kafka/kafka-bus.ts'
import { kafkaConnectionOf } from '../../runtime/kafka/connection.ts'
import { createTopicReader, type TopicReader } from '../../runtime/kafka/topic-reader.ts'
import { createMessageMac } from '../../runtime/kafka/message-mac.ts'
import { sleep } from '../../runtime/platform/retry.ts'
import type { Inspector } from './inspector.ts'

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

const config = Type.Object(pick(commonConfig, messageKeys))
const SEND_TIMEOUT_MS = 30_000

/**
 * Runs work with the dependencies of the dead-letter commands. Lists and decisions need only the
 * brokers and the message keys, so that they work while other stores are down.
 */
export async function withDeadLetters<T> (
  env: Environment, work: (deps: DeadLetterDeps) => Promise<T>
): Promise<T> {
  const settings = loadConfig(config, env)
  const connection = { ...kafkaConnectionOf(settings), mac: createMessageMac(settings) }
  const clientId = 'dead-letters'
  const bus = createKafkaBus({ ...connection, clientId, onFatal: () => {} })
  const producer = bus.producer('resend')
  const inspect: DeadLetterDeps['inspect'] = async (open, inspectWork) => {
    // Loaded on demand: only the inspector needs Redis and the schema registry.
    const { withInspector } = await import('./inspector.ts')
    return await withInspector({ env, bus, open }, inspectWork)
  }
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
