import type { Journal } from '../../schemas/types.ts'
import { AMOUNTS, areEqual, textOf, type Amounts } from '../money/arithmetic.ts'
import { take, type Fold, type Interest } from './journal-fold.ts'
import { missingEntry } from './missing.ts'

/** A tenant as Redis has it, while nothing can move. */
export type WalletSnapshot = {
  readonly tenant: string
  /** The run of the server that answered. */
  readonly run: string
  readonly seq: number
  readonly amounts: Amounts
  readonly outbox: readonly Journal[]
  readonly openJobs: readonly OpenJob[]
  /** True when people have decided that the journal is right, whatever Redis says. */
  readonly trustsJournal: boolean
}

/**
 * A job that Redis takes for open. `settled`: its last movement was made; `ended`: all its rows
 * were counted as well. `gone`: there is no record of it.
 */
export type OpenJob = {
  readonly job: string
  readonly sinceMs: number
  readonly state: 'running' | 'settled' | 'ended' | 'gone'
}

/**
 * `behind`: Redis lacks movements that the journal has. `faults`: what cannot be explained; the
 * tenant is to be frozen as it is. `missing`: entries that the journal lacks and has to be given.
 */
export type Verdict = {
  readonly behind: boolean
  readonly faults: readonly string[]
  readonly missing: readonly Journal[]
}

/** What a journal has to be remembered for, so that it can be compared with a tenant. */
export function interestOf (
  { seq, openJobs, trustsJournal }: WalletSnapshot, sinceMs: number
): Interest {
  const jobs = new Set(openJobs.map(({ job }) => job))
  return { seq: trustsJournal ? 0 : seq, openJobs: jobs, sinceMs }
}

/**
 * Compares a tenant with its journal, which goes on in the outbox: afterwards the fold has both.
 * The journal decides; where Redis says something else than an earlier state of it, people do.
 */
export function reconcile (standing: WalletSnapshot, fold: Fold, interest: Interest): Verdict {
  for (const entry of standing.outbox) take(fold, entry, interest)
  // Beyond a gap nothing moves even then: the next entries would get numbers that are taken.
  if (standing.trustsJournal) {
    const missing = fillGaps(fold, interest)
    return { behind: true, faults: gapOf(fold), missing }
  }
  const behind = standing.seq < fold.seq
  const faults = [
    ...fold.faults, ...gapOf(fold), ...walletFaults(standing, fold), ...sumFaults(fold),
    ...strangers(standing, fold),
  ]
  return { behind, faults, missing: [] }
}

/** Takes what is missing for the entries behind it to follow; returns it. */
function fillGaps (fold: Fold, interest: Interest): readonly Journal[] {
  const missing: Journal[] = []
  for (let entry = missingEntry(fold); entry !== undefined; entry = missingEntry(fold)) {
    missing.push(entry)
    take(fold, entry, interest)
  }
  return missing
}

function gapOf ({ held, seq }: Fold): readonly string[] {
  if (held.size === 0) return []
  const first = Math.min(...held.keys())
  return [`the entries ${seq + 1} to ${first - 1} are nowhere, and ${first} is there`]
}

function walletFaults ({ seq, amounts }: WalletSnapshot, fold: Fold): readonly string[] {
  if (seq > fold.seq) {
    return [`Redis has ${seq} movements, the journal and the outbox have ${fold.seq}`]
  }
  const expected = fold.atInterest
  if (expected === undefined || areEqual(expected, amounts)) return []
  return [`after movement ${seq} Redis has ${textOf(amounts)}, the journal ${textOf(expected)}`]
}

function sumFaults ({ amounts, open }: Fold): readonly string[] {
  const { availableMicros, reservedMicros, chargedMicros, fundedMicros } = amounts
  const maxima = [...open.values()].reduce((sum, { amountMicros }) => sum + amountMicros, 0)
  return [
    ...AMOUNTS.filter(name => amounts[name] < 0).map(name => `${name} is ${amounts[name]}`),
    ...availableMicros + reservedMicros + chargedMicros === fundedMicros
      ? []
      : [`the amounts do not add up: ${textOf(amounts)}`],
    ...maxima === reservedMicros
      ? []
      : [`${reservedMicros} are reserved, open jobs reserved ${maxima}`],
  ]
}

/** The money of a job that Redis knows to be settled does not move, whatever becomes of the job. */
function strangers ({ openJobs }: WalletSnapshot, { open, endedOpen }: Fold): readonly string[] {
  return openJobs
    .filter(({ job, state }) => state !== 'settled' && state !== 'ended' &&
      !open.has(job) && !endedOpen.has(job))
    .map(({ job }) => `the job ${job} runs and has reserved nothing`)
}
