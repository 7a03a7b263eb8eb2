import type { Snapshot } from '../../schemas/types.ts'
import { type Amounts, ZERO_AMOUNTS } from '../money/prices.ts'
import type { Emitter } from '../runtime/engine/stage.ts'
import type { PartitionOffsets } from '../runtime/kafka/topic-reader.ts'
import { splitBatches } from '../runtime/platform/batch-writes.ts'
import type { Log } from '../runtime/platform/log.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import type { Clock } from '../runtime/platform/retry.ts'
import { topicName } from '../runtime/platform/topics.ts'
import {
  type JournalDeps, type JournalRetention, JournalState, LEFT_OUT, type Position, readJournal,
  type Recent,
} from './journal-state.ts'

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
    findJournal: tenant => {
      const tracked = journals.get(tenant)
      if (tracked !== undefined) return tracked
      const snapshot = snapshotIn(base, tenant)
      if (snapshot !== undefined && coversNothing(snapshot)) {
        skipped = base.byTenant.get(tenant)
        return undefined
      }
      const journal = new JournalState(RETAIN_NOTHING, snapshot, recent)
      journals.set(tenant, journal)
      return journal
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
    const faults = [...journal.faults, ...journal.gapFaults()].slice(0, 10)
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
  const posted = journal.countedPosted()
  let from = posted.length
  for (let bytes = 0; from > 0; from -= 1) {
    bytes += countBytes(posted[from - 1]?.id ?? '')
    if (bytes > MAX_POSTED_BYTES) break
  }
  return from > 0 || journal.lacksPosted ? [LEFT_OUT, ...posted.slice(from)] : posted.slice()
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
