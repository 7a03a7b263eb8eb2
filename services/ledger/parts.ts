import type { Static } from 'typebox'
import { createJobStore } from '../jobs/store.ts'
import type { Parts } from '../lib/connect.ts'
import { createEmitter } from '../lib/emit.ts'
import type { Life } from '../lib/run.ts'
import type { Wire } from '../lib/wire.ts'
import { createOutbox } from '../money/outbox.ts'
import { TENANTS_KEY } from '../money/redis-keys.ts'
import { createArchive } from '../records/archive.ts'
import { createResultBlocks } from '../records/result-blocks.ts'
import { storeBlock } from '../records/stored-block.ts'
import { createBacklog } from './backlog.ts'
import type { ledgerConfig } from './config.ts'
import type { SweepParts } from './sweep.ts'

type Connected = Pick<Parts, 'bus' | 'state' | 'clickhouse' | 'codec' | 'clock'> &
  Pick<Life, 'log' | 'metrics'> & { readonly wire: Wire }

/** What the sweep needs, on what the process is connected to. */
export function sweepParts (config: Static<typeof ledgerConfig>, connected: Connected): SweepParts {
  const { bus, state, clickhouse, codec, clock, wire, log, metrics } = connected
  const blocks = createResultBlocks(clickhouse)
  const { KAFKA_BROKERS: brokers, INSTANCE } = config
  return {
    store: createJobStore(state),
    outbox: createOutbox(state),
    archive: createArchive(clickhouse),
    // Apart from the stage's producers, as both may send at the same time.
    emitter: createEmitter({ wire, producerOf: name => bus.producer(`sweep.${name}`) }),
    storeBlock: emission => storeBlock({ wire, codec, blocks }, emission),
    backlog: createBacklog({ brokers, clientId: `ledger.${INSTANCE}`, clock }),
    tenants: () => state.smembers(TENANTS_KEY),
    clock,
    log,
    metrics,
    leftOverAfterMs: config.LEFT_OVER_AFTER_MS,
    stalledAfterMs: config.STALLED_AFTER_MS,
  }
}
