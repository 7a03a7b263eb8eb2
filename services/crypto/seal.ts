import {
  createCipheriv, createDecipheriv, createSecretKey, hkdfSync, randomBytes, type KeyObject,
} from 'node:crypto'
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import { detachBuffer } from '../platform/detach-buffer.ts'

/** What a seal is bound to, in order; opening with anything else fails. */
export type Binding = readonly (string | number | Buffer)[]

/** Sealed bytes that cannot be opened: a wrong key, other bindings, or changed bytes. */
export class SealError extends Error {
  override readonly name = 'SealError'
}

const VERSION = 1
const NONCE_BYTES = 12
const TAG_BYTES = 16
const HEAD_BYTES = 1 + NONCE_BYTES + TAG_BYTES
const COMPRESSION_LEVEL = 2

/** Nothing we seal is ever larger, so more can only be an attack on the reader's memory. */
const MAX_PLAIN_BYTES = 64 * 1024 * 1024

/** Most of what is sealed is no larger, so it is compressed, and made plain, in one piece. */
const USUAL_BYTES = { compressed: 48 * 1024, plain: 96 * 1024 } as const

/**
 * Compresses (zstd), then seals by AES-256-GCM under a random nonce: version byte, nonce, tag,
 * ciphertext. The nonce is never derived, as a redelivered message may carry other rows.
 */
export function seal (key: Buffer, binding: Binding, plain: Buffer): Buffer {
  const params = { [constants.ZSTD_c_compressionLevel]: COMPRESSION_LEVEL }
  const compressed = zstdCompressSync(plain, { params, chunkSize: USUAL_BYTES.compressed })
  const sealed = sealPlain(key, binding, compressed)
  detachBuffer(compressed)
  return sealed
}

/** As `seal`, but without compression, for bytes that are random or few. */
export function sealPlain (key: Buffer, binding: Binding, plain: Buffer): Buffer {
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv('aes-256-gcm', keyObject(key), nonce, { authTagLength: TAG_BYTES })
  cipher.setAAD(bindingBytes(binding))
  const ciphertext = [cipher.update(plain), cipher.final()]
  const sealed = Buffer.concat([Buffer.of(VERSION), nonce, cipher.getAuthTag(), ...ciphertext])
  for (const piece of ciphertext) detachBuffer(piece)
  return sealed
}

/** The authenticated content of sealed bytes, still compressed; `unpack` makes it plain. */
export function openSealed (key: Buffer, binding: Binding, sealed: Buffer): Buffer {
  if (sealed.length < HEAD_BYTES || sealed[0] !== VERSION) throw new SealError('not sealed bytes')
  const nonce = sealed.subarray(1, 1 + NONCE_BYTES)
  const decipher = createDecipheriv('aes-256-gcm', keyObject(key), nonce, {
    authTagLength: TAG_BYTES,
  })
  decipher.setAuthTag(sealed.subarray(1 + NONCE_BYTES, HEAD_BYTES)).setAAD(bindingBytes(binding))
  try {
    const plain = decipher.update(sealed.subarray(HEAD_BYTES))
    // GCM gives back as many bytes as it takes, so none are left for the end.
    const rest = decipher.final()
    return rest.length === 0 ? plain : Buffer.concat([plain, rest])
  } catch (cause) {
    throw new SealError('the seal does not fit its key and message', { cause })
  }
}

/** What `decode` makes of the content that `openSealed` gave; it may keep nothing of its bytes. */
export function unpackWith<T> (compressed: Buffer, decode: (plain: Buffer) => T): T {
  const plain = unpack(compressed)
  try {
    return decode(plain)
  } finally {
    detachBuffer(plain)
  }
}

/** Decompresses what `openSealed` gave, which is used up by it. */
export function unpack (compressed: Buffer): Buffer {
  try {
    return zstdDecompressSync(compressed, {
      maxOutputLength: MAX_PLAIN_BYTES, chunkSize: USUAL_BYTES.plain,
    })
  } catch (cause) {
    throw new SealError('sealed content that does not decompress', { cause })
  } finally {
    detachBuffer(compressed)
  }
}

/** The 32-byte key for one purpose (HKDF-SHA256), so that no key ever serves two. */
export function subkey (dataKey: Buffer, purpose: string): Buffer {
  const known = subkeys.get(dataKey) ?? new Map<string, Buffer>()
  subkeys.set(dataKey, known)
  const found = known.get(purpose) ?? Buffer.from(hkdfSync('sha256', dataKey, '', purpose, 32))
  known.set(purpose, found)
  return found
}

/** A key as the runtime uses it; to make one of its bytes takes as long as to seal with it. */
function keyObject (key: Buffer): KeyObject {
  const made = keyObjects.get(key) ?? createSecretKey(key)
  keyObjects.set(key, made)
  return made
}

const keyObjects = new WeakMap<Buffer, KeyObject>()

/** Each field after its length, so that no two different bindings have the same bytes. */
function bindingBytes (binding: Binding): Buffer {
  return Buffer.concat(binding.flatMap(field => {
    const bytes = Buffer.isBuffer(field) ? field : Buffer.from(String(field))
    const length = Buffer.alloc(4)
    length.writeUInt32BE(bytes.length)
    return [length, bytes]
  }))
}

/** Keyed by the buffer itself: derived keys live exactly as long as the key they come from. */
const subkeys = new WeakMap<Buffer, Map<string, Buffer>>()
