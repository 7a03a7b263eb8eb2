import type { Redis } from 'ioredis'
import { createRequestSecret } from '../accounts/request-secret.ts'
import { FatalError, isInfrastructure } from '../platform/errors.ts'
import { createKeyRing } from '../crypto/key-ring.ts'
import { retryForever } from '../platform/retry.ts'
import { firstSecret } from './fingerprint.ts'

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

/** Whether an operator can fix the error without loss, a missing key of the ring included. */
export function isRecoverable (error: unknown): boolean {
  return isInfrastructure(error) || error instanceof FatalError
}
