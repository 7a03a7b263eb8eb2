import type { Journal, Snapshot } from '../../schemas/types.ts'
import {
  isTrusted, movementId, Movements, RECONSTRUCTED, trustedEntry,
} from '../money/journal.ts'
import {
  AMOUNTS, type Amounts, areEqual, formatAmounts, post, subtract, ZERO_AMOUNTS,
} from '../money/prices.ts'
import type { Codec } from '../runtime/kafka/registry.ts'
import type { PartitionOffsets, ReadLimits, TopicReader } from '../runtime/kafka/topic-reader.ts'
import { topicName } from '../runtime/platform/topics.ts'
import type { LockedWallet } from './recovery-store.ts'

/** What the state of a tenant's journal must retain beyond its sums. */
export type JournalRetention = {
  /** Seq of the last movement in Redis. */
  readonly seq: number
  /** Jobs that are open in Redis. */
  readonly openJobs: ReadonlySet<string>
  /** Retain jobs that ended since then, as their idempotency keys may be sent again. */
  readonly sinceMs: number
  /** Count movements by their ids, of a journal that contradicts itself. */
  readonly countsMovements?: boolean
}

/** A job with a reservation; without its entry if only a snapshot has it. */
type Reservation = Snapshot['open'][number] & { readonly entry?: Journal | undefined }

/** The entries of a settled job; `reserve` is undefined if only a snapshot has it. */
export type EndedEntries = { readonly reserve: Journal | undefined, readonly end: Journal }

/** `position`: where the topic has it, unless it was read from an outbox. */
type EntryAfterGap = { readonly entry: Journal, readonly position?: Position | undefined }

/** A message of the topic; `writtenMs` is its timestamp. */
export type Position = {
  readonly partition: number
  readonly offset: bigint
  readonly writtenMs: number
}

/** Of a journal that contradicts itself; others need less memory. */
type CountedMovements = {
  readonly movements: Movements
  /** Ids of movements that have a seq of their own. */
  readonly numbered: Set<string>
  /** Whether entries contradict or repeat each other, or operators have trusted the journal. */
  isContradicted: boolean
}

/** Contents of the latest entries of all tenants, to detect two entries with one seq. */
export type Recent = Map<string, string>
const RECENT_ENTRIES = 20_000

/**
 * The state of a tenant's journal, up to its first gap. A recovery has one for each tenant, so an
 * empty collection takes no memory.
 */
export class JournalState {
  /** Seq of the snapshot that it started from. */
  readonly base: number
  seq: number
  /** Time of the last applied entry. */
  at: number
  amounts: Amounts
  /** The amounts after the last movement in Redis. */
  amountsAtWalletSeq: Amounts | undefined
  /** Top-ups and adjustments; of those before the snapshot, the ones that it has. */
  readonly posted: Snapshot['posted'][number][]
  /** Whether the snapshot has only the newest of them. */
  readonly lacksPosted: boolean
  open: ReadonlyMap<string, Reservation> = EMPTY_MAP
  /** Retained jobs whose end Redis may lack. */
  ended: ReadonlyMap<string, EndedEntries> = EMPTY_MAP
  /** Ended jobs that are open in Redis. */
  endedOpen: ReadonlySet<string> = EMPTY_SET
  /** Entries after a gap, by seq, in the order in which they were read. */
  afterGap: ReadonlyMap<number, EntryAfterGap> = EMPTY_MAP
  /** Contradictions that are not resolved: two entries with one seq, balances not adding up. */
  faults: ReadonlySet<string> = EMPTY_SET
  /** Entries whose seq another one has, by content, as long as that is not resolved. */
  contradicting: ReadonlyMap<string, Journal> = EMPTY_MAP
  readonly counted: CountedMovements | undefined
  readonly #retention: JournalRetention
  /** Entries of jobs that ended before the snapshot, until both entries of a job are read. */
  #beforeSnapshot: ReadonlyMap<string, Partial<EndedEntries>> = EMPTY_MAP
  readonly #recent: Recent

