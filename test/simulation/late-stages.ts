import { createJobStore } from '../../services/jobs/store.ts'
import { loadConfig } from '../../services/lib/config.ts'
import { createLog } from '../../services/lib/log.ts'
import { createMetrics } from '../../services/lib/metrics.ts'
import { createOutbox } from '../../services/money/outbox.ts'
import { storeBlock } from '../../services/records/stored-block.ts'
import { createSettleStage } from '../../services/settle/stage.ts'
import { verifyConfig } from '../../services/verify/config.ts'
import { verifyParts } from '../../services/verify/parts.ts'
import { createVerifyStage } from '../../services/verify/stage.ts'
import { nowhere, redisLike } from './early-stages.ts'
import type { Shared } from './stages.ts'

const log = createLog('simulation', { level: 'silent' })
const metrics = createMetrics()

/** The stage `verify`; its provider is down at times, and its verdict follows the number. */
export function verifyStage ({ redis, cache, chaos, faults, witness }: Shared) {
  const config = loadConfig(verifyConfig, {
    ...nowhere,
    PROVIDERS: '{}',
    LATER_AFTER_MS: '1',
    LEASE_MS: '5',
    LEASE_POLL_MS: '1',
    GIVE_UP_AFTER_MS: chaos.happens(0.3) ? '3' : '60000',
  })
  const parts = verifyParts(config, { state: redis, cache, clock: redisLike, log, metrics })
  return witness.watch(createVerifyStage({
    ...parts,
    check: async rows => {
      await witness.onCall()
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
export function settleStage ({ redis, stores, codec, wire, chaos }: Shared) {
  const { blocks, archive } = stores
  return createSettleStage({
    blocks,
    archive,
    store: createJobStore(redis),
    outbox: createOutbox(redis),
    storeBlock: emission => storeBlock({ wire, codec, blocks }, emission),
    clock: redisLike,
    batch: 1 + chaos.below(16),
  })
}
