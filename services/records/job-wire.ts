import { createJobKeys } from '../jobs/job-keys.ts'
import { createJobStore } from '../jobs/store.ts'
import { createWire } from '../jobs/wire.ts'
import type { Parts } from '../lib/connect.ts'
import { createKeyRing } from '../lib/key-ring.ts'
import type { Wire } from '../lib/wire.ts'

type RingConfig = Parameters<typeof createKeyRing>[0]

/**
 * The wire of a stage that reads or writes rows, from its open connections and the key ring of its
 * configuration. A missing data key means nothing only for a job that does not run; for one that
 * does, the message is dead and its rows end without a verdict, never silently.
 */
export function createJobWire (
  { codec, state }: Pick<Parts, 'codec' | 'state'>, config: RingConfig
): Wire {
  const store = createJobStore(state)
  const isRunning = async (tenant: string, job: string): Promise<boolean> => {
    const outcome = await store.outcome(tenant, job)
    return outcome.kind === 'accepted' && !outcome.job.closed
  }
  const keys = createJobKeys({ redis: state, ring: createKeyRing(config), isRunning })
  return createWire({ codec, keys })
}
