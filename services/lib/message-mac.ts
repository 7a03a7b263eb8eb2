import { createHmac, createSecretKey, hkdfSync, timingSafeEqual, type KeyObject } from 'node:crypto'
import { topology } from '../topology.ts'
import type { OutgoingMessage, RawMessage } from './bus.ts'
import type { Log } from './log.ts'
import type { Metrics } from './metrics.ts'
import { logicalTopic } from './topics.ts'

/** The keys of `MESSAGE_KEYS`, 32 bytes of base64 by key id, and the id of the one that signs. */
export type MessageKeySettings = {
  readonly MESSAGE_KEYS: Readonly<Record<string, string>>
  readonly MESSAGE_KEY_ACTIVE: string
}

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
 * HMAC-SHA-256 over topic, key, headers and value, under a key for each topic (HKDF). Where in the
 * topic a message stands is not covered, as only the broker knows that: a copy is authentic, which
 * is why every effect of a message happens once however often it comes.
 * @throws TypeError when the active key is not among the keys.
 */
export function createMessageMac (
  { MESSAGE_KEYS: keys, MESSAGE_KEY_ACTIVE: active }: MessageKeySettings,
  onForged: (message: Received) => void = () => {}
): MessageMac {
  if (keys[active] === undefined) {
    throw new TypeError(`MESSAGE_KEYS lacks the key "${active}" that MESSAGE_KEY_ACTIVE names`)
  }
  const ofTopics = new Map<string, KeyObject>()
  const keyOf = (kid: string, topic: string): KeyObject | undefined => {
    const name = `${kid} ${topic}`
    const found = ofTopics.get(name)
    const secret = Object.hasOwn(keys, kid) ? keys[kid] : undefined
    if (found !== undefined || secret === undefined) return found
    const bytes = hkdfSync('sha256', Buffer.from(secret, 'base64'), '', `message ${topic}`, 32)
    const made = createSecretKey(Buffer.from(bytes))
    ofTopics.set(name, made)
    return made
  }
  const isSigned = (message: Received): boolean => {
    const [kid = '', given = ''] = message.headers[HEADER]?.split(':') ?? []
    const key = keyOf(kid, message.topic)
    if (key === undefined) return false
    const mac = Buffer.from(given, 'base64')
    const expected = macOf(key, { ...message, key: message.key.toString() })
    return mac.length === expected.length && timingSafeEqual(mac, expected)
  }
  return {
    sign: message => {
      const key = isForPartners(message.topic) ? undefined : keyOf(active, message.topic)
      if (key === undefined) return message
      const mac = `${active}:${macOf(key, message).toString('base64')}`
      return { ...message, headers: { ...message.headers, [HEADER]: mac } }
    },
    isAuthentic: message => {
      if (isForPartners(message.topic) || isSigned(message)) return true
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
function macOf (key: KeyObject, { topic, key: name, value, headers }: OutgoingMessage): Buffer {
  const others = Object.entries(headers).filter(([header]) => header !== HEADER)
    .sort(([one], [other]) => one < other ? -1 : 1)
  const mac = createHmac('sha256', key)
    .update(JSON.stringify([1, topic, name, others, value?.length ?? -1]))
  return (value === null ? mac : mac.update(value)).digest()
}

const TELL_AGAIN_MS = 60_000

/** Counts every forged message, and logs one a topic and minute: there may be very many. */
export function reportForged (
  { log, metrics }: { readonly log: Pick<Log, 'error'>, readonly metrics: Pick<Metrics, 'count'> },
  now = () => performance.now()
): (message: Received) => void {
  const toldAtMs = new Map<string, number>()
  return ({ topic, partition, offset }) => {
    metrics.count('messages_forged_total', { topic })
    if (now() - (toldAtMs.get(topic) ?? -Infinity) < TELL_AGAIN_MS) return
    toldAtMs.set(topic, now())
    log.error({ topic, partition, offset: String(offset) },
      'skipped a message that no service sent: somebody else writes to this topic, or ' +
      'MESSAGE_KEYS lacks the key it was signed with')
  }
}
