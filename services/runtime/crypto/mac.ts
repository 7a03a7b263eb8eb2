import {
  createHmac, createSecretKey, hash, hkdfSync, type KeyObject, timingSafeEqual,
} from 'node:crypto'
import { ConfigError, nameKey } from '../platform/config.ts'
import { createLogThrottle, type Log } from '../platform/log.ts'
import type { RECORD_TABLES } from '../platform/metric-list.ts'
import type { Metrics } from '../platform/metrics.ts'
import { logicalTopic } from '../platform/topics.ts'
import { topology } from '../../topology.ts'

/** The keys of `MESSAGE_KEYS`, 32 bytes of base64 by key id, and the id of the signing key. */
export type MessageKeySettings = {
  readonly MESSAGE_KEYS: Readonly<Record<string, string>>
  readonly MESSAGE_KEY_ACTIVE: string
}

type Content = readonly (string | Buffer)[]

/**
 * Signs content for a purpose: HMAC-SHA-256 with one subkey (HKDF) per purpose, so that a MAC for
 * one purpose is not authentic for another. The active key signs; the MACs of all keys are
 * authentic.
 * @throws ConfigError when the active key is not among the keys.
 */
export function createMac (
  { MESSAGE_KEYS: keys, MESSAGE_KEY_ACTIVE: active }: MessageKeySettings
) {
  if (keys[active] === undefined) {
    throw new ConfigError([`MESSAGE_KEYS has no ${nameKey(active)}, which MESSAGE_KEY_ACTIVE ` +
      'names: add it'])
  }
  const subkeys = new Map<string, KeyObject>()
  const computeDigest = (kid: string, purpose: string, content: Content): Buffer | undefined => {
    const secret = Object.hasOwn(keys, kid) ? keys[kid] : undefined
    if (secret === undefined) return undefined
    const name = `${kid} ${purpose}`
    const key = subkeys.get(name) ?? deriveSubkey(secret, purpose)
    subkeys.set(name, key)
    const hmac = createHmac('sha256', key)
    for (const piece of content) hmac.update(piece)
    return hmac.digest()
  }
  return {
    /** `<key id>:<base64>`. How the content is split does not matter. */
    sign: (purpose: string, content: Content): string =>
      `${active}:${computeDigest(active, purpose, content)?.toString('base64') ?? ''}`,
    isAuthentic: (mac: string, purpose: string, content: Content): boolean => {
      // The last colon: an id may have some, and base64 has none.
      const colon = mac.lastIndexOf(':')
      const expected = computeDigest(mac.slice(0, Math.max(colon, 0)), purpose, content)
      const digest = Buffer.from(mac.slice(colon + 1), 'base64')
      return digest.length === expected?.length && timingSafeEqual(digest, expected)
    },
  }
}

/** The key for a purpose that is derived from a message key. */
export function deriveSubkey (secret: string, purpose: string): KeyObject {
  return createSecretKey(Buffer.from(
    hkdfSync('sha256', Buffer.from(secret, 'base64'), '', purpose, 32)))
}

/** What is signed of a message of Kafka. */
type MessageContent = {
  readonly topic: string
  readonly key: string
  readonly value: Buffer | null
  readonly headers: Readonly<Record<string, string>>
}
type Received = Omit<MessageContent, 'key'> & {
  readonly key: Buffer, readonly partition: number, readonly offset: bigint,
}

export type MessageMac = ReturnType<typeof createMessageMac>

const HEADER = 'mac'
/** The header of a replayed message: the position of its letter, `partition:offset`. */
export const REPLAY_OF = 'replay_of'

/**
 * Signs messages, and detects messages that were not sent by a service. Signs topic, key, headers
 * and value with one subkey per topic. Partition and offset are not
 * signed, because only the broker knows them, so a copied message is authentic: the effects of all
 * messages are idempotent.
 * @throws ConfigError when the active key is not among the keys.
 */
export function createMessageMac (
  settings: MessageKeySettings, onForged: (message: Received) => void = () => {}
) {
  const mac = createMac(settings)
  const isSigned = (message: Received): boolean => {
    const content = messageContent({ ...message, key: message.key.toString() })
    return mac.isAuthentic(message.headers[HEADER] ?? '', `message ${message.topic}`, content)
  }
  return {
    /** The message with the header `mac`; one of a partner's topic only if it is replayed. */
    sign: <M extends MessageContent>(message: M): M => {
      if (isForPartners(message.topic) && !(REPLAY_OF in message.headers)) return message
      const signature = mac.sign(`message ${message.topic}`, messageContent(message))
      return { ...message, headers: { ...message.headers, [HEADER]: signature } }
    },

    /** False for a message that no service has sent to this topic, which is also reported. */
    isAuthentic: (message: Received): boolean => {
      if (isForPartners(message.topic) || isSigned(message)) return true
      onForged(message)
      return false
    },

    /** Whether an operator has replayed this message, which a partner wrote first. */
    isReplay: (message: Received): boolean => REPLAY_OF in message.headers && isSigned(message),
  }
}

/** Messages from and to partners are sealed with the key of the partner instead. */
function isForPartners (name: string): boolean {
  const topic = logicalTopic(name)?.topic
  return topic !== undefined && topology.topics[topic].split === 'partner'
}

/** The JSON before the value contains its length, so different messages have different contents. */
function messageContent ({ topic, key, value, headers }: MessageContent): Content {
  const others = Object.entries(headers).filter(([header]) => header !== HEADER)
    .sort(([a], [b]) => a < b ? -1 : 1)
  const text = JSON.stringify([1, topic, key, others, value?.length ?? -1])
  return value === null ? [text] : [text, value]
}

