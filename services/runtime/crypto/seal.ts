import { Aes256Gcm, CipherSuite, DhkemX25519HkdfSha256, HkdfSha256 } from '@hpke/core'
import {
  createCipheriv, createDecipheriv, createSecretKey, hkdfSync, type KeyObject, randomBytes,
} from 'node:crypto'
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib'

/** The additional authenticated data of a seal, in order; decrypting with another one fails. */
export type Binding = readonly (string | number | Buffer)[]

/** Sealed bytes that cannot be decrypted: a wrong key, another binding, or changed bytes. */
export class SealError extends Error {
  override readonly name = 'SealError'
}

const VERSION = 1
const NONCE_BYTES = 12
const TAG_BYTES = 16
const HEAD_BYTES = 1 + NONCE_BYTES + TAG_BYTES
const COMPRESSION_LEVEL = 2
const COMPRESSED_FROM_BYTES = 512
const ZSTD_MAGIC = 0xfd2fb528
const RAW_DESCRIPTOR = 0xa0
const RAW_HEAD_BYTES = 12

/** No service seals more, so a larger content can only be an attack on the memory of the reader. */
const MAX_PLAIN_BYTES = 64 * 1024 * 1024

/** Most contents fit into one buffer of this size, which avoids copies. */
const BUFFER_BYTES = { compressed: 48 * 1024, plain: 96 * 1024 } as const

/**
 * Compresses (zstd), then encrypts with AES-256-GCM and a random nonce: version byte, nonce, tag,
 * ciphertext. The nonce is never derived, because a redelivered message may contain other rows.
 */
export function seal (key: Buffer, binding: Binding, plain: Buffer): Buffer {
  // A compressor takes more time to create than to encrypt a small content, which shrinks little.
  const compressed = plain.length < COMPRESSED_FROM_BYTES
    ? rawFrame(plain)
    : zstdCompressSync(plain, {
      params: { [constants.ZSTD_c_compressionLevel]: COMPRESSION_LEVEL },
      chunkSize: BUFFER_BYTES.compressed,
    })
  const sealed = sealPlain(key, binding, compressed)
  detachBuffer(compressed)
  return sealed
}

/** Like `seal`, without compression, for random or few bytes. */
export function sealPlain (key: Buffer, binding: Binding, plain: Buffer): Buffer {
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv('aes-256-gcm', keyObject(key), nonce, { authTagLength: TAG_BYTES })
  cipher.setAAD(bindingBytes(binding))
  const ciphertext = [cipher.update(plain), cipher.final()]
  const sealed = Buffer.concat([Buffer.of(VERSION), nonce, cipher.getAuthTag(), ...ciphertext])
  for (const piece of ciphertext) detachBuffer(piece)
  return sealed
}

/**
 * Decrypts and authenticates sealed bytes. The content is still compressed: see `unpack`.
 * @throws SealError for a wrong key or binding, or changed bytes.
 */
export function openSealed (key: Buffer, binding: Binding, sealed: Buffer): Buffer {
  if (sealed.length < HEAD_BYTES || sealed[0] !== VERSION) {
    throw new SealError(`not sealed bytes of version ${VERSION}: length ${sealed.length}`)
  }
  const nonce = sealed.subarray(1, 1 + NONCE_BYTES)
  const decipher = createDecipheriv('aes-256-gcm', keyObject(key), nonce, {
    authTagLength: TAG_BYTES,
  })
  decipher.setAuthTag(sealed.subarray(1 + NONCE_BYTES, HEAD_BYTES)).setAAD(bindingBytes(binding))
  try {
    const plain = decipher.update(sealed.subarray(HEAD_BYTES))
    // GCM is a stream mode, so the last block is normally empty.
    const rest = decipher.final()
    return rest.length === 0 ? plain : Buffer.concat([plain, rest])
  } catch (cause) {
    throw new SealError('decryption failed: wrong key, wrong additional authenticated data, or ' +
      'modified bytes', { cause })
  }
}

/**
 * A zstd frame of one raw block, so that every decompressor reads it: magic number, descriptor
 * (single segment, size of the content in 4 bytes), that size, block header (last block, raw, size
 * in the upper 21 bits), content. RFC 8878, sections 3.1.1 and 3.1.1.2.
 */
function rawFrame (plain: Buffer): Buffer {
  const frame = Buffer.allocUnsafe(RAW_HEAD_BYTES + plain.length)
  frame.writeUInt32LE(ZSTD_MAGIC, 0)
  frame.writeUInt8(RAW_DESCRIPTOR, 4)
  frame.writeUInt32LE(plain.length, 5)
  frame.writeUIntLE(plain.length << 3 | 1, 9, 3)
  plain.copy(frame, RAW_HEAD_BYTES)
  return frame
}

function isRawFrame (bytes: Buffer): boolean {
  const length = bytes.length - RAW_HEAD_BYTES
  return length >= 0 && bytes.readUInt32LE(0) === ZSTD_MAGIC && bytes[4] === RAW_DESCRIPTOR &&
    bytes.readUInt32LE(5) === length && bytes.readUIntLE(9, 3) === (length << 3 | 1)
}

