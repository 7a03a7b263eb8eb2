import type { Redis } from 'ioredis'
import type { MessageCodec, Stage } from '../../services/runtime/engine/stage.ts'
import type { StageName } from '../../services/topology.ts'
import type { Codec } from '../../services/runtime/kafka/registry.ts'
import { createLedgerStage } from '../../services/ledger/main.ts'
import type { Chaos } from './chaos.ts'
import type { Faults, PipelineOptions } from './pipeline.ts'
import type { Stores } from './stores.ts'
import type { Observer } from './observer.ts'
import { parseTenant } from '../../services/accounts/tenant.ts'
import { systemClock as clock } from '../../services/runtime/platform/retry.ts'
import { loadConfig } from '../../services/runtime/platform/config.ts'
import { lookupConfig } from '../../services/lookup/config.ts'
import { ChunkLoader, type ReadableLists } from '../../services/lookup/read.ts'
import { LookupStage, readBatchRows } from '../../services/lookup/main.ts'
import { readPrices, unitPriceMicros } from '../../services/money/prices.ts'
import { createNormalizeStage } from '../../services/normalize/main.ts'
import { createTokenizer } from '../../services/cache/tokens.ts'
import { type RecordCache, redisRecordCache } from '../../services/cache/cache.ts'
import { hasOptions, optionsPriceMicros } from '../../services/jobs/options.ts'
import { checkerBy, downFor } from '../support/stage-messages.ts'
import { STAGE_ENVIRONMENT } from '../support/stacks/stage-environment.ts'
import { answersOf, PRICE_LISTS } from './inputs.ts'
import { jobsOf, oncePer, noMetrics, silent } from './stubs.ts'
import { SettleStage } from '../../services/settle/main.ts'
import { verifyConfig } from '../../services/verify/config.ts'
import { verifyDeps } from '../../services/verify/main.ts'
import type { Waiting } from '../../services/verify/checker.ts'
import { builtInLists } from '../../services/verify/providers/email-lists.ts'
import { type VerifyDeps, VerifyStage } from '../../services/verify/stage.ts'

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
  /** Of runs whose organizations have some. */
  readonly lists: ReadableLists | undefined
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

const tokenize = createTokenizer(new Map([['1', Buffer.alloc(32, 5)]]))

/** The stage `normalize`, a few chunks at a time. */
function normalizeStage ({ redis, chaos }: Shared) {
  return createNormalizeStage({
    store: jobsOf(redis), clock, tokenize, batch: 1 + chaos.below(4), onExpired: () => {},
  })
}

const bulkRowsOf = readBatchRows(loadConfig(lookupConfig, STAGE_ENVIRONMENT))
const prices = readPrices('')
const cacheOf = oncePer((cache: Redis) => redisRecordCache(cache))

/** The stage `lookup`, with parts of few rows, so that jobs have many. */
function lookupStage ({ redis, cache, chaos, time, lists }: Shared) {
  const smallPart = 1 + chaos.below(12)
  const optionPrices = chaos.pick(PRICE_LISTS)
  return new LookupStage({
    store: jobsOf(redis),
    loader: new ChunkLoader(cacheOf(cache)),
    ...lists && { lists },
    // Its organizations have no records.
    policy: async () => ({ freshnessMs: 90 * 86_400_000, maxActiveJobs: 4 }),
    unitPriceMicros: (tenant, service, options) => {
      const { mode } = parseTenant(tenant)
      return unitPriceMicros(prices, service, mode) +
        optionsPriceMicros(optionPrices, options, mode)
    },
    batchRows: (lane, service) => lane === 'small' ? smallPart : bulkRowsOf(lane, service),
    batch: 1 + chaos.below(8),
    clock: { now: () => redisLike.now() + time.aheadMs },
    // Polls come only when nothing is under way: one that finds nothing new is enough.
    lostAfterIdlePolls: 1,
    onUndecidable: () => {},
  })
}

/** The clock of the simulation, which its scripts read as well. */
export const redisLike = { ...clock, stop: () => {} }

/** Of a row that waits for hosts. */
const MAX_TRIES = 4
/** In Redis' own time no lease ends within a run. */
const NEVER_MS = 3_600_000

