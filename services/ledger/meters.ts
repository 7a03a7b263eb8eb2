import type { Redis } from 'ioredis'
import type { Journal } from '../../schemas/types.ts'
import { splitBatches } from '../runtime/platform/batch-writes.ts'
import type { Clickhouse } from '../runtime/platform/clickhouse.ts'
import type { Clock } from '../runtime/platform/retry.ts'
import type { AdminClient } from '../runtime/kafka/client.ts'
import { fetchLags, type GroupLag } from '../runtime/kafka/admin.ts'
import { IDLE_AFTER_MS, type Outbox, pendingSeq, type Tenants } from '../money/wallet.ts'
import type { JournalCopy } from '../money/journal.ts'
import type { Log } from '../runtime/platform/log.ts'
import {
  type CounterLabels, createCachedReading, type Metrics,
} from '../runtime/platform/metrics.ts'
import { isTenant, MODES, type Mode, parseTenant } from '../accounts/tenant.ts'
import { openJobIn } from '../jobs/job-record.ts'
import { moneyKeys } from '../money/redis-keys.ts'
import { type Durability, type RedisClient, watchRedis } from '../runtime/platform/redis.ts'
import { ACCOUNTS_OUTBOX_KEY } from '../accounts/records.ts'
import type { createAccessHead, createAccessOutbox } from '../accounts/access-log/access-log.ts'
import type { AccessCopy } from '../accounts/access-log/copy.ts'

/** Values are read when metrics are scraped. */
type Watching = {
  readonly metrics: Pick<Metrics, 'watchAll'>
  readonly log: Pick<Log, 'warn'>
}

/**
 * Reports lag and offset of each consumer group, read from the brokers when metrics are scraped: a
 * stage without a live process could not report its own. Every ledger reports the same values. The
 * groups of partners' topics are left out, as metrics must not contain names of partners.
 */
export function watchLag (
  { adminClient, metrics, log }: Watching & { readonly adminClient: AdminClient }
): void {
  const lags = () => adminClient.use(admin => fetchLags(admin))
  const read = createCachedReading(lags, { name: 'the lag of groups', log })
  const watch = (name: 'consumer_lag_messages' | 'consumer_offset', of: 'lag' | 'offset') =>
    metrics.watchAll(name, async () => (await read()).map(groupLag => ({
      labels: {
        stage: groupLag.stage,
        group: groupLag.group,
        topic: groupLag.topic,
        partition: String(groupLag.partition),
      },
      value: groupLag[of],
    })))
  watch('consumer_lag_messages', 'lag')
  watch('consumer_offset', 'offset')
}

/** The copy of the journal, which counts the movements of entries when it first stores them. */
export function countMovements ({ append, ...rest }: JournalCopy, metrics: Metrics): JournalCopy {
  return {
    ...rest,
    append: async entries => {
      const stored = await append(entries)
      for (const entry of stored) countEntry(entry, metrics)
      return stored
    },
  }
}

function countEntry (entry: Journal, metrics: Metrics): void {
  const { type, amountMicros, chargeMicros } = entry
  const mode = tenantMode(entry.tenant)
  const moved = (
    movement: CounterLabels<'money_moved_micros_total'>['movement'], micros: number
  ) => metrics.count('money_moved_micros_total', { movement, mode }, micros)
  const job = (event: CounterLabels<'jobs_total'>['event']) =>
    metrics.count('jobs_total', { event, mode })
  switch (type) {
    case 'topup': return moved('topped_up', amountMicros)
    case 'adjust': return moved(amountMicros < 0 ? 'taken' : 'added', Math.abs(amountMicros))
    case 'reserve':
      job('accepted')
      return moved('reserved', amountMicros)
    default:
      job(type === 'void' ? 'voided' : 'settled')
      moved('charged', chargeMicros)
      return moved('released', amountMicros - chargeMicros)
  }
}

const STATES = ['available', 'reserved', 'charged', 'funded'] as const

type WalletSum = { readonly mode: Mode, readonly state: typeof STATES[number] | 'jobs' }
type WalletSums = readonly (WalletSum & { readonly value: number })[]

type WalletReading = {
  readonly redis: RedisClient
  readonly tenants: Pick<Tenants, 'all' | 'active'>
}

/** Tenants that are read together, so that they do not delay other commands for long. */
const WALLETS_PER_BATCH = 500

