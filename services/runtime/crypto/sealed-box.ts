import { Aes256Gcm, CipherSuite, DhkemX25519HkdfSha256, HkdfSha256 } from '@hpke/core'
import { bindingBytes, SealError, type Binding } from './seal.ts'

/** RFC 9180: base mode with X25519, HKDF-SHA256 and AES-256-GCM. */
const suite = new CipherSuite({
  kem: new DhkemX25519HkdfSha256(), kdf: new HkdfSha256(), aead: new Aes256Gcm(),
})

const ENCAPSULATED_BYTES = 32

/** The public key, 32 bytes, of the key pair that is derived from a secret key of 32 bytes. */
export async function boxPublicKey (secretKey: Buffer): Promise<Buffer> {
  const { publicKey } = await suite.kem.deriveKeyPair(bytesOf(secretKey))
  return Buffer.from(await suite.kem.serializePublicKey(publicKey))
}

/** Encrypts for the owner of the secret key; who has the public key only cannot decrypt it. */
export async function sealBox (
  publicKey: Buffer, binding: Binding, plain: Buffer
): Promise<Buffer> {
  const recipientPublicKey = await suite.kem.deserializePublicKey(bytesOf(publicKey))
  const { enc, ct } = await suite.seal(
    { recipientPublicKey }, bytesOf(plain), bytesOf(bindingBytes(binding)))
  return Buffer.concat([Buffer.from(enc), Buffer.from(ct)])
}

/** @throws SealError for a wrong key or binding, or changed bytes. */
export async function openBox (
  secretKey: Buffer, binding: Binding, sealed: Buffer
): Promise<Buffer> {
  const { privateKey } = await suite.kem.deriveKeyPair(bytesOf(secretKey))
  const enc = bytesOf(sealed.subarray(0, ENCAPSULATED_BYTES))
  const content = bytesOf(sealed.subarray(ENCAPSULATED_BYTES))
  try {
    const plain = await suite.open(
      { recipientKey: privateKey, enc }, content, bytesOf(bindingBytes(binding)))
    return Buffer.from(plain)
  } catch (cause) {
    throw new SealError('decryption failed: wrong key, wrong additional authenticated data, or ' +
      'modified bytes', { cause })
  }
}

/** A copy outside of the buffer pool. */
const bytesOf = (buffer: Buffer): ArrayBuffer => new Uint8Array(buffer).buffer
