import { setImmediate as turn } from 'node:timers/promises'
import type { Snapshot } from '../../schemas/types.ts'
import type { LeaderDeps } from '../../services/ledger/leader-election.ts'
import type { RawMessage } from '../../services/runtime/kafka/bus.ts'
import { createMessageMac, type MessageMac } from '../../services/runtime/kafka/message-mac.ts'
import type { Codec } from '../../services/runtime/kafka/registry.ts'
import { InfrastructureError } from '../../services/runtime/platform/errors.ts'
import { topicName } from '../../services/runtime/platform/topics.ts'
import type { MemoryBus } from '../support/kafka/memory-bus.ts'
import { createMemoryReader } from '../support/kafka/memory-reader.ts'
import { messageKeysOf, messageMacOf, MESSAGE_KEY_ENV } from '../support/keys/signed.ts'
import type { Chaos } from './chaos.ts'

const KAFKA_UNAVAILABLE = 0.03
const SNAPSHOTS_DAMAGED = 0.2
const SNAPSHOT_FORGED = 0.3

const serviceMac = messageMacOf(MESSAGE_KEY_ENV)
const adversaryMac = createMessageMac({
  ...messageKeysOf(), MESSAGE_KEYS: { 1: Buffer.alloc(32, 2).toString('base64') },
})

type Damaged = {
  readonly bus: Pick<MemoryBus, 'messages'>
  readonly codec: Pick<Codec, 'decode' | 'encode'>
  readonly chaos: Chaos
}

/**
 * Reads topics of the bus; at times Kafka is unavailable, or snapshots are deleted, old or forged.
 */
export function topicReader ({ bus, codec, chaos }: Damaged): LeaderDeps['reader'] {
  const { read } = createMemoryReader(bus, async topic => {
    await turn()
    if (chaos.happens(KAFKA_UNAVAILABLE)) throw new InfrastructureError(`${topic} is unavailable`)
  })
  return {
    read: (topic, onMessages, limits) => {
      if (topic !== topicName('wallet.snapshots')) return read(topic, onMessages, limits)
      const isDamaged = chaos.happens(SNAPSHOTS_DAMAGED)
      const isLeft = isDamaged ? damage(bus.messages(topic), chaos) : () => true
      return read(topic, async messages => {
        const found: RawMessage[] = []
        for (const message of messages) {
          const signed = signedBy(serviceMac, message)
          if (chaos.happens(SNAPSHOT_FORGED)) found.push(await forge(signed, { codec, chaos }))
          if (isLeft(message)) found.push(signed)
        }
        await onMessages(found.filter(serviceMac.isAuthentic))
      }, limits)
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

/** A snapshot with more money, which a writer to the brokers who lacks the keys has made of one. */
async function forge (
  message: RawMessage, { codec, chaos }: Omit<Damaged, 'bus'>
): Promise<RawMessage> {
  if (message.value === null) return message
  const snapshot = await codec.decode('wallet.snapshots', message.value) as Snapshot
  const richer = {
    ...snapshot,
    availableMicros: snapshot.availableMicros + 1_000_000,
    fundedMicros: snapshot.fundedMicros + 1_000_000,
  }
  const forged = { ...message, value: await codec.encode('wallet.snapshots-value', richer) }
  return chaos.happens(0.5) ? forged : signedBy(adversaryMac, forged)
}

function signedBy (mac: MessageMac, message: RawMessage): RawMessage {
  return { ...message, ...mac.sign({ ...message, key: String(message.key) }), key: message.key }
}