/** Unpacks and decodes the content of `openSealed`. `decode` must not keep the buffer. */
export function unpackWith<T> (compressed: Buffer, decode: (plain: Buffer) => T): T {
  const plain = unpack(compressed)
  try {
    return decode(plain)
  } finally {
    detachBuffer(plain)
  }
}

/**
 * Decompresses the content of `openSealed`, whose buffer is freed.
 * @throws SealError for content that is not compressed or too large.
 */
export function unpack (compressed: Buffer): Buffer {
  try {
    if (isRawFrame(compressed)) return Buffer.from(compressed.subarray(RAW_HEAD_BYTES))
    return zstdDecompressSync(compressed, {
      maxOutputLength: MAX_PLAIN_BYTES, chunkSize: BUFFER_BYTES.plain,
    })
  } catch (cause) {
    throw new SealError('decompression of sealed content failed', { cause })
  } finally {
    detachBuffer(compressed)
  }
}

/** The 32-byte subkey for one purpose (HKDF-SHA256); no key has two purposes. */
export function subkey (dataKey: Buffer, purpose: string): Buffer {
  const subkeysByPurpose = subkeys.get(dataKey) ?? new Map<string, Buffer>()
  subkeys.set(dataKey, subkeysByPurpose)
  const subkey = subkeysByPurpose.get(purpose) ?? deriveSubkey(dataKey, purpose)
  subkeysByPurpose.set(purpose, subkey)
  return subkey
}

const deriveSubkey = (dataKey: Buffer, purpose: string): Buffer =>
  Buffer.from(hkdfSync('sha256', keyObject(dataKey), '', purpose, 32))

/** The cached KeyObject of a key; creating one takes as long as an encryption. */
function keyObject (key: Buffer): KeyObject {
  const made = keyObjects.get(key) ?? createSecretKey(key)
  keyObjects.set(key, made)
  return made
}

const keyObjects = new WeakMap<Buffer, KeyObject>()

/** A binding as bytes: each field with its length as prefix, so that no two bindings are equal. */
function bindingBytes (binding: Binding): Buffer {
  return Buffer.concat(binding.flatMap(field => {
    const bytes = Buffer.isBuffer(field) ? field : Buffer.from(String(field))
    const length = Buffer.alloc(4)
    length.writeUInt32BE(bytes.length)
    return [length, bytes]
  }))
}

/** Weak keys: a subkey is cached as long as its data key exists. */
const subkeys = new WeakMap<Buffer, Map<string, Buffer>>()

/** RFC 9180: base mode with X25519, HKDF-SHA256 and AES-256-GCM. */
const suite = new CipherSuite({
  kem: new DhkemX25519HkdfSha256(), kdf: new HkdfSha256(), aead: new Aes256Gcm(),
})

const ENCAPSULATED_BYTES = 32

/** The public key, 32 bytes, of the key pair that is derived from a secret key of 32 bytes. */
export async function boxPublicKey (secretKey: Buffer): Promise<Buffer> {
  const { publicKey } = await suite.kem.deriveKeyPair(copyBytes(secretKey))
  return Buffer.from(await suite.kem.serializePublicKey(publicKey))
}

/** Encrypts for the owner of the secret key; who has the public key only cannot decrypt it. */
export async function sealBox (
  publicKey: Buffer, binding: Binding, plain: Buffer
): Promise<Buffer> {
  const recipientPublicKey = await suite.kem.deserializePublicKey(copyBytes(publicKey))
  const { enc, ct } = await suite.seal(
    { recipientPublicKey }, copyBytes(plain), copyBytes(bindingBytes(binding)))
  return Buffer.concat([Buffer.from(enc), Buffer.from(ct)])
}

/** @throws SealError for a wrong key or binding, or changed bytes. */
export async function openBox (
  secretKey: Buffer, binding: Binding, sealed: Buffer
): Promise<Buffer> {
  const { privateKey } = await suite.kem.deriveKeyPair(copyBytes(secretKey))
  const enc = copyBytes(sealed.subarray(0, ENCAPSULATED_BYTES))
  const content = copyBytes(sealed.subarray(ENCAPSULATED_BYTES))
  try {
    const plain = await suite.open(
      { recipientKey: privateKey, enc }, content, copyBytes(bindingBytes(binding)))
    return Buffer.from(plain)
  } catch (cause) {
    throw new SealError('decryption failed: wrong key, wrong additional authenticated data, or ' +
      'modified bytes', { cause })
  }
}

/** A copy outside of the buffer pool. */
const copyBytes = (buffer: Buffer): ArrayBuffer => new Uint8Array(buffer).buffer

/**
 * Frees the memory of a buffer at once; the buffer is empty afterwards. Only for buffers that the
 * caller created and no other code uses. Garbage collection would start only after 64 MB of such
 * buffers. Pooled buffers and views with an offset are left alone; a view at offset 0 frees all of
 * its memory.
 */
export function detachBuffer (bytes: Buffer): void {
  const { buffer, byteOffset } = bytes
  const isShared = buffer.byteLength === Buffer.poolSize || byteOffset > 0
  if (buffer instanceof ArrayBuffer && !buffer.detached && !isShared) buffer.transfer(0)
}
