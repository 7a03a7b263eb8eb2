import { createPrivateKey, createPublicKey, sign, type KeyObject } from 'node:crypto'
import { LRUCache } from 'lru-cache'

/** RFC 8410: what precedes the 32 bytes of a private key in its DER form (PKCS #8). */
const PKCS8_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex')

/** Private keys by their bytes in base64; creating one takes longer than a signature. */
const privateKeys = new LRUCache<string, KeyObject>({ max: 1_000 })

function privateKeyOf (seed: Buffer): KeyObject {
  const name = seed.toString('base64')
  const key = privateKeys.get(name) ?? createPrivateKey({
    key: Buffer.concat([PKCS8_PREFIX, seed]), format: 'der', type: 'pkcs8',
  })
  privateKeys.set(name, key)
  return key
}

/** The 32 bytes of the public key of a private key, which are any 32 bytes (RFC 8032, 5.1.5). */
export function publicKeyOf (seed: Buffer): Buffer {
  const { x = '' } = createPublicKey(privateKeyOf(seed)).export({ format: 'jwk' })
  return Buffer.from(x, 'base64url')
}

/** The Ed25519 signature of a text, 64 bytes. */
export function signEd25519 (seed: Buffer, text: string): Buffer {
  return sign(null, Buffer.from(text), privateKeyOf(seed))
}