  /** An empty journal, or what a snapshot has of one. */
  constructor (retention: JournalRetention, snapshot?: Snapshot, recent: Recent = new Map()) {
    const { seq = 0, at = 0, open = [], posted = [] } = snapshot ?? {}
    this.#retention = retention
    this.#recent = recent
    this.base = seq
    this.seq = seq
    this.at = at
    this.amounts = snapshot === undefined ? ZERO_AMOUNTS : pickAmounts(snapshot)
    this.amountsAtWalletSeq = retention.seq === seq
      ? this.amounts
      : retention.seq === 0 ? ZERO_AMOUNTS : undefined
    this.posted = posted.filter(({ id }) => id !== LEFT_OUT.id)
    this.lacksPosted = snapshot !== undefined && lacksPosted(snapshot)
    for (const reservation of open) this.open = put(this.open, reservation.job, reservation)
    this.counted = retention.countsMovements === true
      ? { movements: new Movements(), numbered: new Set(), isContradicted: false }
      : undefined
  }

  /**
   * Applies an entry. Entries are read repeatedly and out of order. Of two with the same seq the
   * first one has it; a different content is a fault, which a later entry may resolve.
   */
  apply (entry: Journal, position?: Position): void {
    if (entry.seq <= this.base) {
      this.#applyCovered(entry)
      return
    }
    if (entry.seq <= this.seq) {
      const content = this.#recent.get(entryName(entry))
      const isAnother = content === undefined
        ? this.counted?.movements.has(entry) === false
        : content !== toContent(entry)
      if (isAnother) this.#addContradicting(entry)
      return
    }
    const other = this.afterGap.get(entry.seq)?.entry
    if (other === undefined) this.afterGap = put(this.afterGap, entry.seq, { entry, position })
    else if (toContent(other) !== toContent(entry)) this.#addContradicting(entry)
    for (let next = this.afterGap.get(this.seq + 1); next !== undefined;
      next = this.afterGap.get(this.seq + 1)) {
      this.afterGap = without(this.afterGap, next.entry.seq)
      this.#advance(next.entry)
    }
  }

  /** Returns the retained ended jobs, and removes them from the state. */
  takeEnded (): ReadonlyMap<string, EndedEntries> {
    const { ended } = this
    this.ended = EMPTY_MAP
    return ended
  }

  /** The top-ups and adjustments, each with the amount that counts. */
  countedPosted (): Snapshot['posted'] {
    const { posted, counted } = this
    if (counted === undefined) return posted
    return posted.map(entry =>
      ({ ...entry, amountMicros: counted.movements.amountOf(entry.id) ?? entry.amountMicros }))
  }

  /** The jobs, including entries after a gap, whose money moves once it is filled. */
  withEntriesAfterGap (): Pick<JournalState, 'open' | 'ended'> {
    const { open, ended, afterGap } = this
    if (afterGap.size === 0) return { open, ended }
    const all = { open: new Map(open), ended: new Map(ended) }
    const entries = [...afterGap.values()].map(({ entry }) => entry)
    for (const entry of entries.toSorted((a, b) => a.seq - b.seq)) {
      const { job } = entry
      const reservation = all.open.get(job)
      if (entry.type === 'reserve') all.open.set(job, toReservation(entry))
      else if (reservation !== undefined) {
        all.open.delete(job)
        all.ended.set(job, { reserve: reservation.entry, end: entry })
      }
    }
    return all
  }

  /** Whether an entry, and not another one, has its number: of the latest entries only. */
  hasNumber (entry: Journal): boolean {
    return this.#recent.get(entryName(entry)) === toContent(entry)
  }

  /** The entries that are missing, if any. */
  gapFaults (): readonly string[] {
    const { afterGap, seq } = this
    if (afterGap.size === 0) return []
    // A tenant that lost an entry long ago may have more behind it than a call has arguments.
    const first = [...afterGap.keys()].reduce((lowest, number) => Math.min(lowest, number))
    return [`entries ${seq + 1} to ${first - 1} are missing before entry ${first}`]
  }

