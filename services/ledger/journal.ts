import type { Journal } from '../../schemas/types.ts'
import type { TopicReader } from '../lib/kafka/topic-reader.ts'
import type { Codec } from '../lib/registry.ts'
import { topicName } from '../lib/topics.ts'
import { emptyFold, take, type Fold, type Interest } from './journal-fold.ts'

export type JournalParts = {
  readonly reader: TopicReader
  readonly codec: Pick<Codec, 'decode'>
}

/**
 * The journal from its beginning to the end it has now, folded by tenant. Only what is asked for is
 * remembered of it, so its length costs time and no memory.
 * @throws InfrastructureError when it cannot be read to its end.
 */
export async function readJournal (
  { reader, codec }: JournalParts,
  { interestOf, signal }: {
    readonly interestOf: (tenant: string) => Interest, readonly signal: AbortSignal
  }
): Promise<Map<string, Fold>> {
  const folds = new Map<string, Fold>()
  await reader.read(topicName('wallet.journal'), async messages => {
    for (const { value } of messages) {
      if (value === null) continue
      const entry = await codec.decode('wallet.journal', value) as Journal
      const interest = interestOf(entry.tenant)
      const fold = folds.get(entry.tenant) ?? emptyFold(interest)
      folds.set(entry.tenant, fold)
      take(fold, entry, interest)
    }
  }, { signal })
  return folds
}
