import type { Journal } from '../../schemas/types.ts'
import type { Limits, Positions, TopicReader } from '../kafka/topic-reader.ts'
import type { Codec } from '../kafka/registry.ts'
import { topicName } from '../platform/topics.ts'
import { take, type Fold, type Interest } from './journal-fold.ts'

export type JournalDeps = {
  readonly reader: TopicReader
  readonly codec: Pick<Codec, 'decode'>
}

/** A tenant's fold, and what is to be remembered for it. */
export type Followed = { readonly fold: Fold, readonly interest: Interest }

export type JournalReading = Limits & {
  /** Hears of tenants before their entries are taken. */
  readonly meet: (tenants: ReadonlySet<string>) => Promise<void>
  /** Entries of a tenant without a fold are left out. */
  readonly followedOf: (tenant: string) => Followed | undefined
  /** Hears whose entries were taken; what it takes out of their folds leaves the memory. */
  readonly onTaken?: (tenants: ReadonlySet<string>) => Promise<void>
  readonly signal: AbortSignal
}

type Place = { readonly partition: number, readonly offset: bigint }

/**
 * Reads the journal, or a part of it, to the end it has now, and folds it by tenant. Its length
 * costs time and no memory. Returns from where to read on, so that no entry behind a gap is missed.
 * @throws InfrastructureError when it cannot be read to its end.
 */
export async function readJournal (
  { reader, codec }: JournalDeps,
  { meet, followedOf, onTaken, signal, ...limits }: JournalReading
): Promise<Positions> {
  const gaps = new Map<string, Place>()
  const ends = await reader.read(topicName('wallet.journal'), async messages => {
    const entries: (Place & { readonly entry: Journal })[] = []
    for (const { value, partition, offset } of messages) {
      if (value === null) continue
      const entry = await codec.decode('wallet.journal', value) as Journal
      entries.push({ entry, partition, offset })
    }
    const tenants = new Set(entries.map(({ entry: { tenant } }) => tenant))
    await meet(tenants)
    for (const { entry, ...place } of entries) {
      const followed = followedOf(entry.tenant)
      if (followed === undefined) continue
      take(followed.fold, entry, followed.interest)
      if (followed.fold.held.size === 0) gaps.delete(entry.tenant)
      else if (!gaps.has(entry.tenant)) gaps.set(entry.tenant, place)
    }
    await onTaken?.(tenants)
  }, { ...limits, signal })
  const positions = new Map(ends)
  for (const { partition, offset } of gaps.values()) {
    if (offset < (positions.get(partition) ?? 0n)) positions.set(partition, offset)
  }
  return positions
}