  /** Applies an entry that the snapshot covers, as the snapshot lacks details of jobs. */
  #applyCovered (entry: Journal): void {
    const { job, type } = entry
    if (entry.seq <= this.#retention.seq || job === '') return
    const open = this.open.get(job)
    if (open !== undefined) {
      if (type === 'reserve') this.open = put(this.open, job, { ...open, entry })
      return
    }
    const { reserve, end } = {
      ...this.#beforeSnapshot.get(job), ...type === 'reserve' ? { reserve: entry } : { end: entry },
    }
    if (reserve === undefined || end === undefined) {
      this.#beforeSnapshot = put(this.#beforeSnapshot, job, { reserve, end })
    } else {
      this.#beforeSnapshot = without(this.#beforeSnapshot, job)
      this.#retainEnded({ reserve, end })
    }
  }

  #addContradicting (entry: Journal): void {
    this.#addFault(`there are two entries with the number ${entry.seq}`)
    const content = toContent(entry)
    if (this.contradicting.has(content)) return
    this.contradicting = put(this.contradicting, content, entry)
    if (this.counted === undefined) return
    if (this.counted.movements.add(entry)) this.#move(entry)
    this.counted.isContradicted = true
    this.#resolve()
  }

  #advance (entry: Journal): void {
    const { counted } = this
    const id = movementId(entry)
    const isNew = counted === undefined || counted.movements.add(entry)
    const expected = isNew ? post(this.amounts, entry) : this.amounts
    if (!areEqual(expected, entry)) {
      this.#addFault(`entry ${entry.seq} has balances ${formatAmounts(entry)}, ` +
        `expected ${formatAmounts(expected)}`)
    }
    this.seq = entry.seq
    this.at = entry.at
    this.amounts = pickAmounts(entry)
    if (this.seq === this.#retention.seq) this.amountsAtWalletSeq = this.amounts
    this.#recent.set(entryName(entry), toContent(entry))
    const [oldest] = this.#recent.size > RECENT_ENTRIES ? this.#recent.keys() : []
    if (oldest !== undefined) this.#recent.delete(oldest)
    if (isNew) this.#move(entry)
    else if (counted?.numbered.has(id) === false) this.#renumber(entry)
    if (counted === undefined) return
    counted.numbered.add(id)
    counted.isContradicted ||= !isNew || isTrusted(entry)
    this.#resolve()
  }

  /** Forgets what contradicts once all entries of the last number have all movements in them. */
  #resolve (): void {
    const { counted, contradicting, seq, amounts } = this
    if (counted?.isContradicted !== true || !counted.movements.areIn(amounts)) return
    const isOpen = [...contradicting.values()].some(other => other.seq > seq ||
      (other.seq === seq && !counted.movements.areIn(other)))
    if (isOpen) return
    counted.isContradicted = false
    this.faults = EMPTY_SET
    this.contradicting = EMPTY_MAP
  }

  /** Applies the movement of an entry to jobs and top-ups. */
  #move (entry: Journal): void {
    const { seq, job, type, entryId, amountMicros } = entry
    if (job === '') this.posted.push({ id: entryId, seq, amountMicros })
    else if (type !== 'reserve') this.#endJob(entry)
    else if (this.counted?.movements.hasEnd(job) !== true) {
      this.open = put(this.open, job, toReservation(entry))
    }
  }

  /** Replaces an entry whose number another one has by the one that has a number of its own. */
  #renumber (entry: Journal): void {
    const { seq, job, type, entryId, amountMicros } = entry
    const at = this.posted.findIndex(({ id }) => id === entryId)
    if (at >= 0) this.posted[at] = { id: entryId, seq, amountMicros }
    const ended = this.ended.get(job)
    if (type === 'reserve' && this.open.has(job)) {
      this.open = put(this.open, job, toReservation(entry))
    } else if (ended !== undefined) {
      this.ended = put(this.ended, job,
        type === 'reserve' ? { ...ended, reserve: entry } : { ...ended, end: entry })
    }
  }

  #endJob (entry: Journal): void {
    const reservation = this.open.get(entry.job)
    this.open = without(this.open, entry.job)
    if (reservation?.amountMicros === entry.amountMicros) {
      this.#retainEnded({ reserve: reservation.entry, end: entry })
    } else this.#addFault(`entry ${entry.seq} ends a job that did not reserve the same amount`)
  }

  #retainEnded (ended: EndedEntries): void {
    const { seq, openJobs, sinceMs } = this.#retention
    const { job } = ended.end
    const isOpen = openJobs.has(job)
    if (isOpen) this.endedOpen = include(this.endedOpen, job)
    const isRetained = ended.end.seq > seq && (isOpen || ended.end.at >= sinceMs)
    if (isRetained) this.ended = put(this.ended, job, ended)
  }

  /** Once, though entries are read repeatedly. */
  #addFault (fault: string): void {
    this.faults = include(this.faults, fault)
  }
}

