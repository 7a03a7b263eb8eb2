import type { Static } from 'typebox'
import type { Parts } from '../lib/connect.ts'
import { createEmitter } from '../lib/emit.ts'
import type { Life } from '../lib/run.ts'
import type { Wire } from '../lib/wire.ts'
import { TENANTS_KEY } from '../money/redis-keys.ts'
import { createStores } from '../records/stores.ts'
import { createBacklog } from './backlog.ts'
import type { ledgerConfig } from './config.ts'
import type { SweepParts } from './sweep.ts'

type Config = Pick<Static<typeof ledgerConfig>,
  'KAFKA_BROKERS' | 'INSTANCE' | 'LEFT_OVER_AFTER_MS' | 'STALLED_AFTER_MS'>
type Connected = Pick<Parts, 'bus' | 'state' | 'clickhouse' | 'codec' | 'clock'> &
  Pick<Life, 'log' | 'metrics' | 'fatal'> & { readonly wire: Wire }

/** What the sweep needs, on what the process is connected to. */
export function sweepParts (
  config: Config, connected: Connected
): SweepParts & ReturnType<typeof createStores> & Pick<Life, 'fatal'> {
  const { bus, state, clock, wire, log, metrics, fatal } = connected
  const { KAFKA_BROKERS: brokers, INSTANCE } = config
  return {
    ...createStores(connected),
    // Apart from the stage's producers, as both may send at the same time.
    emitter: createEmitter({ wire, producerOf: name => bus.producer(`sweep.${name}`) }),
    backlog: createBacklog({ brokers, clientId: `ledger.${INSTANCE}`, clock }),
    tenants: () => state.smembers(TENANTS_KEY),
    clock,
    log,
    metrics,
    fatal,
    leftOverAfterMs: config.LEFT_OVER_AFTER_MS,
    stalledAfterMs: config.STALLED_AFTER_MS,
  }
}
