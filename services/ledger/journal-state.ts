import type { Journal, Snapshot } from '../../schemas/types.ts'
import {
  isTrusted, movementId, Movements, RECONSTRUCTED, trustedEntry,
} from '../money/journal.ts'
import {
  AMOUNTS, type Amounts, areEqual, formatAmounts, post, subtract, ZERO_AMOUNTS,
} from '../money/prices.ts'
import type { Emitter } from '../runtime/engine/stage.ts'
import type { Codec } from '../runtime/kafka/registry.ts'
import type { PartitionOffsets, ReadLimits, TopicReader } from '../runtime/kafka/topic-reader.ts'
import { splitBatches } from '../runtime/platform/batch-writes.ts'
import type { Clock } from '../runtime/platform/retry.ts'
import type { Log } from '../runtime/platform/log.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
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

/**
 * The state of a tenant's journal, up to its first gap. A recovery has one for each tenant, so an
 * empty collection takes no memory.
 */
export type JournalState = {
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
  open: ReadonlyMap<string, Reservation>
  /** Retained jobs whose end Redis may lack. */
  ended: ReadonlyMap<string, EndedEntries>
  /** Ended jobs that are open in Redis. */
  endedOpen: ReadonlySet<string>
  /** Entries of jobs that ended before the snapshot, until both entries of a job are read. */
  beforeSnapshot: ReadonlyMap<string, Partial<EndedEntries>>
  /** Entries after a gap, by seq, in the order in which they were read. */
  afterGap: ReadonlyMap<number, EntryAfterGap>
  /** Contradictions that are not resolved: two entries with one seq, balances not adding up. */
  faults: ReadonlySet<string>
  /** Entries whose seq another one has, by content, as long as that is not resolved. */
  contradicting: ReadonlyMap<string, Journal>
  readonly counted: CountedMovements | undefined
  readonly recent: Recent
}

/** `position`: where the topic has it, unless it was read from an outbox. */
type EntryAfterGap = { readonly entry: Journal, readonly position?: Position | undefined }