/**
 * Reports the sums over all wallets and the number of open jobs, read from Redis when metrics are
 * scraped. Tenants are read one after another, so the sums may be off by concurrent movements;
 * `audit` and the check of each wallet are exact.
 */
export function watchMoney (
  { redis, tenants, metrics, log }: Watching & WalletReading
): void {
  const read = createCachedReading(createWalletSums({ redis, tenants }), {
    name: 'the sums of wallets', log,
  })
  metrics.watchAll('money_micros', async () => (await read())
    .flatMap(({ state, mode, value }) => state === 'jobs'
      ? []
      : [{ labels: { state, mode }, value }]))
  metrics.watchAll('jobs_open', async () => (await read())
    .flatMap(({ state, mode, value }) => state === 'jobs' ? [{ labels: { mode }, value }] : []))
}

/**
 * Reads the sums of all tenants, for each mode. The first read covers every tenant. Later reads
 * cover tenants that are active or were at the previous read, as no other wallet has changed. Every
 * `IDLE_AFTER_MS` all tenants are read again, as a recovery changes idle wallets.
 */
function createWalletSums ({ redis, tenants }: WalletReading): () => Promise<WalletSums> {
  const byTenant = new Map<string, readonly number[]>()
  let activeBefore = new Set<string>()
  let allReadAtMs = -Infinity
  return async () => {
    const startMs = performance.now()
    const active = new Set((await tenants.active()).map(({ tenant }) => tenant))
    const isRecent = startMs - allReadAtMs < IDLE_AFTER_MS
    const changed = isRecent ? [...new Set([...active, ...activeBefore])] : await tenants.all()
    for (const batch of splitBatches(changed, WALLETS_PER_BATCH)) {
      for (const [tenant, values] of await readWallets(redis, batch)) byTenant.set(tenant, values)
    }
    activeBefore = active
    if (!isRecent) allReadAtMs = startMs
    return sumByMode(byTenant)
  }
}

const FIELDS = [...STATES, 'jobs'] as const

function sumByMode (byTenant: ReadonlyMap<string, readonly number[]>): WalletSums {
  const sums = { live: FIELDS.map(() => 0), test: FIELDS.map(() => 0) }
  for (const [tenant, values] of byTenant) {
    const sum = sums[tenantMode(tenant)]
    for (const [at, value] of values.entries()) sum[at] = (sum[at] ?? 0) + value
  }
  return MODES.flatMap(mode =>
    FIELDS.map((state, at) => ({ mode, state, value: sums[mode][at] ?? 0 })))
}

/** The amounts of each tenant in the order of `STATES`, then the number of its open jobs. */
async function readWallets (
  redis: WalletReading['redis'], tenants: readonly string[]
): Promise<readonly (readonly [tenant: string, values: readonly number[]])[]> {
  return await Promise.all(tenants.map(async tenant => {
    const { wallet } = moneyKeys(tenant)
    const [amounts, fields] =
      await Promise.all([redis.hmget(wallet, ...STATES), redis.hkeys(wallet)])
    const open = fields.filter(name => openJobIn(name) !== undefined)
    return [tenant, [...amounts.map(Number), open.length]] as const
  }))
}

function tenantMode (tenant: string): Mode {
  return isTenant(tenant) ? parseTenant(tenant).mode : 'live'
}

/**
 * Reports the entries in the outboxes of wallets and of accounts, read from Redis when metrics are
 * scraped: the process that ships them may be blocked on the brokers.
 */
export function watchOutboxes ({ outbox, redis, clock, metrics, log }: Watching & {
  readonly outbox: Pick<Outbox, 'tenantsWithPending' | 'pending'>
  readonly redis: Pick<Redis, 'scard'>
  /** Redis time. */
  readonly clock: Clock
}): void {
  const readWallets = async () => {
    let [entries, oldestMs] = [0, 0]
    for (const tenant of await outbox.tenantsWithPending()) {
      const pending = await outbox.pending(tenant)
      entries += pending.length
      oldestMs = Math.max(oldestMs, ...pending.map(({ at }) => clock.now() - at))
    }
    return [{ entries, oldestMs }]
  }
  const read = createCachedReading(readWallets, { name: 'the outboxes', log })
  metrics.watchAll('outbox_entries', async () =>
    (await read()).map(({ entries }) => ({ labels: {}, value: entries })))
  metrics.watchAll('outbox_oldest_seconds', async () =>
    (await read()).map(({ oldestMs }) => ({ labels: {}, value: oldestMs / 1_000 })))
  const readAccounts = createCachedReading(
    async () => [await redis.scard(ACCOUNTS_OUTBOX_KEY)], { name: 'the outbox of accounts', log })
  metrics.watchAll('accounts_outbox_entries', async () =>
    (await readAccounts()).map(value => ({ labels: {}, value })))
}

