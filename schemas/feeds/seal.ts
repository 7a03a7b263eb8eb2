import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto'

/**
 * How contacts and results of bulk feeds are sealed: the format that `deploy/docs/feeds.md`
 * documents for partners, whose test vectors are in `schemas/feeds/vectors.json`.
 */

/** What a contact's seal is bound to: none of it can be changed in Kafka. */
export type ContactPlace = {
  readonly partner: string
  /** Partition of the partner's topic that the contact is sent to. */
  readonly partition: number
  /** UUID of one run of a producer. */
  readonly sender: string
  /** Increases with every contact of the sender in the partition. */
  readonly sequence: number
  /** Milliseconds since 1970. */
  readonly sentAt: number
  readonly reference: string
  readonly service: string
  readonly countryCode: string
  readonly forceFresh: boolean
}

/** What a result's seal is bound to. */
export type ResultPlace = {
  readonly partner: string
  readonly reference: string
  readonly resultId: string
}

/**
 * Columns of the result file by name, and `checks`, the outcomes of the checks behind the verdict
 * by name; blank ones are left out. Partners that chose text have no numbers, true or false.
 */
export type FeedCells =
  Readonly<Record<string, string | number | boolean | Readonly<Record<string, string>>>>

/** Sealed bytes that no given key opens at this place, or a text that is no key. */
export class FeedSealError extends Error {
  override readonly name = 'FeedSealError'
}

const VERSION = 2
const KEY_BYTES = 32
const KEY_ID_BYTES = 4
const SALT_BYTES = 32
const NONCE_BYTES = 12
const TAG_BYTES = 16
const SALT_AT = 1 + KEY_ID_BYTES
const HEAD_BYTES = SALT_AT + SALT_BYTES
const KEY_PREFIX = 'vjf_'

/** A partner's key as it is handed out; it is the only thing both sides have to keep secret. */
export function textOfPartnerKey (key: Buffer): string {
  return KEY_PREFIX + key.toString('base64url')
}

/** The 32 bytes of a partner's key; throws FeedSealError for a text that is none. */
export function parsePartnerKey (text: string): Buffer {
  const key = Buffer.from(text.slice(KEY_PREFIX.length), 'base64url')
  if (text !== textOfPartnerKey(key) || key.length !== KEY_BYTES) {
    throw new FeedSealError(`A partner's key begins with ${KEY_PREFIX} and holds 32 bytes.`)
  }
  return key
}

/** The id of a partner's key, 8 hexadecimal digits; it reveals nothing of the key. */
export function deriveKeyId (key: Buffer): string {
  const id = keyIds.get(key) ??
    Buffer.from(hkdfSync('sha256', key, '', 'feed key id', KEY_ID_BYTES)).toString('hex')
  keyIds.set(key, id)
  return id
}

const keyIds = new WeakMap<Buffer, string>()

/** The id of the key that sealed these bytes; throws FeedSealError for bytes that are no seal. */
export function keyIdIn (sealed: Buffer): string {
  if (sealed.length < HEAD_BYTES + TAG_BYTES || sealed[0] !== VERSION) {
    throw new FeedSealError(`not sealed bytes of version ${VERSION}`)
  }
  return sealed.toString('hex', 1, SALT_AT)
}

/** Seals an input; `salt` is given only where the bytes have to be the same again. */
export function sealContact (
  key: Buffer, place: ContactPlace,
  ...[input, salt = randomBytes(SALT_BYTES)]: readonly [input: string, salt?: Buffer]
): Buffer {
  return seal(key, { info: CONTACT, aad: contactAad(place), salt }, Buffer.from(input))
}

/** The input that was sealed; throws FeedSealError unless one of the keys sealed this place. */
export function openContact (
  keys: readonly Buffer[], place: ContactPlace, sealed: Buffer
): string {
  return open(keys, { info: CONTACT, aad: contactAad(place) }, sealed).toString('utf8')
}

