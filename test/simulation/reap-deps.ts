import type { Redis } from 'ioredis'
import type { ReapDeps } from '../../services/ledger/reaper.ts'
import { createEmitter } from '../../services/engine/emit.ts'
import { createOutbox } from '../../services/money/outbox.ts'
import { storeBlock } from '../../services/results/stored-block.ts'
import { redisLike } from './early-stages.ts'
import type { Pipeline } from './pipeline.ts'
import { jobsOf, silent } from './stubs.ts'

/** The dependencies of a reaper, on its own connection. */
export function reapDeps ({ bus, messageCodec, codec, stores }: Pipeline, redis: Redis) {
  const { blocks, archive } = stores
  return {
    archive,
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
