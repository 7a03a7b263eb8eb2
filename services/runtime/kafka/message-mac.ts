import { topology } from '../../topology.ts'
import type { OutgoingMessage, RawMessage } from './bus.ts'
import { type Log, createLogThrottle } from '../platform/log.ts'
import { createMac, type MessageKeySettings } from '../crypto/mac.ts'
import type { Metrics } from '../platform/metrics.ts'
import { logicalTopic } from '../platform/topics.ts'

type Received = Pick<RawMessage, 'topic' | 'partition' | 'offset' | 'key' | 'value' | 'headers'>

/** Signs messages, and detects messages that were not sent by a service. */
export type MessageMac = {
  /** The message with the header `mac`; messages of partners' topics only if they are replayed. */
  readonly sign: (message: OutgoingMessage) => OutgoingMessage
  /** False for a message that no service has sent to this topic, which is also reported. */
  readonly isAuthentic: (message: Received) => boolean
  /** Whether an operator has replayed this message, which a partner wrote first. */
  readonly isReplay: (message: Received) => boolean
}

const HEADER = 'mac'
/** The header of a replayed message: the position of its letter, `partition:offset`. */
export const REPLAY_OF = 'replay_of'

/**
 * Signs topic, key, headers and value with one subkey per topic. Partition and offset are not
 * signed, because only the broker knows them, so a copied message is authentic: the effects of all
 * messages are idempotent.
 * @throws ConfigError when the active key is not among the keys.
 */
export function createMessageMac (
  settings: MessageKeySettings, onForged: (message: Received) => void = () => {}
): MessageMac {
  const mac = createMac(settings)
  const isSigned = (message: Received): boolean => {
    const content = contentOf({ ...message, key: message.key.toString() })
    return mac.isAuthentic(message.headers[HEADER] ?? '', `message ${message.topic}`, content)
  }
  return {
    sign: message => {
      if (isForPartners(message.topic) && !(REPLAY_OF in message.headers)) return message
      const signature = mac.sign(`message ${message.topic}`, contentOf(message))
      return { ...message, headers: { ...message.headers, [HEADER]: signature } }
    },
    isAuthentic: message => {
      if (isForPartners(message.topic) || isSigned(message)) return true
      onForged(message)
      return false
    },
    isReplay: message => REPLAY_OF in message.headers && isSigned(message),
  }
}

/** Messages from and to partners are sealed with the key of the partner instead. */
function isForPartners (name: string): boolean {
  const topic = logicalTopic(name)?.topic
  return topic !== undefined && topology.topics[topic].split === 'partner'
}

/** The JSON before the value contains its length, so different messages have different contents. */
function contentOf ({ topic, key, value, headers }: OutgoingMessage): readonly (string | Buffer)[] {
  const others = Object.entries(headers).filter(([header]) => header !== HEADER)
    .sort(([one], [other]) => one < other ? -1 : 1)
  const text = JSON.stringify([1, topic, key, others, value?.length ?? -1])
  return value === null ? [text] : [text, value]
}

const LOG_INTERVAL_MS = 60_000

/** Counts every forged message, and logs one per topic and minute: there may be very many. */
export function reportForged (
  { log, metrics }: { readonly log: Pick<Log, 'error'>, readonly metrics: Pick<Metrics, 'count'> },
  now?: () => number
): (message: Received) => void {
  const isDue = createLogThrottle(LOG_INTERVAL_MS, now)
  return ({ topic, partition, offset }) => {
    metrics.count('messages_forged_total', { topic })
    if (!isDue(topic)) return
    log.error({ topic, partition, offset: String(offset) },
      'skipped a Kafka message without a valid signature: another client writes to this topic, ' +
      'or MESSAGE_KEYS lacks the key that signed it')
  }
}
