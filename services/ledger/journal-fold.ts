import { createHash } from 'node:crypto'
import type { Journal } from '../../schemas/types.ts'
import { areEqual, NOTHING, post, textOf, type Amounts } from '../money/fold.ts'
import { canonicalText } from '../records/journal-chain.ts'

/** What has to be remembered of a tenant's entries beyond their sums. */
export type Interest = {
  /** Number of the last movement that Redis knows. */
  readonly seq: number
  /** Jobs that Redis takes for open. */
  readonly openJobs: ReadonlySet<string>
}

/** A job whose money has moved for the last time. */
export type EndedEntries = { readonly reserve: Journal, readonly end: Journal }

/** A tenant's journal, read as far as it is without a gap. */
export type Fold = {
  seq: number
  amounts: Amounts
  /** The amounts when the last movement that Redis knows was made. */
  atInterest: Amounts | undefined
  /** Ids of top-ups and adjustments -> what was posted, as the wallet keeps them. */
  readonly posted: Map<string, string>
  readonly open: Map<string, Journal>
  readonly ended: Map<string, EndedEntries>
  /** Jobs that Redis has not heard of -> when they reserved. */
  readonly missed: Map<string, number>
  /** Entries behind a gap. */
  readonly held: Map<number, Journal>
  /** What cannot be: the same number with another content, balances that do not follow. */
  readonly faults: string[]
  readonly recent: Map<number, string>
}

/** Contents are compared with so many entries before: what is sent again is sent again soon. */
const RECENT = 256

/** The beginning of every journal. */
export function emptyFold (interest: Interest): Fold {
  return {
    seq: 0,
    amounts: NOTHING,
    atInterest: interest.seq === 0 ? NOTHING : undefined,
    posted: new Map(),
    open: new Map(),
    ended: new Map(),
    missed: new Map(),
    held: new Map(),
    faults: [],
    recent: new Map(),
  }
}

/**
 * Takes the next entry of a journal. Entries come more than once and not always in order; of two
 * with the same number the first one counts, and another content is a fault.
 */
export function take (fold: Fold, entry: Journal, interest: Interest): void {
  if (entry.seq <= fold.seq) return compare(fold, entry)
  const other = fold.held.get(entry.seq)
  if (other === undefined) fold.held.set(entry.seq, entry)
  else if (digestOf(other) !== digestOf(entry)) fold.faults.push(differing(entry))
  for (let next = fold.held.get(fold.seq + 1); next !== undefined;
    next = fold.held.get(fold.seq + 1)) {
    fold.held.delete(next.seq)
    apply(fold, next, interest)
  }
}

function compare (fold: Fold, entry: Journal): void {
  const known = fold.recent.get(entry.seq)
  if (known !== undefined && known !== digestOf(entry)) fold.faults.push(differing(entry))
}

const differing = ({ seq }: Journal) => `there are two entries with the number ${seq}`

function apply (fold: Fold, entry: Journal, interest: Interest): void {
  const expected = post(fold.amounts, entry)
  if (!areEqual(expected, entry)) {
    fold.faults.push(`entry ${entry.seq} leads to ${textOf(entry)}, not to ${textOf(expected)}`)
  }
  fold.seq = entry.seq
  fold.amounts = amountsOf(entry)
  if (fold.seq === interest.seq) fold.atInterest = fold.amounts
  fold.recent.set(entry.seq, digestOf(entry))
  fold.recent.delete(entry.seq - RECENT)
  if (entry.type === 'reserve') begin(fold, entry, interest)
  else if (entry.job === '') fold.posted.set(entry.entryId, `${entry.seq}:${entry.amountMicros}`)
  else end(fold, entry, interest)
}

function begin (fold: Fold, entry: Journal, { seq }: Interest): void {
  fold.open.set(entry.job, entry)
  if (entry.seq > seq) fold.missed.set(entry.job, entry.at)
}

function end (fold: Fold, entry: Journal, { seq, openJobs }: Interest): void {
  const reserve = fold.open.get(entry.job)
  fold.open.delete(entry.job)
  if (reserve === undefined || reserve.amountMicros !== entry.amountMicros) {
    fold.faults.push(`entry ${entry.seq} ends a job that had not reserved so much`)
    return
  }
  // A job that ended for Redis and is not open there is closed, and Redis may have forgotten it.
  const matters = entry.seq > seq || openJobs.has(entry.job)
  if (matters) fold.ended.set(entry.job, { reserve, end: entry })
}

/** The jobs of a journal, those behind a gap included: of them money moves once it is filled. */
export function withHeld ({ open, ended, held }: Fold): Pick<Fold, 'open' | 'ended'> {
  const all = { open: new Map(open), ended: new Map(ended) }
  for (const entry of [...held.values()].toSorted((a, b) => a.seq - b.seq)) {
    const reserve = all.open.get(entry.job)
    if (entry.type === 'reserve') all.open.set(entry.job, entry)
    else if (reserve !== undefined) {
      all.open.delete(entry.job)
      all.ended.set(entry.job, { reserve, end: entry })
    }
  }
  return all
}

/** The amounts an entry leads to. */
export function amountsOf (entry: Amounts): Amounts {
  const { availableMicros, reservedMicros, chargedMicros, fundedMicros } = entry
  return { availableMicros, reservedMicros, chargedMicros, fundedMicros }
}

const digestOf = (entry: Journal) =>
  createHash('sha256').update(canonicalText(entry)).digest('base64')
