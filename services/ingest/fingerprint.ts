import { createHmac, createSecretKey, hkdfSync, type KeyObject } from 'node:crypto'
import type { Redis } from 'ioredis'
import { createRequestSecret } from '../accounts/request-secret.ts'
import { createKeyRing } from '../crypto/key-ring.ts'
import { isInfrastructure } from '../platform/errors.ts'
import { retryForever } from '../platform/retry.ts'
import type { JobRequest } from './request.ts'

/**
 * Identifies a request for its Idempotency-Key: 16 bytes of HMAC-SHA256, in hex, over the request
 * as canonical JSON with defaults. The order of fields and labels does not matter, the order of
 * inputs does. An HMAC, because a plain digest would allow guessing contacts.
 */
export function fingerprintOf (request: JobRequest, key: KeyObject): string {
  const metadata = Object.entries(request.metadata).sort(([a], [b]) => (a < b ? -1 : 1))
  const options = [
    'v1', request.service, request.country, request.forceFresh, request.webhookUrl, metadata,
  ]
  const hmac = createHmac('sha256', key).update(JSON.stringify(options))
  for (const text of jsonOf(request.inputs)) hmac.update(text)
  return hmac.digest('hex').slice(0, 32)
}

/** The list as JSON in pieces: the text of a whole body would need its size in memory again. */
function * jsonOf (inputs: readonly string[]): Iterable<string> {
  yield '['
  for (let from = 0; from < inputs.length; from += PIECE_ROWS) {
    if (from > 0) yield ','
    yield JSON.stringify(inputs.slice(from, from + PIECE_ROWS)).slice(1, -1)
  }
  yield ']'
}

const PIECE_ROWS = 1_000

/**
 * The initial secret of fingerprints, derived from the first key of the ring by name. It is stored
 * afterwards, so that a new key of the ring does not turn a retry into another request.
 */
export function firstSecret (ring: Readonly<Record<string, string>>): Buffer {
  const first = Object.keys(ring).sort()[0]
  if (first === undefined) throw new TypeError('KEY_RING has no key')
  const material = Buffer.from(ring[first] ?? '', 'base64')
  return Buffer.from(hkdfSync('sha256', material, '', 'fingerprint', 32))
}

type RingConfig = Parameters<typeof createKeyRing>[0]

/**
 * The secret of fingerprints, common to all instances; retries while Redis is unavailable.
 * @throws FatalError when the ring lacks the key that wraps it.
 */
export async function requestSecretOf (redis: Redis, config: RingConfig): Promise<Buffer> {
  const secret = createRequestSecret({ redis, ring: createKeyRing(config) })
  return await retryForever(() => secret.obtain(firstSecret(config.KEY_RING)), {
    when: isInfrastructure,
  })
}

/** The key of fingerprints, from their secret. */
export function fingerprintKey (secret: Buffer): KeyObject {
  return createSecretKey(secret)
}
