import type { Journal, Snapshot } from '../../schemas/types.ts'
import { areEqual, NOTHING, post, textOf, type Amounts } from '../money/arithmetic.ts'

/** What has to be remembered of a tenant's entries beyond their sums. */
export type Interest = {
  /** Number of the last movement that Redis knows. */
  readonly seq: number
  /** Jobs that Redis takes for open. */
  readonly openJobs: ReadonlySet<string>
  /** Jobs that ended since then are remembered, as their keys may be sent again. */
  readonly sinceMs: number
}

/** A job that has a reservation; without its entry where a snapshot alone says so. */
export type Reservation = Snapshot['open'][number] & { readonly entry?: Journal | undefined }

/** A job whose money has moved for the last time; `reserve` is left out like that entry. */
export type EndedEntries = { readonly reserve: Journal | undefined, readonly end: Journal }

/** A tenant's journal, read as far as it is without a gap. */
export type Fold = {
  /** Number of the last entry that the snapshot includes which it began with. */
  readonly base: number
  seq: number
  /** When that entry was made. */
  at: number
  amounts: Amounts
  /** The amounts when the last movement that Redis knows was made. */
  atInterest: Amounts | undefined
  /** Top-ups and adjustments, by id. */
  readonly posted: Map<string, Snapshot['posted'][number]>
  readonly open: Map<string, Reservation>
  /** Jobs of whose end Redis has not heard. */
  readonly ended: Map<string, EndedEntries>
  /** Those that Redis takes for open. */
  readonly endedOpen: Set<string>
  /** Entries of jobs that ended before the snapshot, until both of a job are there. */
  readonly past: Map<string, Partial<EndedEntries>>
  /** Entries behind a gap. */
  readonly held: Map<number, Journal>
  /** What cannot be: the same number with another content, balances that do not follow. */
  readonly faults: string[]
  readonly recent: Recent
}

/** What the last entries of all journals were: what is sent again is sent again soon. */
export type Recent = Map<string, string>
const RECENT_ENTRIES = 20_000

/** The beginning of every journal, or what a snapshot says of it. */
export function beginFold (
  interest: Interest, snapshot?: Snapshot, recent: Recent = new Map()
): Fold {
  const { seq = 0, at = 0, open = [], posted = [] } = snapshot ?? {}
  const amounts = snapshot === undefined ? NOTHING : amountsOf(snapshot)
  return {
    base: seq,
    seq,
    at,
    amounts,
    atInterest: interest.seq === seq ? amounts : interest.seq === 0 ? NOTHING : undefined,
    posted: new Map(posted.map(one => [one.id, one])),
    open: new Map(open.map(one => [one.job, one])),
    ended: new Map(),
    endedOpen: new Set(),
    past: new Map(),
    held: new Map(),
    faults: [],
    recent,
  }
}

/** What a fold knows, for the next one to begin with. */
export function snapshotOf (
  { seq, at, amounts, open, posted }: Fold, of: Pick<Snapshot, 'tenant' | 'from'>
): Snapshot {
  return {
    ...of,
    seq,
    at,
    ...amounts,
    open: [...open.values()].map(({ entry: _, ...reservation }) => reservation),
    posted: [...posted.values()],
  }
}

/**
 * Takes the next entry of a journal. Entries come more than once and not always in order; of two
 * with the same number the first one counts, and another content is a fault.
 */
export function take (fold: Fold, entry: Journal, interest: Interest): void {
  if (entry.seq <= fold.base) return recall(fold, entry, interest)
  if (entry.seq <= fold.seq) return compare(fold, entry)
  const other = fold.held.get(entry.seq)
  if (other === undefined) fold.held.set(entry.seq, entry)
  else if (contentOf(other) !== contentOf(entry)) fold.faults.push(differing(entry))
  for (let next = fold.held.get(fold.seq + 1); next !== undefined;
    next = fold.held.get(fold.seq + 1)) {
    fold.held.delete(next.seq)
    apply(fold, next, interest)
  }
}

