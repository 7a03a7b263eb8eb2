import type { Redis } from 'ioredis'
import { optionDate, optionName, type OptionPrices } from '../../services/jobs/options.ts'
import { listRowFields } from '../../services/jobs/results/columns.ts'
import type { ReadableLists } from '../../services/lookup/read.ts'
import { createWallet } from '../../services/money/wallet.ts'
import { InfrastructureError } from '../../services/runtime/platform/errors.ts'
import { sleep } from '../../services/runtime/platform/retry.ts'
import { mixedPhones } from '../bench/jobs.ts'
import type { Chaos } from './chaos.ts'

/** A tenant that was given money before anything else. */
export type Funded = { readonly tenant: string, readonly amountMicros: number }

/** Unlocks tenants and funds each with a random amount. */
export async function fund (
  redis: Redis, tenants: readonly string[], chaos: Chaos
): Promise<readonly Funded[]> {
  const wallet = createWallet(redis)
  await Promise.all(tenants.map(wallet.unlockNew))
  const funded = tenants.map(tenant => ({ tenant, amountMicros: 50_000 + chaos.below(400_000) }))
  for (const one of funded) await payIn(wallet, one)
  return funded
}

/** However often it is done, it counts once. */
export async function payIn (
  wallet: ReturnType<typeof createWallet>, { tenant, amountMicros }: Funded
): Promise<void> {
  await wallet.topUp(tenant, { id: 'start', amountMicros, reason: 'simulation' })
}

/**
 * What operators sell beside the verdict, before and after they change their prices: a job keeps
 * the price that `lookup` had when it decided it, whatever process decides it again.
 */
export const PRICE_LISTS: readonly OptionPrices[] = [
  { line_status: 700, reassigned_number: 1_300 },
  { line_status: 900, reassigned_number: 400 },
]

/** Two jobs that choose other dates do not share what is about one of them. */
const CHOICES = [
  ['line_status'], ['reassigned_number:2026-01-31'], ['reassigned_number:2026-06-30'],
  ['line_status', 'reassigned_number:2026-01-31'],
]

/** The options of a job, in two of three runs. */
export const chooseOptions = (seed: number, chaos: Chaos): readonly string[] =>
  seed % 3 === 0 || chaos.happens(0.4) ? [] : chaos.pick(CHOICES)

/** What the provider answers of the options of a job: nothing of some for numbers of one ending. */
export function answersOf (
  canonical: string, options: readonly string[]
): Readonly<Record<string, string>> {
  return Object.fromEntries(options.flatMap(option => {
    const name = optionName(option)
    if (canonical.endsWith(name === 'line_status' ? '5' : '7')) return []
    const date = optionDate(option)
    return [[name, 'active'], ...date === undefined ? [] : [['reassigned_since', date]]]
  }))
}

const FIELDS = listRowFields('phone-validation')

/** The cells of a row that its job has bought with a verdict; blank ones were not answered. */
export function boughtCells (
  row: readonly string[], options: readonly string[]
): readonly string[] {
  const cell = (name: string) => row[FIELDS.indexOf(name)] ?? ''
  return options.map(option => {
    const date = optionDate(option)
    const isOther = date !== undefined && cell('reassigned_since') !== date
    return isOther ? '' : cell(optionName(option))
  })
}

/** Every other run has organizations with lists. */
export const hasLists = (seed: number): boolean => seed % 2 === 1

/** Contacts that are always suppressed; the provider would find them valid. */
export const isSuppressed = (contact: string): boolean => contact.endsWith('4')
/** Contacts that are suppressed at times. */
export const isReleasedAtTimes = (contact: string): boolean => /[1567]\D*$/.test(contact)

/**
 * Lists that change between any two reads of `lookup`, also of one job: contacts of some endings
 * are suppressed at times, and those of others allowed. Redis may have lost them for a while. What
 * the store itself does is the subject of its own tests.
 */
export function changingLists (chaos: Chaos, lost: number): ReadableLists {
  return {
    find: async (_orgId, contacts) => {
      await sleep(chaos.below(3))
      if (chaos.happens(lost)) throw new InfrastructureError('RECOVERING lists are locked')
      const suppresses = chaos.happens(0.5)
      const allows = chaos.happens(0.3)
      return contacts.map(contact => {
        if (isSuppressed(contact) || (suppresses && isReleasedAtTimes(contact))) return 'suppress'
        return allows && /[09]$/.test(contact) ? 'allow' : undefined
      })
    },
    hasMailServers: async () => false,
  }
}

/** Most stories are short, as many short ones find more than a few long ones; some are not. */
const LONG_STORY_EVERY = 8
/** Enough for the lane of big jobs. */
const MANY_ROWS = 1_001
/** A run with such jobs takes as long as twenty others, so only every nth has any. */
const BIG_JOBS_EVERY = 100

const isLong = (seed: number) => seed % LONG_STORY_EVERY === 0
const mostRowsOf = (seed: number) => isLong(seed) ? 60 : 16
const hasBigJobs = (seed: number) => seed % BIG_JOBS_EVERY === BIG_JOBS_EVERY / 2

/** How many jobs a scenario has. */
export const jobsIn = (seed: number, chaos: Chaos): number => 2 + chaos.below(isLong(seed) ? 4 : 2)

/**
 * Rows a chunk holds: few, as only jobs of several chunks can lose one of them, and many jobs are
 * to have some. At times as many as in the product.
 */
export function chunkRowsOf (seed: number, chaos: Chaos): number | undefined {
  if (hasBigJobs(seed)) return 200 + chaos.below(400)
  return chaos.happens(0.3) ? undefined : 1 + chaos.below(mostRowsOf(seed) / 2)
}

/** What one job is to check. */
export function inputsOf (seed: number, chaos: Chaos): readonly string[] {
  const isBig = hasBigJobs(seed) && chaos.happens(0.4)
  const rows = isBig ? MANY_ROWS + chaos.below(400) : 1 + chaos.below(mostRowsOf(seed))
  // Few serial numbers, so that jobs meet each other's numbers in the cache.
  return mixedPhones(rows, chaos.below(40))
}

/** The ids of inputs: some have none, and rows with the same input have different ones. */
export function idsOf (inputs: readonly string[]): readonly string[] {
  return inputs.map((_, row) => row % 3 === 1 ? '' : `id of row ${row}`)
}
