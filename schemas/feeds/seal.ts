import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto'

/**
 * How contacts and results of bulk feeds are sealed: the format that `deploy/docs/feeds.md` tells
 * partners, whose test vectors are in `schemas/feeds/vectors.json`.
 */

/** What a contact's seal is bound to: none of it can be changed under way. */
export type ContactPlace = {
  readonly partner: string
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

/** Columns of the result file by name; blank ones are left out. */
export type FeedCells = Readonly<Record<string, string>>

/** Sealed bytes that a key and place do not open, or a text that is no key. */
export class FeedSealError extends Error {
  override readonly name = 'FeedSealError'
}

const VERSION = 1
const KEY_BYTES = 32
const NONCE_BYTES = 12
const TAG_BYTES = 16
const KEY_PREFIX = 'vjf_'

/** A partner's key as it is handed out; it is the only thing both sides have to keep secret. */
export function textOfPartnerKey (key: Buffer): string {
  return KEY_PREFIX + key.toString('base64url')
}

/** The 32 bytes of a partner's key; throws FeedSealError for a text that is none. */
export function partnerKeyOf (text: string): Buffer {
  const key = Buffer.from(text.slice(KEY_PREFIX.length), 'base64url')
  if (text !== textOfPartnerKey(key) || key.length !== KEY_BYTES) {
    throw new FeedSealError(`A partner's key begins with ${KEY_PREFIX} and holds 32 bytes.`)
  }
  return key
}

/** Seals an input; `nonce` is given only where the bytes have to be the same again. */
export function sealContact (
  key: Buffer, place: ContactPlace,
  ...[input, nonce = randomBytes(NONCE_BYTES)]: readonly [input: string, nonce?: Buffer]
): Buffer {
  return seal(subkey(key, 'feed contact'), contactAad(place), { plain: Buffer.from(input), nonce })
}

/** The input that was sealed; throws FeedSealError unless key and place are those of the seal. */
export function openContact (key: Buffer, place: ContactPlace, sealed: Buffer): string {
  return open(subkey(key, 'feed contact'), contactAad(place), sealed).toString('utf8')
}

/** Seals a result; `nonce` is given only where the bytes have to be the same again. */
export function sealResult (
  key: Buffer, place: ResultPlace,
  ...[cells, nonce = randomBytes(NONCE_BYTES)]: readonly [cells: FeedCells, nonce?: Buffer]
): Buffer {
  const plain = Buffer.from(JSON.stringify(cells))
  return seal(subkey(key, 'feed result'), resultAad(place), { plain, nonce })
}

/** The result that was sealed; throws FeedSealError unless key and place are those of the seal. */
export function openResult (key: Buffer, place: ResultPlace, sealed: Buffer): FeedCells {
  const plain = open(subkey(key, 'feed result'), resultAad(place), sealed)
  return JSON.parse(plain.toString('utf8')) as FeedCells
}

/** Names the contact at a place of its partner's topic, so that a repeated result is known. */
export function resultIdOf (partner: string, partition: number, offset: number | bigint): string {
  const place = ['feed result id 1', partner, String(partition), String(offset)]
  return `res_${createHash('sha256').update(lengthPrefixed(place)).digest('hex').slice(0, 32)}`
}

function contactAad (
  { partner, reference, service, countryCode, forceFresh }: ContactPlace
): Buffer {
  const options = [countryCode, forceFresh ? '1' : '0']
  return lengthPrefixed(['feed contact 1', partner, reference, service, ...options])
}

function resultAad ({ partner, reference, resultId }: ResultPlace): Buffer {
  return lengthPrefixed(['feed result 1', partner, reference, resultId])
}

type Plain = { readonly plain: Buffer, readonly nonce: Buffer }

function seal (key: Buffer, aad: Buffer, { plain, nonce }: Plain): Buffer {
  const cipher = createCipheriv('aes-256-gcm', key, nonce)
  cipher.setAAD(aad)
  const ciphertext = cipher.update(plain)
  const rest = cipher.final()
  return Buffer.concat([Buffer.of(VERSION), nonce, ciphertext, rest, cipher.getAuthTag()])
}

function open (key: Buffer, aad: Buffer, sealed: Buffer): Buffer {
  const end = sealed.length - TAG_BYTES
  if (end < 1 + NONCE_BYTES || sealed[0] !== VERSION) throw new FeedSealError('not sealed bytes')
  const nonce = sealed.subarray(1, 1 + NONCE_BYTES)
  const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES })
  decipher.setAAD(aad).setAuthTag(sealed.subarray(end))
  try {
    const plain = decipher.update(sealed.subarray(1 + NONCE_BYTES, end))
    return Buffer.concat([plain, decipher.final()])
  } catch (cause) {
    throw new FeedSealError('the seal fits neither key nor message', { cause })
  }
}

/** Each field's UTF-8 bytes after their number (32 bits, big-endian): no two places are alike. */
function lengthPrefixed (fields: readonly string[]): Buffer {
  return Buffer.concat(fields.flatMap(field => {
    const bytes = Buffer.from(field)
    const length = Buffer.alloc(4)
    length.writeUInt32BE(bytes.length)
    return [length, bytes]
  }))
}

/** HKDF-SHA256 without salt, so that no key serves two purposes; derived once a key. */
function subkey (key: Buffer, purpose: string): Buffer {
  const known = subkeys.get(key) ?? new Map<string, Buffer>()
  subkeys.set(key, known)
  const found = known.get(purpose) ?? Buffer.from(hkdfSync('sha256', key, '', purpose, KEY_BYTES))
  known.set(purpose, found)
  return found
}

const subkeys = new WeakMap<Buffer, Map<string, Buffer>>()
