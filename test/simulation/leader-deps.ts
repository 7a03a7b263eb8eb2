import type { Redis } from 'ioredis'
import type { Emitter } from '../../services/runtime/engine/emit.ts'
import { createRecoveryStore } from '../../services/ledger/recovery-store.ts'
import { serversOf } from '../../services/runtime/platform/cells.ts'
import { InfrastructureError } from '../../services/runtime/platform/errors.ts'
import { sleep } from '../../services/runtime/platform/retry.ts'
import { createTenants } from '../../services/money/tenants.ts'
import type { Chaos } from './chaos.ts'
import type { Pipeline } from './pipeline.ts'
import { takeoverDeps } from './takeover.ts'
import { topicReader } from './topic-reader.ts'
import type { Environment } from './environment.ts'

export type LeaderOptions = {
  readonly pipeline: Pipeline
  readonly chaos: Chaos
  readonly connect: Environment['connect']
  readonly subscriber: Environment['subscriber']
  /** A tenant was unlocked that lost data, or may have. */
  readonly onUnlock: () => void
}

/** No leader lease expires by the clock of Redis within a run. */
const NEVER_MS = 3_600_000

/** As the `main` of the ledger wires them, without Kafka, ClickHouse and the stage. */
export function leaderDeps (options: LeaderOptions, redis: Redis, name: string) {
  const { pipeline, chaos, subscriber, onUnlock } = options
  const { bus, messageCodec, codec, stores: { blocks, journal } } = pipeline
  const takeover = takeoverDeps(pipeline, redis)
  return {
    ...takeover,
    emitter: { emit: halfWritten(takeover.emitter.emit, chaos) },
    redis,
    messageCodec,
    codec,
    blocks,
    journal,
    name,
    sleep,
    accountsProducer: bus.producer('accounts'),
    recoveryStore: createRecoveryStore(redis),
    servers: () => serversOf(redis),
    reader: topicReader({ bus, codec, chaos }),
    history: { listAll: async () => [] },
    subscriptions: async () => [],
    backlog: { mayContain: async () => true },
    tenants: createTenants(redis),
    metrics: metricsOf(onUnlock),
    subscriber: subscriber(),
    graceMs: 1_000,
    leaseMs: NEVER_MS,
    pollMs: 1_000,
    checkEveryMs: 5_000,
    snapshotEveryMs: 20,
    snapshotBehindMs: 10,
    orphanAgeMs: 100,
    stalledAfterMs: NEVER_MS,
    fatal: (error: unknown) => { throw error },
  }
}

const SNAPSHOTS_HALF_WRITTEN = 0.3

/** Writes only some of the snapshots at times, as a ledger that crashes meanwhile. */
function halfWritten (emit: Emitter['emit'], chaos: Chaos): Emitter['emit'] {
  return async emissions => {
    const areSnapshots = emissions.every(({ topic }) => topic === 'wallet.snapshots')
    if (!areSnapshots || !chaos.happens(SNAPSHOTS_HALF_WRITTEN)) return await emit(emissions)
    await emit(emissions.slice(0, chaos.below(emissions.length)))
    throw new InfrastructureError('the other snapshots were not written')
  }
}

/** Ignores all metrics except the one that counts unlocked tenants. */
function metricsOf (onUnlock: () => void) {
  return {
    count: (_: string, labels: object) => {
      if ('kind' in labels && labels.kind === 'tenant') onUnlock()
    },
    watch: () => {},
  }
}
