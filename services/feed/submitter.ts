import type { Redis } from 'ioredis'
import { createOutcomes } from '../jobs/outcomes.ts'
import { createJobStore } from '../jobs/store.ts'
import { createSubmitter, type Submitter } from '../jobs/submit.ts'
import { createWire } from '../jobs/wire.ts'
import type { Parts } from '../lib/connect.ts'
import { createEmitter } from '../lib/emit.ts'
import type { Life } from '../lib/run.ts'
import { connectJobKeys } from '../records/job-wire.ts'

type Connected = Pick<Parts, 'bus' | 'codec' | 'state' | 'clock'>
type Settings = Parameters<typeof connectJobKeys>[1] & {
  readonly CACHE_SECRET_ACTIVE: string
  readonly FEED_ACCEPT_WITHIN_MS: number
}

/** The way into the pipeline that the REST interface has too. */
export async function connectSubmitter (
  settings: Settings, connected: Connected, { onStop }: Pick<Life, 'onStop'>
): Promise<Submitter> {
  const { bus, codec, state, clock } = connected
  const store = createJobStore(state)
  const keys = connectJobKeys(connected, settings)
  const outcomes = await createOutcomes({ store, subscriber: subscriberOf(state, onStop), clock })
  onStop(() => outcomes.stop())
  const wire = createWire({ codec, keys })
  const emitter = createEmitter({ wire, producerOf: name => bus.producer(`feed.${name}`) })
  const { CACHE_SECRET_ACTIVE: tokenVersion, FEED_ACCEPT_WITHIN_MS: acceptWithinMs } = settings
  return createSubmitter({ store, keys, emitter, outcomes, clock, tokenVersion, acceptWithinMs })
}

/** A subscribed connection serves nothing else, so this one is of its own. */
function subscriberOf (state: Redis, onStop: Life['onStop']): Redis {
  const subscriber = state.duplicate()
  subscriber.on('error', () => {})
  onStop(() => subscriber.disconnect())
  return subscriber
}
