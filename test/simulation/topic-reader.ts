import { setImmediate as turn } from 'node:timers/promises'
import type { LeaderDeps } from '../../services/ledger/leader-election.ts'
import type { RawMessage } from '../../services/kafka/bus.ts'
import { InfrastructureError } from '../../services/platform/errors.ts'
import { topicName } from '../../services/platform/topics.ts'
import type { MemoryBus } from '../support/memory-bus.ts'
import { createMemoryReader } from '../support/memory-reader.ts'
import type { Chaos } from './chaos.ts'

const KAFKA_UNAVAILABLE = 0.03
const SNAPSHOTS_DAMAGED = 0.2

/** Reads topics of the bus; at times Kafka is unavailable, or the snapshots are damaged. */
export function topicReader (
  bus: Pick<MemoryBus, 'messages'>, chaos: Chaos
): LeaderDeps['reader'] {
  const { read } = createMemoryReader(bus, async topic => {
    await turn()
    if (chaos.happens(KAFKA_UNAVAILABLE)) throw new InfrastructureError(`${topic} is unavailable`)
  })
  return {
    read: (topic, onMessages, limits) => {
      const isDamaged = topic === topicName('wallet.snapshots') && chaos.happens(SNAPSHOTS_DAMAGED)
      const isLeft = isDamaged ? damage(bus.messages(topic), chaos) : () => true
      return read(topic, messages => onMessages(messages.filter(isLeft)), limits)
    },
  }
}

/**
 * Of one tenant all snapshots are deleted but an old one, or that as well: what a writer to the
 * brokers can do by sending it again until compaction removes the others.
 */
function damage (
  messages: readonly RawMessage[], chaos: Chaos
): (message: RawMessage) => boolean {
  if (messages.length === 0) return () => true
  const { key } = chaos.pick(messages)
  const own = messages.filter(message => message.key.equals(key))
  const left = chaos.happens(0.5) ? chaos.pick(own) : undefined
  return message => message === left || !message.key.equals(key)
}