/** A message of the topic; `writtenMs` is its timestamp. */
type Position = {
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

/** Creates the state of an empty journal, or restores it from a snapshot. */
export function createJournalState (
  retention: JournalRetention, snapshot?: Snapshot, recent: Recent = new Map()
): JournalState {
  const { seq = 0, at = 0, open = [], posted = [] } = snapshot ?? {}
  const amounts = snapshot === undefined ? ZERO_AMOUNTS : pickAmounts(snapshot)
  return {
    base: seq,
    seq,
    at,
    amounts,
    amountsAtWalletSeq:
      retention.seq === seq ? amounts : retention.seq === 0 ? ZERO_AMOUNTS : undefined,
    posted: posted.filter(({ id }) => id !== LEFT_OUT.id),
    lacksPosted: snapshot !== undefined && lacksPosted(snapshot),
    open: open.length === 0 ? EMPTY_MAP : new Map(open.map(entry => [entry.job, entry])),
    ended: EMPTY_MAP,
    endedOpen: EMPTY_SET,
    beforeSnapshot: EMPTY_MAP,
    afterGap: EMPTY_MAP,
    faults: EMPTY_SET,
    contradicting: EMPTY_MAP,
    counted: retention.countsMovements === true
      ? { movements: new Movements(), numbered: new Set(), isContradicted: false }
      : undefined,
    recent,
  }
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

/** Returns the retained ended jobs, and removes them from the state. */
export function takeEnded (journal: JournalState): JournalState['ended'] {
  const { ended } = journal
  journal.ended = EMPTY_MAP
  return ended
}

/** Once, though entries are read repeatedly. */
const addFault = (journal: JournalState, fault: string) => {
  journal.faults = include(journal.faults, fault)
}

/**
 * Applies an entry. Entries are read repeatedly and out of order. Of two with the same seq the
 * first one has it; a different content is a fault, which a later entry may resolve.
 */
function applyEntry (
  journal: JournalState, entry: Journal, retention: JournalRetention, position?: Position
): void {
  if (entry.seq <= journal.base) return applyCovered(journal, entry, retention)
  if (entry.seq <= journal.seq) {
    const content = journal.recent.get(entryName(entry))
    const isAnother = content === undefined
      ? journal.counted?.movements.has(entry) === false
      : content !== toContent(entry)
    if (isAnother) addContradicting(journal, entry, retention)
    return
  }
  const other = journal.afterGap.get(entry.seq)?.entry
  if (other === undefined) journal.afterGap = put(journal.afterGap, entry.seq, { entry, position })
  else if (toContent(other) !== toContent(entry)) addContradicting(journal, entry, retention)
  for (let next = journal.afterGap.get(journal.seq + 1); next !== undefined;
    next = journal.afterGap.get(journal.seq + 1)) {
    journal.afterGap = without(journal.afterGap, next.entry.seq)
    advance(journal, next.entry, retention)
  }
}

/** Applies an entry that the snapshot covers, as the snapshot lacks details of jobs. */
function applyCovered (journal: JournalState, entry: Journal, retention: JournalRetention): void {
  const { job, type } = entry
  if (entry.seq <= retention.seq || job === '') return
  const open = journal.open.get(job)
  if (open !== undefined) {
    if (type === 'reserve') journal.open = put(journal.open, job, { ...open, entry })
    return
  }
  const { reserve, end } = {
    ...journal.beforeSnapshot.get(job), ...type === 'reserve' ? { reserve: entry } : { end: entry },
  }
  if (reserve === undefined || end === undefined) {
    journal.beforeSnapshot = put(journal.beforeSnapshot, job, { reserve, end })
  } else {
    journal.beforeSnapshot = without(journal.beforeSnapshot, job)
    retainEnded(journal, { reserve, end }, retention)
  }
}

function addContradicting (
  journal: JournalState, entry: Journal, retention: JournalRetention
): void {
  addFault(journal, `there are two entries with the number ${entry.seq}`)
  const content = toContent(entry)
  if (journal.contradicting.has(content)) return
  journal.contradicting = put(journal.contradicting, content, entry)
  if (journal.counted === undefined) return
  if (journal.counted.movements.add(entry)) move(journal, entry, retention)
  journal.counted.isContradicted = true
  resolve(journal)
}

function advance (journal: JournalState, entry: Journal, retention: JournalRetention): void {
  const { counted } = journal
  const id = movementId(entry)
  const isNew = counted === undefined || counted.movements.add(entry)
  const expected = isNew ? post(journal.amounts, entry) : journal.amounts
  if (!areEqual(expected, entry)) {
    addFault(journal, `entry ${entry.seq} has balances ${formatAmounts(entry)}, ` +
      `expected ${formatAmounts(expected)}`)
  }
  journal.seq = entry.seq
  journal.at = entry.at
  journal.amounts = pickAmounts(entry)
  if (journal.seq === retention.seq) journal.amountsAtWalletSeq = journal.amounts
  journal.recent.set(entryName(entry), toContent(entry))
  const [oldest] = journal.recent.size > RECENT_ENTRIES ? journal.recent.keys() : []
  if (oldest !== undefined) journal.recent.delete(oldest)
  if (isNew) move(journal, entry, retention)
  else if (counted?.numbered.has(id) === false) renumber(journal, entry)
  if (counted === undefined) return
  counted.numbered.add(id)
  counted.isContradicted ||= !isNew || isTrusted(entry)
  resolve(journal)
}

/** Forgets what contradicts once all entries of the last number have all movements in them. */
function resolve (journal: JournalState): void {
  const { counted, contradicting, seq, amounts } = journal
  if (counted?.isContradicted !== true || !counted.movements.areIn(amounts)) return
  const isOpen = [...contradicting.values()].some(other => other.seq > seq ||
    (other.seq === seq && !counted.movements.areIn(other)))
  if (isOpen) return
  counted.isContradicted = false
  journal.faults = EMPTY_SET
  journal.contradicting = EMPTY_MAP
}

/** Applies the movement of an entry to jobs and top-ups. */
function move (journal: JournalState, entry: Journal, retention: JournalRetention): void {
  const { seq, job, type, entryId, amountMicros } = entry
  if (job === '') journal.posted.push({ id: entryId, seq, amountMicros })
  else if (type !== 'reserve') endJob(journal, entry, retention)
  else if (journal.counted?.movements.hasEnd(job) !== true) {
    journal.open = put(journal.open, job, toReservation(entry))
  }
}

/** Replaces an entry whose number another one has by the one that has a number of its own. */
function renumber (journal: JournalState, entry: Journal): void {
  const { seq, job, type, entryId, amountMicros } = entry
  const at = journal.posted.findIndex(({ id }) => id === entryId)
  if (at >= 0) journal.posted[at] = { id: entryId, seq, amountMicros }
  const ended = journal.ended.get(job)
  if (type === 'reserve' && journal.open.has(job)) {
    journal.open = put(journal.open, job, toReservation(entry))
  } else if (ended !== undefined) {
    const renumbered = type === 'reserve' ? { ...ended, reserve: entry } : { ...ended, end: entry }
    journal.ended = put(journal.ended, job, renumbered)
  }
}

function toReservation (entry: Journal): Reservation {
  const { job, seq, at, amountMicros } = entry
  return { job, seq, at, amountMicros, entry }
}

function endJob (journal: JournalState, entry: Journal, retention: JournalRetention): void {
  const reservation = journal.open.get(entry.job)
  journal.open = without(journal.open, entry.job)
  if (reservation === undefined || reservation.amountMicros !== entry.amountMicros) {
    addFault(journal, `entry ${entry.seq} ends a job that did not reserve the same amount`)
    return
  }
  retainEnded(journal, { reserve: reservation.entry, end: entry }, retention)
}

function retainEnded (
  journal: JournalState, ended: EndedEntries, { seq, openJobs, sinceMs }: JournalRetention
): void {
  const { job } = ended.end
  const isOpen = openJobs.has(job)
  if (isOpen) journal.endedOpen = include(journal.endedOpen, job)
  const isRetained = ended.end.seq > seq && (isOpen || ended.end.at >= sinceMs)
  if (isRetained) journal.ended = put(journal.ended, job, ended)
}

/** The top-ups and adjustments of a journal, each with the amount that counts. */
export function countedPosted ({ posted, counted }: JournalState): Snapshot['posted'] {
  if (counted === undefined) return posted
  return posted.map(entry =>
    ({ ...entry, amountMicros: counted.movements.amountOf(entry.id) ?? entry.amountMicros }))
}

/** The jobs of a journal, including entries after a gap, whose money moves once it is filled. */
export function withEntriesAfterGap (
  { open, ended, afterGap }: JournalState
): Pick<JournalState, 'open' | 'ended'> {
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

/** The amounts after an entry. */
function pickAmounts (entry: Amounts): Amounts {
  const { availableMicros, reservedMicros, chargedMicros, fundedMicros } = entry
  return { availableMicros, reservedMicros, chargedMicros, fundedMicros }
}

const entryName = ({ tenant, seq }: Journal) => `${tenant} ${seq}`

/** The content by which two entries with one seq differ. */
const toContent = ({ entryId, type, job, at, amountMicros, chargeMicros, ...amounts }: Journal) =>
  [entryId, type, job, at, amountMicros, chargeMicros, formatAmounts(amounts)].join(' ')

/** Whether an entry, and not another one, has its number: of the latest entries only. */
const hasNumber = ({ recent }: JournalState, entry: Journal) =>
  recent.get(entryName(entry)) === toContent(entry)

export type JournalDeps = {
  readonly reader: TopicReader
  readonly codec: Codec
}

/** The state of a tenant's journal, and what it must retain. */
export type TrackedJournal = {
  readonly journal: JournalState
  readonly retention: JournalRetention
}

type JournalReading = ReadLimits & {
  /** Called before entries of these tenants are applied. */
  readonly onTenants?: (tenants: ReadonlySet<string>) => Promise<void>
  /** Entries of a tenant that is not tracked are skipped. */
  readonly trackedOf: (tenant: string) => TrackedJournal | undefined
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
  { onTenants, trackedOf, onApplied, signal, ...limits }: JournalReading
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
    for (const { entry, position } of entries) {
      const tracked = trackedOf(entry.tenant)
      if (tracked === undefined) continue
      applyEntry(tracked.journal, entry, tracked.retention, position)
    }
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
export function reconcile (
  wallet: LockedWallet, journal: JournalState, retention: JournalRetention
): Reconciliation {
  for (const entry of wallet.outbox) applyEntry(journal, entry, retention)
  const verdict = wallet.trustsJournal
    ? trustJournal(wallet, journal, retention)
    : { faults: listFaults(wallet, journal), length: journal.seq, appended: [] }
  const { counted } = journal
  const dropped = wallet.outbox.filter(entry =>
    counted?.numbered.has(movementId(entry)) === true && !hasNumber(journal, entry))
  return {
    ...verdict,
    behind: wallet.seq < journal.seq || counted !== undefined,
    dropped: dropped.map(({ seq }) => seq),
  }
}

const listFaults = (wallet: LockedWallet, journal: JournalState) => [
  ...journal.faults, ...gapFaults(journal), ...walletFaults(wallet, journal),
  ...sumFaults(journal), ...unknownJobFaults(wallet, journal),
]

/**
 * Takes a journal for the truth that may contradict itself, as an isolated master and its successor
 * have written it: every movement counts once, and the balances beside it count for nothing. What
 * is appended resolves the contradictions for every reader.
 */
function trustJournal (
  { tenant, outbox }: LockedWallet, journal: JournalState, retention: JournalRetention
): Pick<Reconciliation, 'faults' | 'length' | 'appended'> {
  // What is missing cannot be derived from balances that contradict each other.
  const missing = journal.contradicting.size > 0 ? [] : fillGaps(journal, retention)
  const { seq: length } = journal
  // A gap blocks even then: the next entries would get numbers that are taken.
  if (journal.afterGap.size > 0) return { faults: gapFaults(journal), length, appended: [] }
  const resolving = resolvingEntries(tenant, journal)
  for (const entry of resolving) applyEntry(journal, entry, retention)
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
function fillGaps (journal: JournalState, retention: JournalRetention): readonly Journal[] {
  const missing: Journal[] = []
  for (let entry = missingEntry(journal); entry !== undefined; entry = missingEntry(journal)) {
    missing.push(entry)
    applyEntry(journal, entry, retention)
  }
  return missing
}

function gapFaults ({ afterGap, seq }: JournalState): readonly string[] {
  if (afterGap.size === 0) return []
  // A tenant that lost an entry long ago may have more behind it than a call has arguments.
  const first = [...afterGap.keys()].reduce((lowest, number) => Math.min(lowest, number))
  return [`entries ${seq + 1} to ${first - 1} are missing before entry ${first}`]
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

export type SnapshotWriteDeps = {
  readonly emitter: Pick<Emitter, 'emit'>
  readonly log: Pick<Log, 'error' | 'warn'>
  readonly metrics: Pick<Metrics, 'count'>
}

export type SnapshotDeps = JournalDeps & SnapshotWriteDeps & {
  readonly clock: Clock
  /** Snapshots leave out younger entries, as a Redis that has just lost some lacks them. */
  readonly snapshotBehindMs: number
}

/** The latest snapshot of each tenant, and the positions of the first entries after them. */
export type Base = {
  /** As JSON: as objects, the snapshots of 10,000 tenants take 30 MB. */
  readonly byTenant: ReadonlyMap<string, string>
  readonly from: PartitionOffsets
  /**
   * Tenants whose snapshot here is too large for the topic, each with the positions from which a
   * recovery must read its entries, as it has only an earlier snapshot.
   */
  readonly unwritten: ReadonlyMap<string, PartitionOffsets>
}

/** No snapshots: the journal is read from its beginning. */
export const NO_BASE: Base = { byTenant: new Map(), from: new Map(), unwritten: new Map() }

/** The latest snapshot of a tenant; undefined if there is none. */
export function snapshotIn (
  { byTenant }: Pick<Base, 'byTenant'>, tenant: string
): Snapshot | undefined {
  const json = byTenant.get(tenant)
  return json === undefined ? undefined : JSON.parse(json) as Snapshot
}

/**
 * Reads the snapshots from their topic. Each names the positions that all snapshots before it
 * cover, so a ledger that crashes while it writes some leaves the earlier positions valid. Of a
 * tenant the highest number counts, as a leader that was succeeded may write after its successor.
 * @throws InfrastructureError when the topic cannot be read.
 */
export async function readSnapshots (
  { reader, codec }: JournalDeps, signal: AbortSignal
): Promise<Base> {
  const byTenant = new Map<string, string>()
  const from = new Map<number, bigint>()
  await reader.read(topicName('wallet.snapshots'), async messages => {
    for (const { value } of messages) {
      if (value === null) continue
      const snapshot = await codec.decode('wallet.snapshots', value) as Snapshot
      const earlier = snapshotIn({ byTenant }, snapshot.tenant)
      if (earlier === undefined || replaces(snapshot, earlier)) {
        byTenant.set(snapshot.tenant, JSON.stringify(snapshot))
      }
      for (const [partition, offset] of snapshot.from.entries()) {
        const before = from.get(partition) ?? 0n
        if (BigInt(offset) > before) from.set(partition, BigInt(offset))
      }
    }
  }, { signal })
  return { byTenant, from, unwritten: new Map() }
}

/**
 * Only a snapshot of the whole journal, which names no positions, replaces one that covers nothing:
 * a leader that was succeeded may not have read what the journal contradicts itself with.
 */
function replaces (snapshot: Snapshot, earlier: Snapshot): boolean {
  const isEnough = !coversNothing(earlier) || coversNothing(snapshot) || snapshot.from.length === 0
  return isEnough && earlier.seq <= snapshot.seq
}

const SNAPSHOTS_PER_BATCH = 200
/** Of the open jobs and ids in a snapshot, as a message has at most a megabyte. */
const MAX_BYTES = 900_000
/** Of the ids of top-ups among them: without it, they would grow for ever. */
const MAX_POSTED_BYTES = 300_000
/** The most that one takes beside its id. */
const ITEM_BYTES = 24
/** In place of older top-ups in a snapshot. */
const LEFT_OUT: Snapshot['posted'][number] = { id: '', seq: 0, amountMicros: 0 }
/**
 * The balances of a snapshot that covers nothing. They fit no wallet, so a release that does not
 * know such snapshots compares the tenant with the whole journal as well.
 */
const NO_BALANCES: Amounts = { ...ZERO_AMOUNTS, availableMicros: -1 }
/**
 * An entry that is missing for longer is taken for lost. The takeover ships those of a stage that
 * has stopped after five minutes.
 */
const MAX_GAP_MS = 900_000
const RETAIN_NOTHING: JournalRetention = {
  seq: Number.MAX_SAFE_INTEGER, openJobs: new Set(), sinceMs: Infinity,
}

/**
 * Reads the journal since the base and writes a snapshot of every tenant with new entries. Repeats
 * one of them with the new positions, which commits all of them. Returns the next base. The
 * positions wait a while for an entry that is missing. After that, or if a journal contradicts
 * itself, its snapshot covers nothing, so that one tenant holds back no other; a recovery compares
 * it with its whole journal, and then writes a snapshot that the next rounds continue. A snapshot
 * that is too large for the topic stays in memory, and until it has become smaller, the positions
 * in the topic do not pass the entries that it covers.
 */
export async function takeSnapshots (
  deps: SnapshotDeps, base: Base, signal: AbortSignal
): Promise<Base> {
  const journals = new Map<string, JournalState>()
  const recent: Recent = new Map()
  const nowMs = deps.clock.now()
  let skipped: string | undefined
  const ends = await readJournal(deps, {
    from: base.from,
    untilMs: nowMs - deps.snapshotBehindMs,
    signal,
    trackedOf: tenant => {
      let journal = journals.get(tenant)
      if (journal === undefined) {
        const snapshot = snapshotIn(base, tenant)
        if (snapshot !== undefined && coversNothing(snapshot)) {
          skipped = base.byTenant.get(tenant)
          return undefined
        }
        journal = createJournalState(RETAIN_NOTHING, snapshot, recent)
        journals.set(tenant, journal)
      }
      return { journal, retention: RETAIN_NOTHING }
    },
  })
  const lostBeforeMs = nowMs - MAX_GAP_MS
  const { written, tooLarge } =
    await writeSnapshots(deps, journals, { from: committedFrom(base), lostBeforeMs })
  const unwritten = new Map([...base.unwritten].filter(([tenant]) => !written.has(tenant)))
  for (const tenant of tooLarge.keys()) {
    if (unwritten.has(tenant)) continue
    unwritten.set(tenant, base.from)
    deps.log.warn({ tenant, maxBytes: MAX_BYTES }, 'the snapshot of a wallet is too large for ' +
      'topic wallet.snapshots: until it has fewer open jobs, a recovery reads more of the journal')
  }
  const byTenant = new Map([...base.byTenant, ...written, ...tooLarge])
  const from = new Map(ends)
  for (const journal of journals.values()) {
    const position = firstAfterGap(journal)
    if (position === undefined || isBroken(journal, lostBeforeMs)) continue
    const { partition, offset } = position
    if (offset < (from.get(partition) ?? 0n)) from.set(partition, offset)
  }
  const next = { byTenant, from, unwritten }
  const [repeated = skipped] = written.values()
  if (repeated !== undefined) {
    await emitAll(deps, [{ ...JSON.parse(repeated) as Snapshot, from: committedFrom(next) }])
  }
  return next
}

/** The first entry after a gap in the topic: entries are read in order, but for repeated ones. */
function firstAfterGap ({ afterGap }: JournalState): Position | undefined {
  const [first] = afterGap.values()
  return first?.position
}

/** Whether a journal contradicts itself, or lacks an entry of before that time. */
function isBroken (journal: JournalState, lostBeforeMs: number): boolean {
  const position = firstAfterGap(journal)
  return journal.faults.size > 0 || (position !== undefined && position.writtenMs < lostBeforeMs)
}

/** The positions from which a recovery reads the journal, as an array by partition. */
function committedFrom ({ from, unwritten }: Base): readonly number[] {
  return [...unwritten.values()].map(toOffsets).reduce(
    (earliest, offsets) => earliest.map((offset, index) => Math.min(offset, offsets[index] ?? 0)),
    toOffsets(from))
}

/** Snapshots as JSON, by tenant. */
type WrittenSnapshots = {
  readonly written: ReadonlyMap<string, string>
  /** Not written, as the topic takes no message of their size. */
  readonly tooLarge: ReadonlyMap<string, string>
}

/**
 * Writes a snapshot of each state that has advanced since it was created, and of each that is
 * broken one that covers nothing. `from`, by partition: where the journal continues the snapshots
 * that are in the topic. `lostBeforeMs`: entries that are missing since before then are lost.
 */
export async function writeSnapshots (
  deps: SnapshotWriteDeps,
  journals: Iterable<readonly [tenant: string, journal: JournalState]>,
  { from, lostBeforeMs }: { readonly from: readonly number[], readonly lostBeforeMs: number }
): Promise<WrittenSnapshots> {
  const { broken = [], due = [], large = [] } = Object.groupBy([...journals], ([, journal]) => {
    if (isBroken(journal, lostBeforeMs)) return 'broken'
    if (journal.seq === journal.base) return 'same'
    const ids = [...journal.open.keys(), ...newestPosted(journal).map(({ id }) => id)]
    return ids.reduce((sum, id) => sum + countBytes(id), 0) > MAX_BYTES ? 'large' : 'due'
  })
  for (const [tenant, journal] of broken) {
    const faults = [...journal.faults, ...gapFaults(journal)].slice(0, 10)
    deps.log.error({ tenant, faults }, 'journal contradicts itself or lacks entries: its wallet ' +
      'may be frozen at the next restart of Redis; see the runbook on TenantsFrozen')
  }
  const written = new Map<string, string>()
  for (const batch of splitBatches([...broken, ...due], SNAPSHOTS_PER_BATCH)) {
    const snapshots = batch.map(([tenant, journal]) => isBroken(journal, lostBeforeMs)
      ? emptySnapshot(journal, { tenant, from })
      : toSnapshot(journal, { tenant, from }))
    await emitAll(deps, snapshots)
    for (const snapshot of snapshots) written.set(snapshot.tenant, JSON.stringify(snapshot))
  }
  const tooLarge = new Map(large.map(([tenant, journal]) =>
    [tenant, JSON.stringify(toSnapshot(journal, { tenant, from }))]))
  deps.metrics.count('snapshots_total', {}, written.size)
  return { written, tooLarge }
}

const countBytes = (id: string) => Buffer.byteLength(id) + ITEM_BYTES

/** The top-ups and adjustments for a snapshot: the newest, after one without an id for others. */
function newestPosted (journal: JournalState): Snapshot['posted'] {
  const posted = countedPosted(journal)
  let from = posted.length
  for (let bytes = 0; from > 0; from -= 1) {
    bytes += countBytes(posted[from - 1]?.id ?? '')
    if (bytes > MAX_POSTED_BYTES) break
  }
  return from > 0 || journal.lacksPosted ? [LEFT_OUT, ...posted.slice(from)] : posted.slice()
}

/** Whether only the journal has the older top-ups of a tenant. */
export function lacksPosted ({ posted: [oldest] }: Snapshot): boolean {
  return oldest?.id === LEFT_OUT.id
}

/** Whether only the journal has the tenant, up to the number of the snapshot. */
export function coversNothing ({ availableMicros }: Snapshot): boolean {
  return availableMicros < 0
}

/** The snapshot of a state that is broken; its number is above those of all that came before. */
function emptySnapshot (
  journal: JournalState, of: Pick<Snapshot, 'tenant' | 'from'>
): Snapshot {
  const { seq, at, afterGap } = journal
  const last = [...afterGap.keys()].reduce((highest, number) => Math.max(highest, number), seq)
  return { ...of, ...NO_BALANCES, seq: last, at, open: [], posted: [LEFT_OUT] }
}

/** The snapshot of a state. */
function toSnapshot (
  journal: JournalState, of: Pick<Snapshot, 'tenant' | 'from'>
): Snapshot {
  const { seq, at, amounts, open } = journal
  return {
    ...of,
    seq,
    at,
    ...amounts,
    open: [...open.values()].map(({ entry: _, ...reservation }) => reservation),
    posted: newestPosted(journal),
  }
}

async function emitAll (
  { emitter }: SnapshotWriteDeps, snapshots: readonly Snapshot[]
): Promise<void> {
  await emitter.emit(snapshots.map(value =>
    ({ topic: 'wallet.snapshots', lane: 'small', value, rows: undefined })))
}

/** Offsets as an array by partition. */
function toOffsets (positions: PartitionOffsets): readonly number[] {
  const partitions = Math.max(-1, ...positions.keys()) + 1
  return Array.from({ length: partitions }, (_, index) => Number(positions.get(index) ?? 0n))
}
