import type { Snapshot } from '../../schemas/types.ts'
import { batchesOf } from '../runtime/platform/batch-writes.ts'
import type { Clock } from '../runtime/platform/clock.ts'
import type { Emitter } from '../runtime/engine/emit.ts'
import type { PartitionOffsets } from '../runtime/kafka/topic-reader.ts'
import type { Log } from '../runtime/platform/log.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import { topicName } from '../runtime/platform/topics.ts'
import {
  readJournal, type JournalDeps, createJournalState, snapshotOf, type JournalState, type Recent,
  type JournalRetention,
} from './journal-state.ts'

export type SnapshotWriteDeps = {
  readonly emitter: Pick<Emitter, 'emit'>
  readonly log: Pick<Log, 'error' | 'warn'>
  readonly metrics: Pick<Metrics, 'count'>
}

export type WalletSnapshotDeps = JournalDeps & SnapshotWriteDeps & {
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
 * cover, so a ledger that crashes while it writes some leaves the earlier positions valid.
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
      if (earlier === undefined || earlier.seq < snapshot.seq) {
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

const SNAPSHOTS_PER_BATCH = 200
/** Of the open jobs and ids in a snapshot, as a message has at most a megabyte. */
const MAX_BYTES = 900_000
/** The most that one takes beside its id. */
const ITEM_BYTES = 24
const RETAIN_NOTHING: JournalRetention = {
  seq: Number.MAX_SAFE_INTEGER, openJobs: new Set(), sinceMs: Infinity,
}

/**
 * Reads the journal since the base and writes a snapshot of every tenant with new entries. Repeats
 * one of them with the new positions, which commits all of them. Returns the next base. A
 * journal that contradicts itself gets no snapshot, so that a recovery reads all of it. A snapshot
 * that is too large for the topic stays in memory, and until it has become smaller, the positions
 * in the topic do not pass the entries that it covers.
 */
export async function takeSnapshots (
  deps: WalletSnapshotDeps, base: Base, signal: AbortSignal
): Promise<Base> {
  const journals = new Map<string, JournalState>()
  const recent: Recent = new Map()
  const from = await readJournal(deps, {
    from: base.from,
    untilMs: deps.clock.now() - deps.snapshotBehindMs,
    signal,
    onTenants: async tenants => {
      for (const tenant of tenants) {
        if (journals.has(tenant)) continue
        journals.set(tenant, createJournalState(RETAIN_NOTHING, snapshotIn(base, tenant), recent))
      }
    },
    trackedOf: tenant => {
      const journal = journals.get(tenant)
      return journal && { journal, retention: RETAIN_NOTHING }
    },
  })
  const { written, tooLarge } = await writeSnapshots(deps, journals, committedFrom(base))
  const unwritten = new Map([...base.unwritten].filter(([tenant]) => !written.has(tenant)))
  for (const tenant of tooLarge.keys()) {
    if (unwritten.has(tenant)) continue
    unwritten.set(tenant, base.from)
    deps.log.warn({ tenant, maxBytes: MAX_BYTES }, 'the snapshot of a wallet is too large for ' +
      'topic wallet.snapshots: until it has fewer open jobs, a recovery reads more of the journal')
  }
  const byTenant = new Map([...base.byTenant, ...written, ...tooLarge])
  const next = { byTenant, from, unwritten }
  const [repeated] = written.values()
  if (repeated !== undefined) {
    await emitAll(deps, [{ ...JSON.parse(repeated) as Snapshot, from: committedFrom(next) }])
  }
  return next
}

/** The positions from which a recovery reads the journal, as an array by partition. */
function committedFrom ({ from, unwritten }: Base): readonly number[] {
  return [...unwritten.values()].map(offsetsOf).reduce(
    (earliest, offsets) => earliest.map((offset, index) => Math.min(offset, offsets[index] ?? 0)),
    offsetsOf(from))
}

/** Snapshots as JSON, by tenant. */
type WrittenSnapshots = {
  readonly written: ReadonlyMap<string, string>
  /** Not written, as the topic takes no message of their size. */
  readonly tooLarge: ReadonlyMap<string, string>
}

/**
 * Writes a snapshot of each state that has advanced since it was created. `from`, by partition:
 * where the journal continues the snapshots that are in the topic.
 */
export async function writeSnapshots (
  deps: SnapshotWriteDeps,
  journals: Iterable<readonly [tenant: string, journal: JournalState]>,
  from: readonly number[]
): Promise<WrittenSnapshots> {
  const advanced = [...journals].filter(pair => hasAdvanced(deps, pair))
  const { due = [], large = [] } = Object.groupBy(advanced, ([, { open, posted }]) => {
    const ids = [...open.keys(), ...posted.map(({ id }) => id)]
    const bytes = ids.reduce((sum, id) => sum + Buffer.byteLength(id) + ITEM_BYTES, 0)
    return bytes > MAX_BYTES ? 'large' : 'due'
  })
  const written = new Map<string, string>()
  for (const batch of batchesOf(due, SNAPSHOTS_PER_BATCH)) {
    const snapshots = batch.map(([tenant, journal]) => snapshotOf(journal, { tenant, from }))
    await emitAll(deps, snapshots)
    for (const snapshot of snapshots) written.set(snapshot.tenant, JSON.stringify(snapshot))
  }
  deps.metrics.count('snapshots_total', {}, written.size)
  const tooLarge = new Map(large.map(([tenant, journal]) =>
    [tenant, JSON.stringify(snapshotOf(journal, { tenant, from }))]))
  return { written, tooLarge }
}

async function emitAll (
  { emitter }: SnapshotWriteDeps, snapshots: readonly Snapshot[]
): Promise<void> {
  await emitter.emit(snapshots.map(value =>
    ({ topic: 'wallet.snapshots', lane: 'small', value, rows: undefined })))
}

function hasAdvanced (
  { log }: SnapshotWriteDeps,
  [tenant, { base, seq, faults }]: readonly [string, JournalState]
): boolean {
  if (faults.length > 0) {
    log.error({ tenant, faults: faults.slice(0, 10) },
      'journal contradicts itself: its wallet will be frozen at the next restart of Redis; ' +
      'see the runbook on TenantsFrozen')
    return false
  }
  return seq > base
}

/** Offsets as an array by partition. */
function offsetsOf (positions: PartitionOffsets): readonly number[] {
  const partitions = Math.max(-1, ...positions.keys()) + 1
  return Array.from({ length: partitions }, (_, index) => Number(positions.get(index) ?? 0n))
}
