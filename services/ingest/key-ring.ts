import type { Redis } from 'ioredis'
import { createRequestSecret } from '../accounts/request-secret.ts'
import { FatalError, isInfrastructure } from '../platform/errors.ts'
import { createKeyRing } from '../crypto/key-ring.ts'
import { retryForever } from '../platform/retry.ts'
import { firstSecret } from './fingerprint.ts'

type RingConfig = Parameters<typeof createKeyRing>[0]

/**
 * The secret of fingerprints, the same for all who take requests; waits for a Redis that is away.
 * @throws FatalError when the ring lacks the key it is wrapped by.
 */
export async function requestSecretOf (redis: Redis, config: RingConfig): Promise<Buffer> {
  const secret = createRequestSecret({ redis, ring: createKeyRing(config) })
  return await retryForever(() => secret.obtain(firstSecret(config.KEY_RING)), {
    when: isInfrastructure,
  })
}

/** What heals when somebody mends it, a ring that lacks a key included: nothing is lost by then. */
export function isUnavailable (error: unknown): boolean {
  return isInfrastructure(error) || error instanceof FatalError
}