const config = loadConfig(verifyConfig, {
  ...STAGE_ENVIRONMENT,
  PROVIDERS: '{}',
  RETRY_DELAY_MS: '1',
  CHECK_LEASE_MS: '5',
  CHECK_LEASE_POLL_MS: '1',
})
const verifyDepsOn = oncePer((state: Redis) => verifyDeps(config, {
  state, cache: state, clock: redisLike, log: silent, metrics: noMetrics, onStop: () => {},
}, { domains: undefined, lists: () => builtInLists }))
const leasedCacheOf = oncePer((cache: Redis) => simulatedLeases(redisRecordCache(cache)))

/**
 * The stage `verify`; its provider is down at times, rows wait for hosts, and its verdict follows
 * the number.
 */
function verifyStage ({ redis, cache, chaos, faults, observer }: Shared) {
  return observer.watch(new VerifyStage({
    ...verifyDepsOf(redis, cache),
    retryForMs: chaos.happens(0.3) ? 3 : 60_000,
    hostRetryForMs: chaos.happens(0.3) ? 5 : 60_000,
    checker: checkerBy(async (rows, { isLast = false, options = [] }) => {
      await observer.onCall()
      if (chaos.happens(faults.providerDown)) return downFor(rows)
      const verdicts = new Map(
        rows.map(({ row, canonical }) => [row, verdictOf(canonical, options)]))
      const open = new Map<number, Waiting>()
      for (const { row, tries = 0 } of isLast ? [] : rows) {
        if (tries > MAX_TRIES || !chaos.happens(faults.hostBusy)) continue
        open.set(row, { reason: 'greylisted', afterMs: chaos.below(6), forHost: true })
        verdicts.delete(row)
      }
      observer.onAnswered(rows.filter(({ row }) => verdicts.has(row))
        .map(({ canonical }) => canonical))
      return { verdicts, open }
    }),
  }))
}

/** What `verify` is made of, but for its provider: short pauses, and leases of simulated time. */
function verifyDepsOf (redis: Redis, cache: Redis): VerifyDeps {
  return { ...verifyDepsOn(redis), cache: leasedCacheOf(cache) }
}

/**
 * The cache, but its leases end by the clock of the simulation: after so long each is released,
 * unless a record has taken its place or it is another job's by then.
 */
function simulatedLeases (cache: RecordCache): RecordCache {
  return {
    ...cache,
    claim: async (scope, tokens, claim) => {
      setTimeout(() => { cache.release(scope, tokens, claim.job).catch(() => {}) }, claim.leaseMs)
      return await cache.claim(scope, tokens, { ...claim, leaseMs: NEVER_MS })
    },
  }
}

const verdicts = ['valid', 'invalid', 'risky', 'unknown', 'valid'] as const

/** A number without the answers of all options has no verdict, as in the product. */
function verdictOf (canonical: string, options: readonly string[]) {
  const fields = { line_type: 'mobile', ...answersOf(canonical, options) }
  if (!hasOptions(fields, options)) {
    return { status: 'unknown', reason: 'option_not_answered', confidence: 0, fields } as never
  }
  const status = verdicts[Number(canonical.slice(-1)) % verdicts.length] ?? 'valid'
  const reason = status === 'unknown' ? 'no_answer' : 'assigned_range'
  return { status, reason, confidence: 90, fields } as never
}

/** The stage `settle` on stores in memory. */
function settleStage ({ redis, stores, codec, messageCodec, chaos, observer }: Shared) {
  const { blocks, archive } = stores
  const store = jobsOf(redis)
  return new SettleStage({
    blocks,
    archive,
    saveBlocksAndRecords: async rows => {
      await blocks.insert(rows.flatMap(row => 'block' in row ? [row.block] : []))
      await archive.save(rows.flatMap(row => 'archived' in row ? [row.archived] : []))
    },
    store: {
      ...store,
      tallyAll: async (...request) => {
        const tallied = await store.tallyAll(...request)
        for (const count of tallied) if (count.kind !== 'skip') observer.onCounted(count.job)
        return tallied
      },
    },
    messageCodec,
    codec,
    clock: redisLike,
    batch: 1 + chaos.below(16),
    batchBytes: 1 + chaos.below(20_000),
  })
}
