import type { Journal } from '../../schemas/types.ts'
import type { ReadLimits, PartitionOffsets, TopicReader } from '../kafka/topic-reader.ts'
import type { Codec } from '../kafka/registry.ts'
import { topicName } from '../platform/topics.ts'
import { applyEntry, type JournalState, type JournalRetention } from './journal-state.ts'

export type JournalDeps = {
  readonly reader: TopicReader
  readonly codec: Pick<Codec, 'decode'>
}

/** The state of a tenant's journal, and what it must retain. */
export type TrackedJournal = {
  readonly journal: JournalState
  readonly retention: JournalRetention
}

export type JournalReading = ReadLimits & {
  /** Called before entries of these tenants are applied. */
  readonly onTenants: (tenants: ReadonlySet<string>) => Promise<void>
  /** Entries of a tenant that is not tracked are skipped. */
  readonly trackedOf: (tenant: string) => TrackedJournal | undefined
  /** Called after entries of these tenants were applied; may remove ended jobs from memory. */
  readonly onApplied?: (tenants: ReadonlySet<string>) => Promise<void>
  readonly signal: AbortSignal
}

type Position = { readonly partition: number, readonly offset: bigint }

/**
 * Reads the journal, or a part of it, to its current end, and applies the entries to the state of
 * their tenants. Memory does not grow with its length. Returns the positions to continue from: the
 * first entry after a gap, or else the end.
 * @throws InfrastructureError when it cannot be read to its end.
 */
export async function readJournal (
  { reader, codec }: JournalDeps,
  { onTenants, trackedOf, onApplied, signal, ...limits }: JournalReading
): Promise<PartitionOffsets> {
  const gaps = new Map<string, Position>()
  const ends = await reader.read(topicName('wallet.journal'), async messages => {
    const entries: (Position & { readonly entry: Journal })[] = []
    for (const { value, partition, offset } of messages) {
      if (value === null) continue
      const entry = await codec.decode('wallet.journal', value) as Journal
      entries.push({ entry, partition, offset })
    }
    const tenants = new Set(entries.map(({ entry: { tenant } }) => tenant))
    await onTenants(tenants)
    for (const { entry, ...position } of entries) {
      const tracked = trackedOf(entry.tenant)
      if (tracked === undefined) continue
      applyEntry(tracked.journal, entry, tracked.retention)
      if (tracked.journal.afterGap.size === 0) gaps.delete(entry.tenant)
      else if (!gaps.has(entry.tenant)) gaps.set(entry.tenant, position)
    }
    await onApplied?.(tenants)
  }, { ...limits, signal })
  const positions = new Map(ends)
  for (const { partition, offset } of gaps.values()) {
    if (offset < (positions.get(partition) ?? 0n)) positions.set(partition, offset)
  }
  return positions
}
