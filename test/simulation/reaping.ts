import type { Redis } from 'ioredis'
import { createEmitter } from '../../services/engine/emit.ts'
import type { Job } from '../../services/jobs/job.ts'
import { reap, type ReapDeps } from '../../services/ledger/reaper.ts'
import { createOutbox } from '../../services/money/outbox.ts'
import { storeBlock } from '../../services/results/repositories.ts'
import { redisLike } from './early-stages.ts'
import type { ScenarioOutput } from './evidence.ts'
import type { Pipeline } from './pipeline.ts'
import { jobsOf, noMetrics, silent } from './stubs.ts'

/** The dependencies of a reaper, on its own connection. */
export function reapDeps ({ bus, messageCodec, codec, stores }: Pipeline, redis: Redis) {
  const { blocks, archive } = stores
  return {
    archive,
    blocks,
    store: jobsOf(redis),
    outbox: createOutbox(redis),
    emitter: createEmitter({
      messageCodec, producerOf: lane => bus.producer(`reaper.${lane}`),
    }),
    storeBlock: emission => storeBlock({ messageCodec, codec, blocks }, emission),
    clock: redisLike,
    log: silent,
  } satisfies Partial<ReapDeps>
}

/**
 * Runs the reaper of `ledger` once, without a minimum age. It may fail only jobs that lost data;
 * all others have to end by themselves.
 */
export async function reapAll (output: ScenarioOutput, redis: Redis): Promise<void> {
  const { pipeline, tenants } = output
  const lost = lostJobs(output)
  await reap({
    ...reapDeps(pipeline, redis),
    backlog: { mayContain: async job => !lost.has((job as Job).id) },
    tenants: { active: async () => tenants.map(tenant => ({ tenant, sinceMs: 0 })) },
    metrics: noMetrics,
    orphanAgeMs: 0,
    stalledAfterMs: 0,
  })
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