function toReservation (entry: Journal): Reservation {
  const { job, seq, at, amountMicros } = entry
  return { job, seq, at, amountMicros, entry }
}

const EMPTY_MAP: ReadonlyMap<never, never> = new Map<never, never>()
const EMPTY_SET: ReadonlySet<never> = new Set<never>()

/** Adds an element to a map of a state; creates the map for the first one. */
function put<K, V> (map: ReadonlyMap<K, V>, key: K, value: V): ReadonlyMap<K, V> {
  return (map.size === 0 ? new Map<K, V>() : map as Map<K, V>).set(key, value)
}

/** Adds an element to a set of a state; creates the set for the first one. */
function include<T> (set: ReadonlySet<T>, element: T): ReadonlySet<T> {
  return (set.size === 0 ? new Set<T>() : set as Set<T>).add(element)
}

/** Removes an element from a map of a state, and the map with the last one. */
function without<K, V> (map: ReadonlyMap<K, V>, key: K): ReadonlyMap<K, V> {
  if (map.size > 0) (map as Map<K, V>).delete(key)
  return map.size === 0 ? EMPTY_MAP : map
}

/** In place of older top-ups in a snapshot. */
export const LEFT_OUT: Snapshot['posted'][number] = { id: '', seq: 0, amountMicros: 0 }

/** Whether only the journal has the older top-ups of a tenant. */
export function lacksPosted ({ posted: [oldest] }: Snapshot): boolean {
  return oldest?.id === LEFT_OUT.id
}

/** The amounts after an entry. */
function pickAmounts (entry: Amounts): Amounts {
  const { availableMicros, reservedMicros, chargedMicros, fundedMicros } = entry
  return { availableMicros, reservedMicros, chargedMicros, fundedMicros }
}

const entryName = ({ tenant, seq }: Journal) => `${tenant} ${seq}`

/** The content by which two entries with one seq differ. */
const toContent = ({ entryId, type, job, at, amountMicros, chargeMicros, ...amounts }: Journal) =>
  [entryId, type, job, at, amountMicros, chargeMicros, formatAmounts(amounts)].join(' ')

export type JournalDeps = {
  readonly reader: TopicReader
  readonly codec: Codec
}

type JournalReading = ReadLimits & {
  /** Called before entries of these tenants are applied. */
  readonly onTenants?: (tenants: ReadonlySet<string>) => Promise<void>
  /** Entries of a tenant that is not tracked are skipped. */
  readonly findJournal: (tenant: string) => JournalState | undefined
  /** Called after entries of these tenants were applied; may remove ended jobs from memory. */
  readonly onApplied?: (tenants: ReadonlySet<string>) => Promise<void>
  readonly signal: AbortSignal
}

