import type { Redis } from 'ioredis'
import { createEmitter } from '../../services/runtime/engine/stage.ts'
import type { Job } from '../../services/jobs/job.ts'
import { Owners, Takeover, type TakeoverDeps } from '../../services/ledger/takeover.ts'
import { createOutbox } from '../../services/money/wallet.ts'
import { TOPOLOGY_GROUPS } from '../../services/runtime/kafka/admin.ts'
import { redisLike } from './stages.ts'
import type { MemoryBus } from '../support/kafka/memory-bus.ts'
import type { ScenarioOutput } from './evidence.ts'
import type { Pipeline } from './pipeline.ts'
import { jobsOf, noMetrics, silent } from './stubs.ts'

const NEVER_MS = 3_600_000

/** The dependencies of a takeover, on its own connection. */
export function takeoverDeps ({ bus, messageCodec, codec, stores }: Pipeline, redis: Redis) {
  const { blocks, archive } = stores
  return {
    archive,
    blocks,
    redis,
    store: jobsOf(redis),
    outbox: createOutbox(redis),
    emitter: createEmitter({
      messageCodec, producerOf: lane => bus.producer(`reaper.${lane}`),
    }),
    owners: new Owners({
      readOffsets: async groups => offsetsOf(bus, groups),
      // A stage that is killed is replaced, so none makes no progress.
      now: () => 0,
    }),
    messageCodec,
    codec,
    clock: redisLike,
    log: silent,
  } satisfies Partial<TakeoverDeps>
}

const PAUSE_MS = 1

/** Takes over all the time, without a minimum age: nothing that has an owner is taken. */
export function startTakeover (pipeline: Pipeline, redis: Redis, tenants: readonly string[]) {
  const takeover = new Takeover({
    ...takeoverDeps(pipeline, redis),
    backlog: { mayContain: async () => true },
    tenants: { active: async () => tenants.map(tenant => ({ tenant, sinceMs: 0 })) },
    metrics: { ...noMetrics, watch: () => {} },
    orphanAgeMs: 0,
    stalledAfterMs: NEVER_MS,
  })
  const fatal = (error: unknown) => { throw error }
  takeover.start({ isLeader: () => true, fatal, everyMs: PAUSE_MS })
  return takeover
}

/** As Kafka reports them: a group without a commit is at the beginning. */
function offsetsOf ({ messages, committed }: MemoryBus, names: readonly string[]) {
  return TOPOLOGY_GROUPS.filter(({ group }) => names.includes(group))
    .flatMap(({ stage, group, topics }) => topics.flatMap(topic => {
      const byPartition = Map.groupBy(messages(topic), ({ partition }) => partition)
      return [...byPartition].map(([partition, { length }]) => {
        const offset = Number(committed(group, topic, partition))
        return { stage, group, topic, partition, offset, lag: length - offset }
      })
    }))
}

/**
 * Takes over twice, as `ledger`, without a minimum age: every stage has committed everything,
 * so what it finds in the first run is an orphan in the second. It may fail only jobs that lost
 * data; all others have to end by themselves.
 */
export async function takeOverAll (output: ScenarioOutput, redis: Redis): Promise<void> {
  const { pipeline, tenants } = output
  const lost = lostJobs(output)
  const takeover = new Takeover({
    ...takeoverDeps(pipeline, redis),
    backlog: { mayContain: async (job: object) => !lost.has((job as Job).id) },
    tenants: { active: async () => tenants.map(tenant => ({ tenant, sinceMs: 0 })) },
    metrics: noMetrics,
    orphanAgeMs: 0,
    stalledAfterMs: 0,
  })
  await takeover.run()
  await takeover.run()
  await pipeline.idle()
}

/**
 * Jobs whose key is lost; after a loss of Redis those with dead letters, and those whose chunks
 * were skipped before operators restored their reservations.
 */
function lostJobs ({ pipeline, losses, salvaged }: ScenarioOutput): ReadonlySet<string> {
  // Rows that only a dead letter names are counted where it is found, and nowhere else.
  const letters = losses.length > 0 ? [...pipeline.poisoned, ...pipeline.corruption.corrupted] : []
  const lost = [...letters, ...salvaged].map(({ job }) => job)
  return new Set([...pipeline.corruption.lostKeys, ...lost])
}
