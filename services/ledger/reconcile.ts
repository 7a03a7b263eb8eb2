import type { Journal } from '../../schemas/types.ts'
import { AMOUNTS, areEqual, formatAmounts, type Amounts } from '../money/arithmetic.ts'
import { applyEntry, type JournalState, type JournalRetention } from './journal-state.ts'
import { missingEntry } from './missing-entry.ts'

/** The locked wallet of a tenant in Redis. */
export type WalletSnapshot = {
  readonly tenant: string
  /** The run id of the server that replied. */
  readonly run: string
  readonly seq: number
  readonly amounts: Amounts
  readonly outbox: readonly Journal[]
  readonly openJobs: readonly JobInRedis[]
  /** True when an operator has decided that the journal replaces the state of Redis. */
  readonly trustsJournal: boolean
}

/**
 * A job that is open in Redis. `settled`: its last movement was made; `ended`: all its rows were
 * counted as well; `gone`: its record is lost.
 */
export type JobInRedis = {
  readonly job: string
  readonly sinceMs: number
  readonly state: 'running' | 'settled' | 'ended' | 'gone'
}

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

/** What the journal state must retain to be compared with this wallet. */
export function retentionOf (
  { seq, openJobs, trustsJournal }: WalletSnapshot, sinceMs: number
): JournalRetention {
  const jobs = new Set(openJobs.map(({ job }) => job))
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