/**
 * Reads the journal, or a part of it, to its current end, which it returns, and applies the entries
 * to the state of their tenants. Memory does not grow with its length.
 * @throws InfrastructureError when it cannot be read to its end.
 */
export async function readJournal (
  { reader, codec }: JournalDeps,
  { onTenants, findJournal, onApplied, signal, ...limits }: JournalReading
): Promise<PartitionOffsets> {
  return await reader.read(topicName('wallet.journal'), async messages => {
    const entries: { readonly entry: Journal, readonly position: Position }[] = []
    for (const { value, partition, offset, timestampMs } of messages) {
      if (value === null) continue
      const entry = await codec.decode('wallet.journal', value) as Journal
      entries.push({ entry, position: { partition, offset, writtenMs: timestampMs } })
    }
    const tenants = new Set(entries.map(({ entry: { tenant } }) => tenant))
    await onTenants?.(tenants)
    for (const { entry, position } of entries) findJournal(entry.tenant)?.apply(entry, position)
    await onApplied?.(tenants)
  }, { ...limits, signal })
}

/**
 * `behind`: Redis lacks movements of the journal.
 * `faults`: contradictions, which freeze the wallet.
 * `length`: the number of the last movement that the journal and the outbox have.
 * `appended`: entries that the journal must get before the wallet is unlocked.
 * `dropped`: numbers of entries in the outbox whose movements have others in the journal.
 */
export type Reconciliation = {
  readonly behind: boolean
  readonly faults: readonly string[]
  readonly length: number
  readonly appended: readonly Journal[]
  readonly dropped: readonly number[]
}

/** Shared, as most tenants have no open jobs. */
const NO_JOBS: ReadonlySet<string> = new Set()

/** What the journal state must retain to be compared with this wallet. */
export function chooseRetention (
  { seq, openJobs }: LockedWallet,
  { sinceMs, countsMovements }: Required<Pick<JournalRetention, 'sinceMs' | 'countsMovements'>>
): JournalRetention {
  const jobs = openJobs.length === 0 ? NO_JOBS : new Set(openJobs.map(({ job }) => job))
  // Redis may lack any movement of a journal that contradicts itself.
  return { seq: countsMovements ? 0 : seq, openJobs: jobs, sinceMs, countsMovements }
}

/**
 * Compares a wallet with its journal, and applies the outbox to the journal state. The journal
 * wins if Redis is behind it; any contradiction is a fault, which an operator must resolve.
 */
export function reconcile (wallet: LockedWallet, journal: JournalState): Reconciliation {
  for (const entry of wallet.outbox) journal.apply(entry)
  const verdict = wallet.trustsJournal
    ? trustJournal(wallet, journal)
    : { faults: listFaults(wallet, journal), length: journal.seq, appended: [] }
  const { counted } = journal
  const dropped = wallet.outbox.filter(entry =>
    counted?.numbered.has(movementId(entry)) === true && !journal.hasNumber(entry))
  return {
    ...verdict,
    behind: wallet.seq < journal.seq || counted !== undefined,
    dropped: dropped.map(({ seq }) => seq),
  }
}

const listFaults = (wallet: LockedWallet, journal: JournalState) => [
  ...journal.faults, ...journal.gapFaults(), ...walletFaults(wallet, journal),
  ...sumFaults(journal), ...unknownJobFaults(wallet, journal),
]

/**
 * Takes a journal for the truth that may contradict itself, as an isolated master and its successor
 * have written it: every movement counts once, and the balances beside it count for nothing. What
 * is appended resolves the contradictions for every reader.
 */
