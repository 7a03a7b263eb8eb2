import type { GroupLag } from '../kafka/lag.ts'
import type { Log } from '../platform/log.ts'
import type { Metrics } from '../platform/metrics.ts'
import { pendingSeq } from '../money/outbox.ts'
import { moneyKeys } from '../money/redis-keys.ts'
import { IDLE_AFTER_MS, type Tenants } from '../money/tenants.ts'
import type { JournalCopy } from '../money/journal-copy.ts'
import { createCachedReading } from '../platform/cached-reading.ts'
import type { RedisClient } from '../platform/redis.ts'

type GapDeps = {
  readonly redis: Pick<RedisClient, 'hgetall'>
  readonly tenants: Pick<Tenants, 'all' | 'active'>
  readonly journal: Pick<JournalCopy, 'counts'>
  /** The offsets and lags of the ledgers in each partition of the journal. */
  readonly lags: () => Promise<readonly Pick<GroupLag, 'partition' | 'offset' | 'lag'>[]>
  readonly metrics: Pick<Metrics, 'watchAll'>
  readonly log: Pick<Log, 'warn' | 'error'>
}

/** Movements that Kafka has acknowledged, and the end offsets after them. */
type Shipped = {
  /** Tenant -> seq of the last movement before the first one in the outbox. */
  readonly last: ReadonlyMap<string, number>
  /** Partition -> its end offset. */
  readonly ends: ReadonlyMap<number, number>
}

const TENANTS_PER_BATCH = 200

/** Reports how many entries the copy of the journal has lost, when metrics are scraped. */
export function watchGaps ({ metrics, log, ...deps }: GapDeps): void {
  const read = createCachedReading(createGapCount({ ...deps, log }), {
    name: 'the gaps of the journal', log,
  })
  metrics.watchAll('journal_entries_missing', async () =>
    (await read()).map(value => ({ labels: {}, value })))
}

/**
 * Counts the movements that the copy has lost. A movement that is in the wallet and not in the
 * outbox was acknowledged by Kafka, so it is before the end offset read afterwards. Once the
 * ledgers have committed up to that offset, it is copied or lost. The count trusts no message, so a
 * forged one makes no gap, and needs no timeout.
 * Returns nothing before the first end offset is reached, and the last count while the ledgers lag.
 * Reads all tenants at first and from time to time, and otherwise active ones and those with a gap.
 */
export function createGapCount (
  deps: Omit<GapDeps, 'metrics'>, now = () => performance.now()
): () => Promise<readonly number[]> {
  const gaps = new Map<string, number>()
  let counted: readonly number[] = []
  let shipped: Shipped | undefined
  let shippedAtMs = -Infinity
  return async () => {
    const lags = await deps.lags()
    if (shipped !== undefined && isReached(shipped, lags)) {
      for (const [tenant, missing] of await missingOf(deps, shipped.last)) {
        if (missing > (gaps.get(tenant) ?? 0)) logGap(deps, tenant, missing)
        gaps.set(tenant, missing)
        if (missing === 0) gaps.delete(tenant)
      }
      counted = [[...gaps.values()].reduce((sum, missing) => sum + missing, 0)]
      shipped = undefined
    }
    if (shipped === undefined) {
      const isRecent = now() - shippedAtMs < IDLE_AFTER_MS
      shippedAtMs = now()
      const active = isRecent ? await deps.tenants.active() : []
      const tenants = isRecent
        ? [...new Set([...active.map(({ tenant }) => tenant), ...gaps.keys()])]
        : await deps.tenants.all()
      shipped = await readShipped(deps, tenants)
    }
    return counted
  }
}

function isReached ({ ends }: Shipped, lags: Awaited<ReturnType<GapDeps['lags']>>): boolean {
  return lags.every(({ partition, offset }) => offset >= (ends.get(partition) ?? 0))
}

function logGap ({ log }: Pick<GapDeps, 'log'>, tenant: string, entries: number): void {
  log.error({ tenant, entries }, 'journal copy lost entries: they were deleted from Kafka before ' +
    'they were copied, or from ClickHouse; run the audit to list them')
}

/** Reads the end offsets after Redis, so that they are behind every movement shipped before. */
async function readShipped (
  { redis, lags }: Pick<GapDeps, 'redis' | 'lags'>, tenants: readonly string[]
): Promise<Shipped> {
  const last = new Map<string, number>()
  for (let from = 0; from < tenants.length; from += TENANTS_PER_BATCH) {
    const batch = tenants.slice(from, from + TENANTS_PER_BATCH)
    await Promise.all(batch.map(async tenant => {
      const wallet = await redis.hgetall(moneyKeys(tenant).wallet)
      const pending = Object.keys(wallet).map(pendingSeq).filter(seq => seq !== undefined)
      const seq = Number(wallet['seq'] ?? 0)
      last.set(tenant, Math.min(seq, ...pending.map(seq => seq - 1)))
    }))
  }
  const ends = new Map((await lags()).map(({ partition, offset, lag }) =>
    [partition, offset + lag]))
  return { last, ends }
}

async function missingOf (
  { journal }: Pick<GapDeps, 'journal'>, last: Shipped['last']
): Promise<ReadonlyMap<string, number>> {
  const missing = new Map<string, number>()
  const all = [...last]
  for (let from = 0; from < all.length; from += TENANTS_PER_BATCH) {
    const batch = all.slice(from, from + TENANTS_PER_BATCH)
    const counts = await journal.counts(new Map(batch))
    for (const [tenant, seq] of batch) missing.set(tenant, seq - (counts.get(tenant) ?? 0))
  }
  return missing
}
