import type { Snapshot } from '../../schemas/types.ts'
import type { Clock } from '../platform/clock.ts'
import type { Emitter } from '../engine/emit.ts'
import type { Positions } from '../kafka/topic-reader.ts'
import type { Log } from '../platform/log.ts'
import type { Metrics } from '../platform/metrics.ts'
import { topicName } from '../platform/topics.ts'
import { readJournal, type JournalDeps } from './journal.ts'
import { beginFold, snapshotOf, type Fold, type Interest, type Recent } from './journal-fold.ts'

export type WritingDeps = {
  readonly emitter: Pick<Emitter, 'emit'>
  readonly log: Pick<Log, 'error'>
  readonly metrics: Pick<Metrics, 'count'>
}

export type SnapshotDeps = JournalDeps & WritingDeps & {
  readonly clock: Clock
  /** Entries younger than this are not included, as a Redis that has just lost some lacks them. */
  readonly snapshotBehindMs: number
}

/** The newest snapshot of each tenant, and where the entries begin that none of them includes. */
export type Base = {
  readonly byTenant: ReadonlyMap<string, Snapshot>
  readonly from: Positions
}

/** What there is to begin with where no snapshot is, or none is believed: all entries. */
export const NO_BASE: Base = { byTenant: new Map(), from: new Map() }

/**
 * The snapshots that the topic has. Each names the positions up to which all those before it go, so
 * a ledger that dies while it writes some leaves the earlier positions in force.
 * @throws InfrastructureError when the topic cannot be read.
 */
export async function readSnapshots (
  { reader, codec }: JournalDeps, signal: AbortSignal
): Promise<Base> {
  const byTenant = new Map<string, Snapshot>()
  const from = new Map<number, bigint>()
  await reader.read(topicName('wallet.snapshots'), async messages => {
    for (const { value } of messages) {
      if (value === null) continue
      const snapshot = await codec.decode('wallet.snapshots', value) as Snapshot
      const known = byTenant.get(snapshot.tenant)
      if (known === undefined || known.seq < snapshot.seq) byTenant.set(snapshot.tenant, snapshot)
      for (const [partition, offset] of snapshot.from.entries()) {
        const before = from.get(partition) ?? 0n
        if (BigInt(offset) > before) from.set(partition, BigInt(offset))
      }
    }
  }, { signal })
  return { byTenant, from }
}

const WRITTEN_AT_ONCE = 200
/** A message to the brokers has at most a megabyte. */
const MAX_PARTS = 8_000
const NO_INTEREST: Interest = {
  seq: Number.MAX_SAFE_INTEGER, openJobs: new Set(), sinceMs: Infinity,
}

/**
 * Reads what came to the journal since the base, and writes a snapshot of every tenant that has
 * entries in it, and one of them once more at the end: that all are there is told by the positions
 * it names. Returns the base of the next time. A journal that cannot be right gets none, so that
 * whoever recovers its tenant reads all of it.
 */
export async function takeSnapshots (
  deps: SnapshotDeps, base: Base, signal: AbortSignal
): Promise<Base> {
  const folds = new Map<string, Fold>()
  const recent: Recent = new Map()
  const from = await readJournal(deps, {
    from: base.from,
    untilMs: deps.clock.now() - deps.snapshotBehindMs,
    signal,
    meet: async tenants => {
      for (const tenant of tenants) {
        if (folds.has(tenant)) continue
        folds.set(tenant, beginFold(NO_INTEREST, base.byTenant.get(tenant), recent))
      }
    },
    followedOf: tenant => {
      const fold = folds.get(tenant)
      return fold && { fold, interest: NO_INTEREST }
    },
  })
  const snapshots = await writeSnapshots(deps, folds, base.from)
  const last = snapshots.at(-1)
  if (last === undefined) return { byTenant: base.byTenant, from }
  await emitAll(deps, [{ ...last, from: offsetsOf(from) }])
  const written = snapshots.map(snapshot => [snapshot.tenant, snapshot] as const)
  return { byTenant: new Map([...base.byTenant, ...written]), from }
}

/** Writes a snapshot of each fold that has got further than the one it began with. */
export async function writeSnapshots (
  deps: WritingDeps, folds: Iterable<readonly [tenant: string, fold: Fold]>, from: Positions
): Promise<readonly Snapshot[]> {
  const snapshots = [...folds].filter(one => isWorthy(deps, one))
    .map(([tenant, fold]) => snapshotOf(fold, { tenant, from: offsetsOf(from) }))
  for (let at = 0; at < snapshots.length; at += WRITTEN_AT_ONCE) {
    await emitAll(deps, snapshots.slice(at, at + WRITTEN_AT_ONCE))
  }
  deps.metrics.count('snapshots_total', {}, snapshots.length)
  return snapshots
}

async function emitAll (
  { emitter }: WritingDeps, snapshots: readonly Snapshot[]
): Promise<void> {
  await emitter.emit(snapshots.map(value =>
    ({ topic: 'wallet.snapshots', lane: 'small', value, rows: undefined })))
}

function isWorthy (
  { log }: WritingDeps, [tenant, { base, seq, faults, open, posted }]: readonly [string, Fold]
): boolean {
  if (faults.length > 0) {
    log.error({ tenant, faults: faults.slice(0, 10) },
      'a journal contradicts itself: its tenant will be frozen at the next restart of Redis; ' +
      'see the runbook on TenantsFrozen')
    return false
  }
  return seq > base && open.size + posted.size <= MAX_PARTS
}

/** An array by partition. */
function offsetsOf (positions: Positions): readonly number[] {
  const partitions = Math.max(-1, ...positions.keys()) + 1
  return Array.from({ length: partitions }, (_, index) => Number(positions.get(index) ?? 0n))
}
