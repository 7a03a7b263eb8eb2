import Type from 'typebox'
import type { OutgoingMessage, RawMessage } from '../../lib/bus.ts'
import type { Environment } from '../../lib/command-environment.ts'
import { commonConfig, messageKeys, loadConfig, pick } from '../../lib/config.ts'
import { createKafkaBus } from '../../lib/kafka/bus.ts'
import { kafkaConnectionOf } from '../../lib/kafka/connection.ts'
import { createTopicReader, type TopicReader } from '../../lib/kafka/topic-reader.ts'
import { createMessageMac } from '../../lib/message-mac.ts'
import type { Inspector } from './inspector.ts'

export type DeadParts = {
  readonly read: TopicReader['read']
  /** Resolves when all of them are acknowledged, in this order; rejects after half a minute. */
  readonly send: (messages: readonly OutgoingMessage[]) => Promise<void>
  /** Looks into letters; `open` also makes ready to unseal them, which takes the key ring. */
  readonly inspect: <T>(open: boolean, work: (inspector: Inspector) => Promise<T>) => Promise<T>
  readonly now: () => number
}

export type OnMessages = (messages: readonly RawMessage[]) => Promise<void> | void

const config = Type.Object(pick(commonConfig, messageKeys))
const SEND_WITHIN_MS = 30_000

/**
 * Opens what the commands for dead letters need for one piece of work, and closes it whatever
 * happens. Lists and decisions need the brokers and the message keys alone, as letters wait while
 * other parts are down.
 */
export async function withDeadLetters<T> (
  env: Environment, work: (parts: DeadParts) => Promise<T>
): Promise<T> {
  const settings = loadConfig(config, env)
  const connection = { ...kafkaConnectionOf(settings), mac: createMessageMac(settings) }
  const clientId = 'dead-letters'
  const bus = createKafkaBus({ ...connection, clientId, onFatal: () => {} })
  const producer = bus.producer('resend')
  try {
    return await work({
      read: createTopicReader({ ...connection, clientId }).read,
      send: messages => producer.send(messages, AbortSignal.timeout(SEND_WITHIN_MS)),
      inspect: async (open, look) => {
        // Only this needs more than the brokers, so only this loads and asks for it.
        const { withInspector } = await import('./inspector.ts')
        return await withInspector({ env, bus, open }, look)
      },
      now: Date.now,
    })
  } finally {
    await bus.close()
  }
}
