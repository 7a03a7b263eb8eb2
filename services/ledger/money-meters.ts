import type { Redis } from 'ioredis'
import type { Journal } from '../../schemas/types.ts'
import { isMode, MODES, type Mode } from '../accounts/tenant.ts'
import { tenantJobKeys } from '../jobs/redis-keys.ts'
import type { Log } from '../lib/log.ts'
import type { Metrics } from '../lib/metrics.ts'
import { moneyKeys, TENANTS_KEY } from '../money/redis-keys.ts'
import type { JournalCopy } from '../records/journal-copy.ts'
import { createReading } from './reading.ts'

type Counting = Pick<Metrics, 'count'>

/** The copy of the journal, but that what entries moved is counted once they are stored. */
export function countMovements (
  { append, ...rest }: JournalCopy, metrics: Counting
): JournalCopy {
  return {
    ...rest,
    append: async links => {
      await append(links)
      for (const { entry } of links) countEntry(entry, metrics)
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

type Standing = { readonly mode: Mode, readonly state: typeof STATES[number] | 'jobs' }
type Standings = readonly (Standing & { readonly value: number })[]

type MoneyParts = {
  readonly redis: Pick<Redis, 'smembers' | 'pipeline'>
  readonly metrics: Pick<Metrics, 'watchAll'>
  readonly log: Pick<Log, 'warn'>
}

/** Many tenants are asked for in so many rounds that none holds Redis up. */
const TENANTS_A_ROUND = 500

/**
 * Tells metrics the sums over all wallets and the number of open jobs, by asking Redis when metrics
 * are read. Each tenant is read in a moment of its own, so the sums may be off by what moves just
 * then; `audit` and the checks of every wallet are exact.
 */
export function watchMoney ({ redis, metrics, log }: MoneyParts): void {
  const read = createReading(() => standingsOf(redis), { what: 'the sums of money', log })
  metrics.watchAll('money_micros', async () => (await read())
    .flatMap(({ state, mode, value }) => state === 'jobs'
      ? []
      : [{ labels: { state, mode }, value }]))
  metrics.watchAll('jobs_open', async () => (await read())
    .flatMap(({ state, mode, value }) => state === 'jobs' ? [{ labels: { mode }, value }] : []))
}

/** The sums of all tenants, for each mode. */
export async function standingsOf (redis: MoneyParts['redis']): Promise<Standings> {
  const tenants = await redis.smembers(TENANTS_KEY)
  const sums = new Map<string, number>()
  const add = (mode: Mode, state: string, value: number) =>
    sums.set(`${mode} ${state}`, (sums.get(`${mode} ${state}`) ?? 0) + value)
  for (let from = 0; from < tenants.length; from += TENANTS_A_ROUND) {
    const round = tenants.slice(from, from + TENANTS_A_ROUND)
    const answers = await readRound(redis, round)
    for (const [index, tenant] of round.entries()) {
      const mode = modeOf(tenant)
      const amounts = answers[2 * index] as readonly (string | null)[]
      for (const [at, state] of STATES.entries()) add(mode, state, Number(amounts[at] ?? 0))
      add(mode, 'jobs', Number(answers[2 * index + 1]))
    }
  }
  return MODES.flatMap(mode => [...STATES, 'jobs' as const].map(state =>
    ({ mode, state, value: sums.get(`${mode} ${state}`) ?? 0 })))
}

async function readRound (redis: MoneyParts['redis'], tenants: readonly string[]) {
  const pipeline = redis.pipeline()
  for (const tenant of tenants) {
    pipeline.hmget(moneyKeys(tenant).wallet, ...STATES)
    pipeline.zcard(tenantJobKeys(tenant).open)
  }
  const answers = await pipeline.exec() ?? []
  return answers.map(([error, answer]) => {
    if (error !== null) throw error
    return answer
  })
}

function modeOf (tenant: string): Mode {
  const mode = tenant.slice(tenant.lastIndexOf('.') + 1)
  return isMode(mode) ? mode : 'live'
}