/** Seals a result; `salt` is given only where the bytes have to be the same again. */
export function sealResult (
  key: Buffer, place: ResultPlace,
  ...[cells, salt = randomBytes(SALT_BYTES)]: readonly [cells: FeedCells, salt?: Buffer]
): Buffer {
  return seal(key, { info: RESULT, aad: resultAad(place), salt },
    Buffer.from(JSON.stringify(cells)))
}

/** The result that was sealed; throws FeedSealError unless one of the keys sealed this place. */
export function openResult (
  keys: readonly Buffer[], place: ResultPlace, sealed: Buffer
): FeedCells {
  const plain = open(keys, { info: RESULT, aad: resultAad(place) }, sealed)
  return JSON.parse(plain.toString('utf8')) as FeedCells
}

/** Names the contact at a place of its partner's topic, so that a repeated result is known. */
export function deriveResultId (
  partner: string, partition: number, offset: number | bigint
): string {
  const place = ['feed result id 1', partner, String(partition), String(offset)]
  return `res_${createHash('sha256').update(lengthPrefixed(place)).digest('hex').slice(0, 32)}`
}

const CONTACT = 'feed contact'
const RESULT = 'feed result'

function contactAad (place: ContactPlace): Buffer {
  const { partner, partition, sender, sequence, sentAt } = place
  const { reference, service, countryCode, forceFresh } = place
  return lengthPrefixed([
    'feed contact 2', partner, String(partition), sender, String(sequence), String(sentAt),
    reference, service, countryCode, forceFresh ? '1' : '0',
  ])
}

function resultAad ({ partner, reference, resultId }: ResultPlace): Buffer {
  return lengthPrefixed(['feed result 2', partner, reference, resultId])
}

type Binding = { readonly info: string, readonly aad: Buffer }

function seal (
  key: Buffer, { info, aad, salt }: Binding & { readonly salt: Buffer }, plain: Buffer
): Buffer {
  const cipher = createCipheriv('aes-256-gcm', ...derived(key, salt, info))
  cipher.setAAD(aad)
  const ciphertext = cipher.update(plain)
  const rest = cipher.final()
  const head = [Buffer.of(VERSION), Buffer.from(deriveKeyId(key), 'hex'), salt]
  return Buffer.concat([...head, ciphertext, rest, cipher.getAuthTag()])
}

function open (keys: readonly Buffer[], { info, aad }: Binding, sealed: Buffer): Buffer {
  const id = keyIdIn(sealed)
  const key = keys.find(candidate => deriveKeyId(candidate) === id)
  if (key === undefined) throw new FeedSealError(`sealed by key ${id}, which is not known`)
  const end = sealed.length - TAG_BYTES
  const secrets = derived(key, sealed.subarray(SALT_AT, HEAD_BYTES), info)
  const decipher = createDecipheriv('aes-256-gcm', ...secrets, { authTagLength: TAG_BYTES })
  decipher.setAAD(aad).setAuthTag(sealed.subarray(end))
  try {
    const plain = decipher.update(sealed.subarray(HEAD_BYTES, end))
    return Buffer.concat([plain, decipher.final()])
  } catch (cause) {
    throw new FeedSealError('the seal does not fit the message', { cause })
  }
}

/** Each field's UTF-8 bytes after their number (32 bits, big-endian): no two places are alike. */
function lengthPrefixed (fields: readonly string[]): Buffer {
  const lengths = fields.map(field => Buffer.byteLength(field))
  const bytes = Buffer.allocUnsafe(lengths.reduce((sum, length) => sum + 4 + length, 0))
  let at = 0
  for (const [index, field] of fields.entries()) {
    at = bytes.writeUInt32BE(lengths[index] ?? 0, at)
    at += bytes.write(field, at)
  }
  return bytes
}

/** Key and nonce of one message: no two messages have either in common, however many there are. */
function derived (key: Buffer, salt: Buffer, info: string): [key: Buffer, nonce: Buffer] {
  const bytes = Buffer.from(hkdfSync('sha256', key, salt, info, KEY_BYTES + NONCE_BYTES))
  return [bytes.subarray(0, KEY_BYTES), bytes.subarray(KEY_BYTES)]
}
