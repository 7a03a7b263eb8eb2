import type { Redis } from 'ioredis'
import type { Stage, MessageCodec } from '../../services/runtime/engine/stage.ts'
import type { StageName } from '../../services/topology.ts'
import type { Codec } from '../../services/runtime/kafka/registry.ts'
import { createLedgerStage } from '../../services/ledger/stage.ts'
import type { Chaos } from './chaos.ts'
import { normalizeStage, lookupStage, redisLike } from './early-stages.ts'
import { settleStage, verifyStage } from './late-stages.ts'
import type { Faults, PipelineOptions } from './pipeline.ts'
import type { Stores } from './stores.ts'
import type { Observer } from './observer.ts'

/** What the stages of one simulated pipeline share. */
export type Shared = {
  readonly redis: Redis
  readonly cache: Redis
  readonly stores: Stores
  readonly codec: Codec
  readonly messageCodec: MessageCodec
  readonly chaos: Chaos
  readonly faults: Faults
  readonly observer: Observer
  /** How far the clock of stages that hold messages is ahead. */
  readonly time: { readonly aheadMs: number }
}

export type SimulatedStage = Exclude<StageName, 'ingest' | 'deliver'>

/** Makes each stage as its `main` does, except ClickHouse and the provider; again after a crash. */
export function stageMakers (
  { connect, ...shared }: Omit<Shared, 'redis' | 'cache'> & Pick<PipelineOptions, 'connect'>
): Readonly<Record<SimulatedStage, () => Stage>> {
  const of = (stage: SimulatedStage): Shared =>
    ({ ...shared, redis: connect('state', stage), cache: connect('cache', stage) })
  const makers = {
    normalize: () => normalizeStage(of('normalize')),
    lookup: () => lookupStage(of('lookup')),
    verify: () => verifyStage(of('verify')),
    settle: () => settleStage(of('settle')),
    ledger: () => createLedgerStage({
      ...shared.stores,
      access: { append: async () => {} },
      clock: redisLike,
      batch: 20,
      copyAfterMs: 0,
    }),
  }
  // Each is typed by what it reads and writes; the supervisor starts all alike.
  return makers as unknown as Readonly<Record<SimulatedStage, () => Stage>>
}