/** Takes an entry that the snapshot includes: of Redis' lost jobs it does not say enough. */
function recall (fold: Fold, entry: Journal, interest: Interest): void {
  const { job, type } = entry
  if (entry.seq <= interest.seq || job === '') return
  const open = fold.open.get(job)
  if (open !== undefined) {
    if (type === 'reserve') fold.open.set(job, { ...open, entry })
    return
  }
  const { reserve, end } = {
    ...fold.past.get(job), ...type === 'reserve' ? { reserve: entry } : { end: entry },
  }
  if (reserve === undefined || end === undefined) fold.past.set(job, { reserve, end })
  else {
    fold.past.delete(job)
    remember(fold, { reserve, end }, interest)
  }
}

function compare (fold: Fold, entry: Journal): void {
  const known = fold.recent.get(nameOf(entry))
  if (known !== undefined && known !== contentOf(entry)) fold.faults.push(differing(entry))
}

const differing = ({ seq }: Journal) => `there are two entries with the number ${seq}`

function apply (fold: Fold, entry: Journal, interest: Interest): void {
  const expected = post(fold.amounts, entry)
  if (!areEqual(expected, entry)) {
    fold.faults.push(`entry ${entry.seq} leads to ${textOf(entry)}, not to ${textOf(expected)}`)
  }
  const { seq, job, amountMicros } = entry
  fold.seq = seq
  fold.at = entry.at
  fold.amounts = amountsOf(entry)
  if (fold.seq === interest.seq) fold.atInterest = fold.amounts
  keep(fold.recent, entry)
  if (entry.type === 'reserve') fold.open.set(job, reservationOf(entry))
  else if (job !== '') end(fold, entry, interest)
  else fold.posted.set(entry.entryId, { id: entry.entryId, seq, amountMicros })
}

function reservationOf (entry: Journal): Reservation {
  const { job, seq, at, amountMicros } = entry
  return { job, seq, at, amountMicros, entry }
}

function end (fold: Fold, entry: Journal, interest: Interest): void {
  const reservation = fold.open.get(entry.job)
  fold.open.delete(entry.job)
  if (reservation === undefined || reservation.amountMicros !== entry.amountMicros) {
    fold.faults.push(`entry ${entry.seq} ends a job that had not reserved so much`)
    return
  }
  remember(fold, { reserve: reservation.entry, end: entry }, interest)
}

function remember (fold: Fold, ended: EndedEntries, { seq, openJobs, sinceMs }: Interest): void {
  const { job } = ended.end
  const isOpen = openJobs.has(job)
  if (isOpen) fold.endedOpen.add(job)
  const isNews = ended.end.seq > seq && (isOpen || ended.end.at >= sinceMs)
  if (isNews) fold.ended.set(job, ended)
}

/** The jobs of a journal, those behind a gap included: of them money moves once it is filled. */
export function withHeld ({ open, ended, held }: Fold): Pick<Fold, 'open' | 'ended'> {
  const all = { open: new Map(open), ended: new Map(ended) }
  for (const entry of [...held.values()].toSorted((a, b) => a.seq - b.seq)) {
    const { job } = entry
    const reservation = all.open.get(job)
    if (entry.type === 'reserve') all.open.set(job, reservationOf(entry))
    else if (reservation !== undefined) {
      all.open.delete(job)
      all.ended.set(job, { reserve: reservation.entry, end: entry })
    }
  }
  return all
}

/** The amounts an entry leads to. */
export function amountsOf (entry: Amounts): Amounts {
  const { availableMicros, reservedMicros, chargedMicros, fundedMicros } = entry
  return { availableMicros, reservedMicros, chargedMicros, fundedMicros }
}

function keep (recent: Recent, entry: Journal): void {
  recent.set(nameOf(entry), contentOf(entry))
  const [oldest] = recent.size > RECENT_ENTRIES ? recent.keys() : []
  if (oldest !== undefined) recent.delete(oldest)
}

const nameOf = ({ tenant, seq }: Journal) => `${tenant} ${seq}`

/** What differs between two movements that have the same number. */
const contentOf = ({ entryId, type, job, at, amountMicros, chargeMicros, ...amounts }: Journal) =>
  [entryId, type, job, at, amountMicros, chargeMicros, textOf(amounts)].join(' ')
