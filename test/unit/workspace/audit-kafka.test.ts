import { expect, it } from 'vitest'
import type { Journal } from '../../../schemas/types.ts'
import type { RawMessage } from '../../../services/lib/bus.ts'
import type { createTopicReader } from '../../../services/lib/kafka/topic-reader.ts'
import { canonicalText } from '../../../services/records/journal-chain.ts'
import { readKafkaJournal } from '../../../services/workspace/audit-kafka.ts'
import { codec, endedJob } from '../../support/results.ts'
import { messageKeysOf } from '../../support/signed.ts'
import { entryOf } from '../../support/stage-doubles.ts'

const opened: unknown[] = []
let batches: readonly { value: Buffer | null }[][] = []
const createReader: typeof createTopicReader = options => ({
  read: async (topic, onMessages) => {
    opened.push([options, topic])
    for (const batch of batches) await onMessages(batch as unknown as readonly RawMessage[])
  },
})

const entry = (tenant: string, seq: number, reason = ''): Journal =>
  ({ ...entryOf(tenant, endedJob()), seq, reason })
const message = async (value: Journal) =>
  ({ value: await codec.encode('wallet.journal-value', value) })

it('the journal in Kafka is told by tenant, and the first of two entries counts', async () => {
  batches = [
    [await message(entry('org_a.live', 1)), { value: null }, await message(entry('org_b.live', 1))],
    [await message(entry('org_a.live', 1, 'again')), await message(entry('org_a.live', 2))],
  ]
  const settings = { KAFKA_BROKERS: ['broker:9092'], ...messageKeysOf() }
  const found = await readKafkaJournal(settings, codec, createReader)
  expect(found).toEqual(new Map([
    ['org_a.live', new Map([
      [1, canonicalText(entry('org_a.live', 1))], [2, canonicalText(entry('org_a.live', 2))],
    ])],
    ['org_b.live', new Map([[1, canonicalText(entry('org_b.live', 1))]])],
  ]))
  expect(opened).toEqual([[
    { brokers: ['broker:9092'], clientId: 'audit', mac: expect.anything() }, 'wallet.journal',
  ]])
})
