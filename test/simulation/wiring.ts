import type { Redis } from 'ioredis'
import { createJobKeys } from '../../services/jobs/job-keys.ts'
import { createJobStore } from '../../services/jobs/store.ts'
import { createWire } from '../../services/jobs/wire.ts'
import type { KeyRing } from '../../services/lib/key-ring.ts'
import type { Codec } from '../../services/lib/registry.ts'

/** Data keys and the wire on a Redis, as every stage of the product has them. */
export function keysAndWire (
  { redis, ring, codec }: { readonly redis: Redis, readonly ring: KeyRing, readonly codec: Codec }
) {
  const store = createJobStore(redis)
  const isRunning = async (tenant: string, job: string) => {
    const outcome = await store.outcome(tenant, job)
    return outcome.kind === 'accepted' && !outcome.job.closed
  }
  const keys = createJobKeys({ redis, ring, isRunning })
  return { keys, wire: createWire({ codec, keys }) }
}
