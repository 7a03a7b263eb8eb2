import type { Snapshot } from '../../schemas/types.ts'
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
  readonly log: Pick<Log, 'error'>
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
}

/** No snapshots: the journal is read from its beginning. */
export const NO_BASE: Base = { byTenant: new Map(), from: new Map() }

/** The latest snapshot of a tenant; undefined if there is none. */
export function snapshotIn ({ byTenant }: Base, tenant: string): Snapshot | undefined {
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
      const known = snapshotIn({ byTenant, from }, snapshot.tenant)
      if (known === undefined || known.seq < snapshot.seq) {
        byTenant.set(snapshot.tenant, JSON.stringify(snapshot))
      }
      for (const [partition, offset] of snapshot.from.entries()) {
        const before = from.get(partition) ?? 0n
        if (BigInt(offset) > before) from.set(partition, BigInt(offset))
      }
    }
  }, { signal })
  return { byTenant, from }
}

const SNAPSHOTS_PER_BATCH = 200
/** Open jobs and ids in a snapshot, as a message has at most a megabyte. */
const MAX_ITEMS = 8_000
const RETAIN_NOTHING: JournalRetention = {
  seq: Number.MAX_SAFE_INTEGER, openJobs: new Set(), sinceMs: Infinity,
}

/**
 * Reads the journal since the base and writes a snapshot of every tenant with new entries. Repeats
 * one of them with the new positions, which commits all of them. Returns the next base. A
 * journal that contradicts itself gets no snapshot, so that a recovery reads all of it.
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
  const written = await writeSnapshots(deps, journals, base.from)
  const [one] = written.values()
  if (one === undefined) return { byTenant: base.byTenant, from }
  await emitAll(deps, [{ ...JSON.parse(one) as Snapshot, from: offsetsOf(from) }])
  return { byTenant: new Map([...base.byTenant, ...written]), from }
}

/** Writes a snapshot of each state that has advanced since it was created. */
export async function writeSnapshots (
  deps: SnapshotWriteDeps,
  journals: Iterable<readonly [tenant: string, journal: JournalState]>,
  from: PartitionOffsets
): Promise<Base['byTenant']> {
  const due = [...journals].filter(one => isSnapshotDue(deps, one))
  const written = new Map<string, string>()
  for (let at = 0; at < due.length; at += SNAPSHOTS_PER_BATCH) {
    const snapshots = due.slice(at, at + SNAPSHOTS_PER_BATCH)
      .map(([tenant, journal]) => snapshotOf(journal, { tenant, from: offsetsOf(from) }))
    await emitAll(deps, snapshots)
    for (const snapshot of snapshots) written.set(snapshot.tenant, JSON.stringify(snapshot))
  }
  deps.metrics.count('snapshots_total', {}, written.size)
  return written
}

async function emitAll (
  { emitter }: SnapshotWriteDeps, snapshots: readonly Snapshot[]
): Promise<void> {
  await emitter.emit(snapshots.map(value =>
    ({ topic: 'wallet.snapshots', lane: 'small', value, rows: undefined })))
}

function isSnapshotDue (
  { log }: SnapshotWriteDeps,
  [tenant, { base, seq, faults, open, posted }]: readonly [string, JournalState]
): boolean {
  if (faults.length > 0) {
    log.error({ tenant, faults: faults.slice(0, 10) },
      'journal contradicts itself: its wallet will be frozen at the next restart of Redis; ' +
      'see the runbook on TenantsFrozen')
    return false
  }
  return seq > base && open.size + posted.length <= MAX_ITEMS
}

/** Offsets as an array by partition. */
function offsetsOf (positions: PartitionOffsets): readonly number[] {
  const partitions = Math.max(-1, ...positions.keys()) + 1
  return Array.from({ length: partitions }, (_, index) => Number(positions.get(index) ?? 0n))
}
