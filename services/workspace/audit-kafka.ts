import type { Journal } from '../../schemas/types.ts'
import { kafkaConnectionOf, type KafkaSettings } from '../lib/kafka/connection.ts'
import { createTopicReader } from '../lib/kafka/topic-reader.ts'
import type { MessageKeySettings } from '../lib/mac.ts'
import { createMessageMac } from '../lib/message-mac.ts'
import type { Codec } from '../lib/registry.ts'
import { topicName } from '../lib/topics.ts'
import { canonicalText } from '../records/journal-chain.ts'
import type { JournalTexts } from './audit-journal.ts'

/** The journal as Kafka has it, by tenant; of two entries with one number the first one counts. */
export async function readKafkaJournal (
  settings: KafkaSettings & MessageKeySettings, codec: Pick<Codec, 'decode'>,
  createReader = createTopicReader
): Promise<ReadonlyMap<string, JournalTexts>> {
  const tenants = new Map<string, Map<number, string>>()
  const reader = createReader({
    ...kafkaConnectionOf(settings), clientId: 'audit', mac: createMessageMac(settings),
  })
  await reader.read(topicName('wallet.journal'), async messages => {
    for (const { value } of messages) {
      if (value === null) continue
      const entry = await codec.decode('wallet.journal', value) as Journal
      const known = tenants.get(entry.tenant) ?? new Map<number, string>()
      tenants.set(entry.tenant, known)
      if (!known.has(entry.seq)) known.set(entry.seq, canonicalText(entry))
    }
  })
  return tenants
}
