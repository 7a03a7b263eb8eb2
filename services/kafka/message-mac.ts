import { topology } from '../topology.ts'
import type { OutgoingMessage, RawMessage } from './bus.ts'
import type { Log } from '../platform/log.ts'
import { createMac, type MessageKeySettings } from '../crypto/mac.ts'
import type { Metrics } from '../platform/metrics.ts'
import { createLogThrottle } from '../platform/log-throttle.ts'
import { logicalTopic } from '../platform/topics.ts'

type Received = Pick<RawMessage, 'topic' | 'partition' | 'offset' | 'key' | 'value' | 'headers'>

/** Tells messages of our own processes from those of anybody else who can write to the brokers. */
export type MessageMac = {
  /** The message with the header `mac`; messages to partners stay as they are. */
  readonly sign: (message: OutgoingMessage) => OutgoingMessage
  /** False for a message that no process of ours has sent to this topic; that is reported. */
  readonly isAuthentic: (message: Received) => boolean
}

const HEADER = 'mac'

/**
 * The MAC is over topic, key, headers and value, under a key for each topic. Where in the topic a
 * message stands is not covered, as only the broker knows that: a copy is authentic, which is why
 * every effect of a message happens once however often it comes.
 * @throws TypeError when the active key is not among the keys.
 */
export function createMessageMac (
  settings: MessageKeySettings, onForged: (message: Received) => void = () => {}
): MessageMac {
  const mac = createMac(settings)
  return {
    sign: message => {
      if (isForPartners(message.topic)) return message
      const signature = mac.sign(`message ${message.topic}`, contentOf(message))
      return { ...message, headers: { ...message.headers, [HEADER]: signature } }
    },
    isAuthentic: message => {
      if (isForPartners(message.topic)) return true
      const content = contentOf({ ...message, key: message.key.toString() })
      const given = message.headers[HEADER] ?? ''
      if (mac.isAuthentic(given, `message ${message.topic}`, content)) return true
      onForged(message)
      return false
    },
  }
}

/** Partners have no message keys: what is exchanged with them is sealed under a key they know. */
function isForPartners (name: string): boolean {
  const topic = logicalTopic(name)?.topic
  return topic !== undefined && topology.topics[topic].split === 'partner'
}

/** The text before the value is JSON that names its length, so no two messages have the same. */
function contentOf ({ topic, key, value, headers }: OutgoingMessage): readonly (string | Buffer)[] {
  const others = Object.entries(headers).filter(([header]) => header !== HEADER)
    .sort(([one], [other]) => one < other ? -1 : 1)
  const text = JSON.stringify([1, topic, key, others, value?.length ?? -1])
  return value === null ? [text] : [text, value]
}

const LOG_INTERVAL_MS = 60_000

/** Counts every forged message, and logs one a topic and minute: there may be very many. */
export function reportForged (
  { log, metrics }: { readonly log: Pick<Log, 'error'>, readonly metrics: Pick<Metrics, 'count'> },
  now?: () => number
): (message: Received) => void {
  const isDue = createLogThrottle(LOG_INTERVAL_MS, now)
  return ({ topic, partition, offset }) => {
    metrics.count('messages_forged_total', { topic })
    if (!isDue(topic)) return
    log.error({ topic, partition, offset: String(offset) },
      'skipped a message that no service sent: somebody else writes to this topic, or ' +
      'MESSAGE_KEYS lacks the key it was signed with')
  }
}