type GapDeps = {
  readonly redis: RedisClient
  readonly tenants: Pick<Tenants, 'all' | 'active'>
  readonly journal: Pick<JournalCopy, 'counts'>
  /** The offsets and lags of the ledgers in each partition of the journal. */
  readonly lags: () => Promise<readonly Pick<GroupLag, 'partition' | 'offset' | 'lag'>[]>
  readonly log: Pick<Log, 'warn' | 'error'>
}

/** Movements that Kafka has acknowledged, and the end offsets after them. */
type Shipped = {
  /** Tenant -> seq of the last movement before the first one in the outbox. */
  readonly last: ReadonlyMap<string, number>
  /** Partition -> its end offset. */
  readonly ends: ReadonlyMap<number, number>
}

/** Tenants of one query for entries that the copy lacks. */
const TENANTS_PER_BATCH = 200

/** Reports how many entries the copy of the journal has lost, when metrics are scraped. */
export function watchGaps ({ metrics, ...deps }: GapDeps & Watching): void {
  const read = createCachedReading(createGapCount(deps), {
    name: 'the gaps of the journal', log: deps.log,
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
function createGapCount (deps: GapDeps): () => Promise<readonly number[]> {
  const gaps = new Map<string, number>()
  let counted: readonly number[] = []
  let shipped: Shipped | undefined
  let shippedAtMs = -Infinity
  return async () => {
    const lags = await deps.lags()
    const ends = shipped?.ends
    const isReached = lags.every(({ partition, offset }) => offset >= (ends?.get(partition) ?? 0))
    if (shipped !== undefined && isReached) {
      for (const [tenant, missing] of await countMissing(deps, shipped.last)) {
        if (missing > (gaps.get(tenant) ?? 0)) {
          deps.log.error({ tenant, entries: missing }, 'journal copy lost entries: they were ' +
            'deleted from Kafka before they were copied, or from ClickHouse; run the audit to ' +
            'list them')
        }
        gaps.set(tenant, missing)
        if (missing === 0) gaps.delete(tenant)
      }
      counted = [[...gaps.values()].reduce((sum, missing) => sum + missing, 0)]
      shipped = undefined
    }
    if (shipped === undefined) {
      const nowMs = performance.now()
      const isRecent = nowMs - shippedAtMs < IDLE_AFTER_MS
      shippedAtMs = nowMs
      const active = isRecent ? await deps.tenants.active() : []
      const tenants = isRecent
        ? [...new Set([...active.map(({ tenant }) => tenant), ...gaps.keys()])]
        : await deps.tenants.all()
      shipped = await readShipped(deps, tenants)
    }
    return counted
  }
}

/** Reads the end offsets after Redis, so that they are behind every movement shipped before. */
async function readShipped (
  { redis, lags }: GapDeps, tenants: readonly string[]
): Promise<Shipped> {
  const last = new Map<string, number>()
  for (const batch of splitBatches(tenants, TENANTS_PER_BATCH)) {
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

async function countMissing (
  { journal }: GapDeps, last: Shipped['last']
): Promise<ReadonlyMap<string, number>> {
  const missing = new Map<string, number>()
  const all = [...last]
  for (const batch of splitBatches(all, TENANTS_PER_BATCH)) {
    const counts = await journal.counts(new Map(batch))
    for (const [tenant, seq] of batch) missing.set(tenant, seq - (counts.get(tenant) ?? 0))
  }
  return missing
}

type Stores = Watching & {
  readonly state: RedisClient
  readonly durability?: Durability
  readonly adminClient: Pick<AdminClient, 'use'>
  readonly clickhouse: Pick<Clickhouse, 'rows'>
}

/** Reports metrics of Redis, Kafka and ClickHouse, read when metrics are scraped. */
export function watchStores (
  { state, durability = 'aof', adminClient, clickhouse, ...watching }: Stores
): void {
  watchRedis({ ...watching, store: 'state', durability, redis: state })
  watchReplication({ ...watching, adminClient })
  watchClickhouse({ ...watching, clickhouse })
}

/** Covers all topics that this user may describe. A partition without a leader counts as well. */
function watchReplication (
  { adminClient, metrics, log }: Watching & Pick<Stores, 'adminClient'>
): void {
  const read = createCachedReading(async () => {
    const { topics } = await adminClient.use(admin => admin.fetchTopicMetadata())
    const partitions = topics.flatMap(topic => topic.partitions)
    return [partitions.filter(({ isr, replicas }) => isr.length < replicas.length).length]
  }, { name: 'the replication of topics', log })
  metrics.watchAll('kafka_partitions_under_replicated', async () =>
    (await read()).map(value => ({ labels: {}, value })))
}

const DISKS = `
  SELECT name, toFloat64(total_space) AS total, toFloat64(free_space) AS free FROM system.disks`
const PARTS = `
  SELECT table, max(parts) AS parts FROM (
    SELECT table, toFloat64(count()) AS parts FROM system.parts
    WHERE active AND database = currentDatabase() GROUP BY table, partition_id
  ) GROUP BY table`
const WORK = `
  SELECT
    (SELECT max(elapsed) FROM system.merges WHERE database = currentDatabase()) AS merge,
    (
      SELECT if(count() = 0, 0, toFloat64(now() - min(create_time))) FROM system.mutations
      WHERE database = currentDatabase() AND NOT is_done
    ) AS mutation`

function watchClickhouse (
  { clickhouse, metrics, log }: Watching & Pick<Stores, 'clickhouse'>
): void {
  const readCached = <T>(query: string) => createCachedReading(() => clickhouse.rows<T>(query), {
    name: 'the system tables of ClickHouse', log,
  })
  const disks = readCached<{ name: string, total: number, free: number }>(DISKS)
  const parts = readCached<{ table: string, parts: number }>(PARTS)
  const work = readCached<{ merge: number, mutation: number }>(WORK)
  metrics.watchAll('clickhouse_disk_bytes', async () =>
    (await disks()).map(({ name, total }) => ({ labels: { disk: name }, value: total })))
  metrics.watchAll('clickhouse_disk_free_bytes', async () =>
    (await disks()).map(({ name, free }) => ({ labels: { disk: name }, value: free })))
  metrics.watchAll('clickhouse_parts', async () =>
    (await parts()).map(({ table, parts: value }) => ({ labels: { table }, value })))
  metrics.watchAll('clickhouse_merge_seconds', async () =>
    (await work()).map(({ merge }) => ({ labels: {}, value: merge })))
  metrics.watchAll('clickhouse_mutation_seconds', async () =>
    (await work()).map(({ mutation }) => ({ labels: {}, value: mutation })))
}

/** The rows are counted at most this often. */
const COUNT_EVERY_MS = 60_000

/**
 * Reports entries of the access log that wait for their topic, and those that ClickHouse has lost,
 * read when metrics are scraped.
 */
export function watchAccessLog ({ outbox, head, copy, clock, metrics, log }: Watching & {
  readonly outbox: Pick<ReturnType<typeof createAccessOutbox>, 'oldest'>
  readonly head: Pick<ReturnType<typeof createAccessHead>, 'read'>
  readonly copy: Pick<AccessCopy, 'count'>
  /** Redis time. */
  readonly clock: Clock
}): void {
  const readAge = createCachedReading(async () => {
    const [oldest] = await outbox.oldest(1)
    return [oldest === undefined ? 0 : clock.now() - oldest.entry.at]
  }, { name: 'the outbox of the access log', log })
  metrics.watchAll('access_log_oldest_seconds', async () =>
    (await readAge()).map(ageMs => ({ labels: {}, value: Math.max(ageMs, 0) / 1_000 })))
  const readMissing = createCachedReading(async () => {
    const copied = await head.read()
    return [copied - await copy.count(copied)]
  }, {
    name: 'the number of entries of the access log',
    log,
    minAgeMs: COUNT_EVERY_MS,
    maxAgeMs: 3 * COUNT_EVERY_MS,
  })
  metrics.watchAll('access_log_entries_missing', async () =>
    (await readMissing()).map(value => ({ labels: {}, value })))
}
