import type { Journal } from '../../schemas/types.ts'
import { isMode, MODES, type Mode } from '../accounts/tenant.ts'
import { openJobIn } from '../jobs/redis-keys.ts'
import type { Log } from '../platform/log.ts'
import type { Metrics } from '../platform/metrics.ts'
import { moneyKeys } from '../money/redis-keys.ts'
import { IDLE_AFTER_MS, type Tenants } from '../money/tenants.ts'
import type { JournalCopy } from '../money/journal-copy.ts'
import { createCachedReading } from '../platform/cached-reading.ts'
import type { RedisClient } from '../platform/redis.ts'

type Counting = Pick<Metrics, 'count'>

/** The copy of the journal, which counts the movements of entries when it first stores them. */
export function countMovements (
  { append, ...rest }: JournalCopy, metrics: Counting
): JournalCopy {
  return {
    ...rest,
    append: async entries => {
      const stored = await append(entries)
      for (const entry of stored) countEntry(entry, metrics)
      return stored
    },
  }
}

function countEntry (entry: Journal, metrics: Counting): void {
  const { type, amountMicros, chargeMicros } = entry
  const mode = modeOf(entry.tenant)
  const moved = (movement: string, micros: number) =>
    metrics.count('money_moved_micros_total', { movement, mode }, micros)
  const job = (event: string) => metrics.count('jobs_total', { event, mode })
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

type MoneyDeps = {
  readonly redis: Pick<RedisClient, 'hmget' | 'hkeys'>
  readonly tenants: Pick<Tenants, 'all' | 'active'>
  readonly metrics: Pick<Metrics, 'watchAll'>
  readonly log: Pick<Log, 'warn'>
}

/** Tenants that are read together, so that they do not delay other commands for long. */
const TENANTS_PER_BATCH = 500

/**
 * Reports the sums over all wallets and the number of open jobs, read from Redis when metrics are
 * scraped. Tenants are read one after another, so the sums may be off by concurrent movements;
 * `audit` and the check of each wallet are exact.
 */
export function watchMoney ({ redis, tenants, metrics, log }: MoneyDeps): void {
  const sums = createWalletSums({ redis, tenants })
  const read = createCachedReading(sums, { name: 'the sums of wallets', log })
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
export function createWalletSums (
  { redis, tenants }: Pick<MoneyDeps, 'redis' | 'tenants'>, now = () => performance.now()
): () => Promise<WalletSums> {
  const known = new Map<string, readonly number[]>()
  let activeBefore = new Set<string>()
  let allReadAtMs = -Infinity
  return async () => {
    const startMs = now()
    const active = new Set((await tenants.active()).map(({ tenant }) => tenant))
    const isRecent = startMs - allReadAtMs < IDLE_AFTER_MS
    const changed = isRecent ? [...new Set([...active, ...activeBefore])] : await tenants.all()
    for (let from = 0; from < changed.length; from += TENANTS_PER_BATCH) {
      const batch = changed.slice(from, from + TENANTS_PER_BATCH)
      for (const [tenant, values] of await readWallets(redis, batch)) known.set(tenant, values)
    }
    activeBefore = active
    if (!isRecent) allReadAtMs = startMs
    return sumByMode(known)
  }
}

const FIELDS = [...STATES, 'jobs'] as const

function sumByMode (known: ReadonlyMap<string, readonly number[]>): WalletSums {
  const sums = { live: FIELDS.map(() => 0), test: FIELDS.map(() => 0) }
  for (const [tenant, values] of known) {
    const sum = sums[modeOf(tenant)]
    for (const [at, value] of values.entries()) sum[at] = (sum[at] ?? 0) + value
  }
  return MODES.flatMap(mode =>
    FIELDS.map((state, at) => ({ mode, state, value: sums[mode][at] ?? 0 })))
}

/** The amounts of each tenant in the order of `STATES`, then the number of its open jobs. */
async function readWallets (
  redis: MoneyDeps['redis'], tenants: readonly string[]
): Promise<readonly (readonly [tenant: string, values: readonly number[]])[]> {
  return await Promise.all(tenants.map(async tenant => {
    const { wallet } = moneyKeys(tenant)
    const [amounts, fields] =
      await Promise.all([redis.hmget(wallet, ...STATES), redis.hkeys(wallet)])
    const open = fields.filter(name => openJobIn(name) !== undefined)
    return [tenant, [...amounts.map(Number), open.length]] as const
  }))
}

function modeOf (tenant: string): Mode {
  const mode = tenant.slice(tenant.lastIndexOf('.') + 1)
  return isMode(mode) ? mode : 'live'
}
