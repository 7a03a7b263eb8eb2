import { storeBlock } from '../../services/results/stored-block.ts'
import { createSettleStage } from '../../services/settle/stage.ts'
import { createVerifyStage } from '../../services/verify/stage.ts'
import { redisLike } from './early-stages.ts'
import { jobsOf } from './stubs.ts'
import type { Shared } from './stages.ts'
import { verifyDepsOf } from './verify-deps.ts'

/** The stage `verify`; its provider is down at times, and its verdict follows the number. */
export function verifyStage ({ redis, cache, chaos, faults, observer }: Shared) {
  return observer.watch(createVerifyStage({
    ...verifyDepsOf(redis, cache),
    retryForMs: chaos.happens(0.3) ? 3 : 60_000,
    check: async rows => {
      await observer.onCall()
      if (chaos.happens(faults.providerDown)) return { kind: 'down' }
      const verdicts = new Map(rows.map(({ row, canonical }) => [row, verdictOf(canonical)]))
      return { kind: 'answered', verdicts }
    },
  }))
}

const verdicts = ['valid', 'invalid', 'risky', 'unknown', 'valid'] as const

function verdictOf (canonical: string) {
  const status = verdicts[Number(canonical.slice(-1)) % verdicts.length] ?? 'valid'
  const reason = status === 'unknown' ? 'no_answer' : 'assigned_range'
  return { status, reason, confidence: 90, fields: { line_type: 'mobile' } } as never
}

/** The stage `settle` on stores in memory. */
export function settleStage ({ redis, stores, codec, messageCodec, chaos, observer }: Shared) {
  const { blocks, archive } = stores
  return createSettleStage({
    blocks,
    archive,
    store: jobsOf(redis),
    storeBlock: emission => storeBlock({ messageCodec, codec, blocks }, emission),
    clock: redisLike,
    onCounted: observer.onCounted,
    batch: 1 + chaos.below(16),
  })
}