/** The signed content of a row of ClickHouse, with its table, tenant and id. */
export type SignedRecord = {
  readonly table: typeof RECORD_TABLES[number]
  readonly tenant: string
  /** Unique among the records of the table and tenant. */
  readonly id: string
  readonly content: string
}

export type RecordMac = ReturnType<typeof createRecordMac>

/**
 * Detects records that were not stored by a service.
 * @throws ConfigError when the active key is not among the keys.
 */
export function createRecordMac (
  settings: MessageKeySettings, onForged: (record: SignedRecord) => void = () => {}
) {
  const mac = createMac(settings)
  const recordPurpose = ({ table }: SignedRecord) => `record ${table}`
  const recordText = ({ tenant, id, content }: SignedRecord) =>
    [JSON.stringify([1, tenant, id, content])]
  return {
    sign: (record: SignedRecord): string => mac.sign(recordPurpose(record), recordText(record)),
    /** False for a forged, changed or moved record, which is also reported. */
    isAuthentic: (signature: string, record: SignedRecord): boolean => {
      if (mac.isAuthentic(signature, recordPurpose(record), recordText(record))) return true
      onForged(record)
      return false
    },
  }
}

const LOG_INTERVAL_MS = 60_000

type ReportDeps = { readonly log: Log, readonly metrics: Metrics }

/** Counts every forged record, and logs one per table and minute: there may be very many. */
export function reportForgedRecords (
  { log, metrics }: ReportDeps
): (record: SignedRecord) => void {
  const isDue = createLogThrottle(LOG_INTERVAL_MS)
  return ({ table, tenant, id }) => {
    metrics.count('records_forged_total', { table })
    if (!isDue(table)) return
    log.error({ table, tenant, id }, 'skipped a ClickHouse record without a valid MAC: another ' +
      'client writes to ClickHouse, or MESSAGE_KEYS lacks the key that signed it')
  }
}

/** Counts every forged message, and logs one per topic and minute: there may be very many. */
export function reportForged ({ log, metrics }: ReportDeps): (message: Received) => void {
  const isDue = createLogThrottle(LOG_INTERVAL_MS)
  return ({ topic, partition, offset }) => {
    metrics.count('messages_forged_total', { topic })
    if (!isDue(topic)) return
    log.error({ topic, partition, offset: String(offset) },
      'skipped a Kafka message without a valid signature: another client writes to this topic, ' +
      'or MESSAGE_KEYS lacks the key that signed it')
  }
}

/** The block size of SHA-256, and the size of its digest. */
const BLOCK_BYTES = 64
const DIGEST_BYTES = 32
/** The constants of the two halves of an HMAC (RFC 2104). */
const INNER = 0x36
const OUTER = 0x5c

/** Writes the MAC of a prefix and a text into `target` at offset `at`. */
export type ShortMac = (prefix: string) => (text: string, target: Buffer, at: number) => void

/** Longer texts need one more copy. */
const MAX_SHORT_TEXT = 64
const LAST_ASCII = 0x7f

/**
 * HMAC-SHA256 (RFC 2104) of short UTF-8 texts with a key of at most 64 bytes, truncated to this
 * many bytes; all texts of one call have its prefix. Computes two digests directly: the HMAC of
 * Node creates objects for every text, which cost three times as much as the digests.
 */
export function createShortMac (key: Buffer, bytes: number): ShortMac {
  const outer = paddedKey(key, OUTER, DIGEST_BYTES)
  return (prefix) => {
    const toMessage = createMessageBuffer(key, prefix)
    return (text, target, at) => {
      outer.write(hash('sha256', toMessage(text), 'binary'), BLOCK_BYTES, 'latin1')
      target.write(hash('sha256', outer, 'binary'), at, bytes, 'latin1')
    }
  }
}

/** The input of the inner digest: key, prefix and text, valid until the next call. */
function createMessageBuffer (key: Buffer, prefix: string): (text: string) => Buffer {
  const prefixBytes = Buffer.byteLength(prefix)
  const inner = paddedKey(key, INNER, prefixBytes + MAX_SHORT_TEXT)
  const start = BLOCK_BYTES + inner.write(prefix, BLOCK_BYTES)
  // One view per text length, created on demand: the texts of a chunk have few lengths.
  const views: Buffer[] = []
  return (text) => {
    const isPlain = text.length <= MAX_SHORT_TEXT && writeAscii(text, inner, start)
    if (!isPlain) return Buffer.concat([inner.subarray(0, start), Buffer.from(text)])
    const view = views[text.length] ?? inner.subarray(0, start + text.length)
    views[text.length] = view
    return view
  }
}

/** False, with a part of the text written, if the text is not ASCII. */
function writeAscii (text: string, target: Buffer, start: number): boolean {
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at)
    if (unit > LAST_ASCII) return false
    target[start + at] = unit
  }
  return true
}

/** The padded key, combined with the constant, with space for `moreBytes` after it. */
function paddedKey (key: Buffer, constant: number, moreBytes: number): Buffer {
  const bytes = Buffer.alloc(BLOCK_BYTES + moreBytes)
  key.copy(bytes)
  for (let at = 0; at < BLOCK_BYTES; at++) bytes[at] = (bytes[at] ?? 0) ^ constant
  return bytes
}
