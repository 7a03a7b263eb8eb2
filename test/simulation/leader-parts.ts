import type { Redis } from 'ioredis'
import { createRecoveryStore } from '../../services/ledger/recovery-store.ts'
import { sleep } from '../../services/platform/retry.ts'
import { createTenants } from '../../services/money/tenants.ts'
import type { Chaos } from './chaos.ts'
import type { Pipeline } from './pipeline.ts'
import { reapDeps } from './reap-deps.ts'
import { topicReader } from './topic-reader.ts'
import type { World } from './world.ts'

export type LeaderOptions = {
  readonly pipeline: Pipeline
  readonly chaos: Chaos
  readonly connect: World['connect']
  readonly subscriber: World['subscriber']
  /** A tenant was let in that had lost something, or may have. */
  readonly onLetIn: () => void
}

/** In Redis' own time no lead ends within a run. */
const NEVER_MS = 3_600_000

/** As `main` of the ledger puts them together, but for Kafka, ClickHouse and the stage. */
export function leaderDeps (options: LeaderOptions, redis: Redis, name: string) {
  const { pipeline, chaos, subscriber, onLetIn } = options
  const { bus, messageCodec, codec, stores: { blocks, journal } } = pipeline
  return {
    ...reapDeps(pipeline, redis),
    redis,
    messageCodec,
    codec,
    blocks,
    journal,
    name,
    sleep,
    accountsProducer: bus.producer('accounts'),
    recoveryStore: createRecoveryStore(redis),
    reader: topicReader(bus, chaos),
    history: { listAll: async () => [] },
    backlog: { waits: async () => true },
    tenants: createTenants(redis),
    metrics: metricsOf(onLetIn),
    subscriber: subscriber(),
    graceMs: 1_000,
    leaseMs: NEVER_MS,
    lookEveryMs: 1_000,
    checkEveryMs: 5_000,
    snapshotEveryMs: 700,
    snapshotBehindMs: 300,
    leftOverAfterMs: 100,
    stalledAfterMs: NEVER_MS,
    fatal: (error: unknown) => { throw error },
  }
}

/** Nobody reads the numbers, but one of them tells that a tenant is let in. */
function metricsOf (onLetIn: () => void) {
  return {
    count: (_: string, labels: object) => {
      if ('kind' in labels && labels.kind === 'tenant') onLetIn()
    },
    watch: () => {},
  }
}
