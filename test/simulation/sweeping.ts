import type { Redis } from 'ioredis'
import type { Job } from '../../services/jobs/job.ts'
import { reap } from '../../services/ledger/reaper.ts'
import type { Told } from './evidence.ts'
import { noMetrics } from './spared.ts'
import { reapDeps } from './reap-deps.ts'

/**
 * What `ledger` does in the background, done once and to the end: nothing is too young for it. Only
 * jobs that may need to be failed are; all others have to come to their end without that.
 */
export async function sweepUp (told: Told, redis: Redis): Promise<void> {
  const { pipeline, tenants } = told
  const lost = lostJobs(told)
  await reap({
    ...reapDeps(pipeline, redis),
    backlog: { waits: async job => !lost.has((job as Job).id) },
    tenants: { active: async () => tenants.map(tenant => ({ tenant, sinceMs: 0 })) },
    metrics: noMetrics,
    leftOverAfterMs: 0,
    stalledAfterMs: 0,
  })
  await pipeline.idle()
}

/**
 * Jobs whose key is lost; after a loss of Redis those with dead letters, and those whose chunks
 * were done with before people found their reservations.
 */
function lostJobs ({ pipeline, losses, salvaged }: Told): ReadonlySet<string> {
  // Rows that only a dead letter tells of are counted where it is found, and nowhere else.
  const letters = losses.length > 0 ? [...pipeline.poisoned, ...pipeline.rot.rotten] : []
  return new Set([...pipeline.rot.lostKeys, ...[...letters, ...salvaged].map(({ job }) => job)])
}