function trustJournal (
  { tenant, outbox }: LockedWallet, journal: JournalState
): Pick<Reconciliation, 'faults' | 'length' | 'appended'> {
  // What is missing cannot be derived from balances that contradict each other.
  const missing = journal.contradicting.size > 0 ? [] : fillGaps(journal)
  const { seq: length } = journal
  // A gap blocks even then: the next entries would get numbers that are taken.
  if (journal.afterGap.size > 0) return { faults: journal.gapFaults(), length, appended: [] }
  const resolving = resolvingEntries(tenant, journal)
  for (const entry of resolving) journal.apply(entry)
  const faults = [...journal.faults, ...sumFaults(journal)]
  // Without the outbox, what is behind it would be the sum of movements that the journal lacks.
  const appended = faults.length > 0 ? [] : [...missing, ...outbox, ...resolving]
  return { faults, length, appended }
}

/**
 * The entries behind the last one that resolve what contradicts: those of movements without numbers
 * of their own, or one that moves nothing. After a crash before the unlock they are there already.
 */
function resolvingEntries (tenant: string, journal: JournalState): readonly Journal[] {
  const { contradicting, counted, faults, seq, at } = journal
  if (counted === undefined || faults.size === 0) return []
  const { movements, movements: { sum }, numbered } = counted
  const unnumbered = movements.chooseCounted([...contradicting.values()])
    .filter(entry => !numbered.has(movementId(entry)))
  if (unnumbered.length === 0) return [trustedEntry({ tenant, seq, at }, sum)]
  let amounts: Amounts = unnumbered.reduce((before, entry) =>
    subtract(before, post(ZERO_AMOUNTS, entry)), sum)
  return unnumbered.map((entry, index) => {
    amounts = post(amounts, entry)
    return { ...entry, ...amounts, seq: seq + 1 + index }
  })
}

/** Applies reconstructed entries until no gap can be filled; returns them. */
function fillGaps (journal: JournalState): readonly Journal[] {
  const missing: Journal[] = []
  for (let entry = missingEntry(journal); entry !== undefined; entry = missingEntry(journal)) {
    missing.push(entry)
    journal.apply(entry)
  }
  return missing
}

function walletFaults ({ seq, amounts }: LockedWallet, journal: JournalState): readonly string[] {
  if (seq > journal.seq) {
    return [`Redis has ${seq} movements, journal and outbox have ${journal.seq}`]
  }
  // Redis may have been on either side of a contradiction that was resolved behind its end.
  const before = journal.counted === undefined ? journal.amountsAtWalletSeq : undefined
  const expected = seq === journal.seq ? journal.amounts : before
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
  { openJobs }: LockedWallet, { open, endedOpen }: JournalState
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
function missingEntry (journal: JournalState): Journal | undefined {
  const seq = journal.seq + 1
  const next = journal.afterGap.get(seq + 1)?.entry
  if (next === undefined) return undefined
  const before = subtract(next, post(ZERO_AMOUNTS, next))
  const movement = missingMovement(journal, seq, subtract(before, journal.amounts))
  if (movement === undefined || !areEqual(post(journal.amounts, movement), before)) return undefined
  const reason = `reconstructed from entry ${next.seq}: the entry itself is lost`
  const { tenant, at } = next
  return { ...movement, ...before, tenant, seq, at, reason, header: null }
}

function missingMovement (
  { open }: JournalState, seq: number, moved: Amounts
): Movement | undefined {
  const { fundedMicros, reservedMicros, chargedMicros } = moved
  if (fundedMicros !== 0) {
    const amounts = { amountMicros: fundedMicros, chargeMicros: 0 }
    return { entryId: `${RECONSTRUCTED}${seq}`, type: 'adjust', job: '', ...amounts }
  }
  const amountMicros = -reservedMicros
  const [ended, ...others] =
    [...open.values()].filter(reserve => reserve.amountMicros === amountMicros)
  const isEnd = amountMicros > 0 && chargedMicros >= 0 && chargedMicros <= amountMicros
  if (!isEnd || ended === undefined || others.length > 0) return undefined
  const { job } = ended
  const amounts = { amountMicros, chargeMicros: chargedMicros }
  return { entryId: `${job}:settle`, type: 'settle', job, ...amounts }
}
