import type { Journal } from '../../schemas/types.ts'
import {
  AMOUNTS, type Amounts, areEqual, formatAmounts, post, ZERO_AMOUNTS,
} from '../money/prices.ts'
import { applyEntry, type JournalRetention, type JournalState } from './journal-state.ts'
import type { WalletSnapshot } from './recovery-store.ts'

/**
 * `behind`: Redis lacks movements of the journal.
 * `faults`: contradictions, which freeze the wallet.
 * `missing`: reconstructed entries that must be appended to the journal.
 */
export type Reconciliation = {
  readonly behind: boolean
  readonly faults: readonly string[]
  readonly missing: readonly Journal[]
}

/** Shared, as most tenants have no open jobs. */
const NO_JOBS: ReadonlySet<string> = new Set()

/** What the journal state must retain to be compared with this wallet. */
export function retentionOf (
  { seq, openJobs, trustsJournal }: WalletSnapshot, sinceMs: number
): JournalRetention {
  const jobs = openJobs.length === 0 ? NO_JOBS : new Set(openJobs.map(({ job }) => job))
  return { seq: trustsJournal ? 0 : seq, openJobs: jobs, sinceMs }
}

/**
 * Compares a wallet with its journal, and applies the outbox to the journal state. The journal
 * wins if Redis is behind it; any contradiction is a fault, which an operator must resolve.
 */
export function reconcile (
  wallet: WalletSnapshot, journal: JournalState, retention: JournalRetention
): Reconciliation {
  for (const entry of wallet.outbox) applyEntry(journal, entry, retention)
  // A gap blocks even then: the next entries would get numbers that are taken.
  if (wallet.trustsJournal) {
    const missing = fillGaps(journal, retention)
    return { behind: true, faults: gapOf(journal), missing }
  }
  const behind = wallet.seq < journal.seq
  const faults = [
    ...journal.faults, ...gapOf(journal), ...walletFaults(wallet, journal), ...sumFaults(journal),
    ...unknownJobFaults(wallet, journal),
  ]
  return { behind, faults, missing: [] }
}

/** Applies reconstructed entries until no gap can be filled; returns them. */
function fillGaps (journal: JournalState, retention: JournalRetention): readonly Journal[] {
  const missing: Journal[] = []
  for (let entry = missingEntry(journal); entry !== undefined; entry = missingEntry(journal)) {
    missing.push(entry)
    applyEntry(journal, entry, retention)
  }
  return missing
}

function gapOf ({ afterGap, seq }: JournalState): readonly string[] {
  if (afterGap.size === 0) return []
  const first = Math.min(...afterGap.keys())
  return [`entries ${seq + 1} to ${first - 1} are missing before entry ${first}`]
}

function walletFaults ({ seq, amounts }: WalletSnapshot, journal: JournalState): readonly string[] {
  if (seq > journal.seq) {
    return [`Redis has ${seq} movements, journal and outbox have ${journal.seq}`]
  }
  const expected = journal.amountsAtWalletSeq
  if (expected === undefined || areEqual(expected, amounts)) return []
  return [`after movement ${seq} Redis has ${formatAmounts(amounts)}, ` +
    `the journal ${formatAmounts(expected)}`]
}

function sumFaults ({ amounts, open }: JournalState): readonly string[] {
  const { availableMicros, reservedMicros, chargedMicros, fundedMicros } = amounts
  const maxima = [...open.values()].reduce((sum, { amountMicros }) => sum + amountMicros, 0)
  return [
    ...AMOUNTS.filter(name => amounts[name] < 0).map(name => `${name} is ${amounts[name]}`),
    ...availableMicros + reservedMicros + chargedMicros === fundedMicros
      ? []
      : [`the amounts do not add up: ${formatAmounts(amounts)}`],
    ...maxima === reservedMicros
      ? []
      : [`${reservedMicros} are reserved, open jobs reserved ${maxima}`],
  ]
}

/** Running jobs without a reservation; no money of a settled job can move any more. */
function unknownJobFaults (
  { openJobs }: WalletSnapshot, { open, endedOpen }: JournalState
): readonly string[] {
  return openJobs
    .filter(({ job, state }) => state !== 'settled' && state !== 'ended' &&
      !open.has(job) && !endedOpen.has(job))
    .map(({ job }) => `job ${job} runs without a reservation`)
}

type Movement = Pick<Journal, 'entryId' | 'type' | 'job' | 'amountMicros' | 'chargeMicros'>

/**
 * Reconstructs the single missing entry of a gap from the balances before and after it: a top-up or
 * adjustment, or the end of the only job with that reservation. Returns undefined when several
 * entries are missing or the movement is another one. Deterministic.
 */
export function missingEntry (journal: JournalState): Journal | undefined {
  const seq = journal.seq + 1
  const next = journal.afterGap.get(seq + 1)
  if (next === undefined) return undefined
  const before = minus(next, post(ZERO_AMOUNTS, next))
  const movement = movementOf(journal, seq, minus(before, journal.amounts))
  if (movement === undefined || !areEqual(post(journal.amounts, movement), before)) return undefined
  const reason = `reconstructed from entry ${next.seq}: the entry itself is lost`
  const { tenant, at } = next
  return { ...movement, ...before, tenant, seq, at, reason, header: null }
}

function movementOf ({ open }: JournalState, seq: number, moved: Amounts): Movement | undefined {
  const { fundedMicros, reservedMicros, chargedMicros } = moved
  if (fundedMicros !== 0) {
    const amounts = { amountMicros: fundedMicros, chargeMicros: 0 }
    return { entryId: `missing:${seq}`, type: 'adjust', job: '', ...amounts }
  }
  const amountMicros = -reservedMicros
  const [only, ...rest] = [...open.values()].filter(one => one.amountMicros === amountMicros)
  const isEnd = amountMicros > 0 && chargedMicros >= 0 && chargedMicros <= amountMicros
  if (!isEnd || only === undefined || rest.length > 0) return undefined
  const { job } = only
  const amounts = { amountMicros, chargeMicros: chargedMicros }
  return { entryId: `${job}:settle`, type: 'settle', job, ...amounts }
}

function minus (one: Amounts, other: Amounts): Amounts {
  const differences = AMOUNTS.map(name => [name, one[name] - other[name]])
  return Object.fromEntries(differences) as Amounts
}
