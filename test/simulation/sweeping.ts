import type { Redis } from 'ioredis'
import type { Job } from '../../services/jobs/job.ts'
import { createEmitter } from '../../services/lib/emit.ts'
import { createLog } from '../../services/lib/log.ts'
import { sweep } from '../../services/ledger/sweep.ts'
import { createOutbox } from '../../services/money/outbox.ts'
import { storeBlock } from '../../services/records/stored-block.ts'
import { redisLike } from './early-stages.ts'
import { noMetrics } from './spared.ts'
import type { Evidence } from './story.ts'

const log = createLog('simulation', { level: 'silent' })

/**
 * What `ledger` does in the background, done once and to the end: nothing is too young for it. Only
 * jobs whose key is lost may need to be failed; all others have to come to their end without that.
 */
export async function sweepUp ({ pipeline, tenants }: Evidence, redis: Redis): Promise<void> {
  const { bus, wire, codec, store, stores } = pipeline
  const { blocks, archive } = stores
  await sweep({
    store,
    archive,
    outbox: createOutbox(redis),
    emitter: createEmitter({ wire, producerOf: name => bus.producer(`sweep.${name}`) }),
    storeBlock: emission => storeBlock({ wire, codec, blocks }, emission),
    backlog: { waits: async job => !pipeline.rot.lostKeys.has((job as Job).id) },
    tenants: async () => tenants,
    clock: redisLike,
    log,
    metrics: noMetrics,
    leftOverAfterMs: 0,
    stalledAfterMs: 0,
  })
  await pipeline.idle()
}
