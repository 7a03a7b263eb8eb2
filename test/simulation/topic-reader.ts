import { setImmediate as turn } from 'node:timers/promises'
import type { LeadingParts } from '../../services/ledger/leading.ts'
import { InfrastructureError } from '../../services/lib/errors.ts'
import type { MemoryBus } from '../support/memory-bus.ts'
import type { Chaos } from './chaos.ts'

const KAFKA_AWAY = 0.03
const MESSAGES_A_PIECE = 7

/** Reads a topic to the end it has now, in pieces of few messages; at times Kafka is away. */
export function topicReader (
  bus: Pick<MemoryBus, 'messages'>, chaos: Chaos
): LeadingParts['reader'] {
  return {
    read: async (topic, onMessages, { sinceMs = 0, signal } = {}) => {
      const messages = bus.messages(topic).filter(({ timestampMs }) => timestampMs >= sinceMs)
      for (let at = 0; at < messages.length; at += MESSAGES_A_PIECE) {
        await turn()
        signal?.throwIfAborted()
        if (chaos.happens(KAFKA_AWAY)) throw new InfrastructureError(`${topic} is not to be had`)
        await onMessages(messages.slice(at, at + MESSAGES_A_PIECE))
      }
    },
  }
}
