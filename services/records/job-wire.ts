import { createJobKeys, keysInTopic, type JobKeys } from '../jobs/job-keys.ts'
import { createJobStore } from '../jobs/store.ts'
import { createWire } from '../jobs/wire.ts'
import type { Parts } from '../lib/connect.ts'
import { createKeyRing } from '../lib/key-ring.ts'
import type { Wire } from '../lib/wire.ts'

type Connected = Pick<Parts, 'bus' | 'codec' | 'state'>
type RingConfig = Parameters<typeof createKeyRing>[0]

/**
 * The data keys of jobs, from the open connections of a service and the key ring of its
 * configuration. A missing key means nothing only for a job that does not run; for one that does it
 * is restored from its topic.
 */
export function connectJobKeys ({ bus, codec, state }: Connected, config: RingConfig): JobKeys {
  const store = createJobStore(state)
  const isRunning = async (tenant: string, job: string): Promise<boolean> => {
    const outcome = await store.outcome(tenant, job)
    return outcome.kind === 'accepted' && !outcome.job.closed
  }
  const ring = createKeyRing(config)
  return createJobKeys({ redis: state, ring, isRunning, restore: keysInTopic({ bus, codec }) })
}

/**
 * The wire of a stage that reads or writes rows. Where the key of a running job is nowhere, the
 * message is dead and its rows end without a verdict, never silently.
 */
export function createJobWire (connected: Connected, config: RingConfig): Wire {
  return createWire({ codec: connected.codec, keys: connectJobKeys(connected, config) })
}
