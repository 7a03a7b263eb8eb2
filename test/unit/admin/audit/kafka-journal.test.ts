import { expect, it } from 'vitest'
import type { Journal } from '../../../../schemas/types.ts'
import type { RawMessage } from '../../../../services/runtime/kafka/bus.ts'
import type { createTopicReader } from '../../../../services/runtime/kafka/topic-reader.ts'
import {
  canonicalText, CHAIN_START, extendChain,
} from '../../../../services/money/journal-chain.ts'
import { createKafkaJournal } from '../../../../services/admin/audit/journals.ts'
import { codec, endedJob } from '../../../support/clickhouse/results.ts'
import { messageKeysOf } from '../../../support/keys/signed.ts'
import { entryOf } from '../../../support/stage-doubles.ts'

const opened: unknown[] = []
let batches: readonly { value: Buffer | null }[][] = []
const createReader: typeof createTopicReader = options => ({
  read: async (topic, onMessages, limits) => {
    opened.push([options, topic, limits])
    for (const batch of batches) await onMessages(batch as unknown as readonly RawMessage[])
    return new Map()
  },
})

const entry = (tenant: string, seq: number, reason = ''): Journal =>
  ({ ...entryOf(tenant, endedJob()), seq, reason })
const message = async (value: Journal) =>
  ({ value: await codec.encode('wallet.journal-value', value) })

const settings = { KAFKA_BROKERS: ['broker:9092'], ...messageKeysOf() }
const journal = createKafkaJournal(settings, codec, createReader)

it('the journal in Kafka is read by tenant, and the first of two entries counts', async () => {
  batches = [
    [await message(entry('org_a.live', 1)), { value: null }, await message(entry('org_b.live', 1))],
    [await message(entry('org_a.live', 1, 'again')), await message(entry('org_a.live', 2))],
  ]
  const found = await journal.texts(new Set(['org_a.live', 'org_b.live']))
  expect((await journal.texts(new Set(['org_b.live']))).size).toBe(1)
  expect(found).toEqual(new Map([
    ['org_a.live', new Map([
      [1, canonicalText(entry('org_a.live', 1))], [2, canonicalText(entry('org_a.live', 2))],
    ])],
    ['org_b.live', new Map([[1, canonicalText(entry('org_b.live', 1))]])],
  ]))
  expect(opened[0]).toEqual([
    { brokers: ['broker:9092'], clientId: 'audit', mac: expect.anything() }, 'wallet.journal', {},
  ])
})

it('Kafka contains a span when it has all its entries, in any order', async () => {
  const tenants = ['same', 'longer', 'other', 'short', 'disordered', 'known']
  const headAt = (tenant: string, seq: number) => Array.from({ length: seq }, (_, index) =>
    entry(tenant, index + 1)).reduce(extendChain, CHAIN_START)
  const spans = new Map(tenants.map(tenant =>
    [tenant, { from: headAt(tenant, 1), head: headAt(tenant, 3) }]))
  spans.set('known', { from: headAt('known', 1), head: headAt('known', 1) })
  const entries = [
    ...['same', 'longer', 'other', 'short', 'disordered'].map(tenant => entry(tenant, 1)),
    entry('same', 2), entry('same', 2, 'again'), entry('same', 3),
    entry('longer', 2), entry('longer', 3), entry('longer', 4), entry('unknown', 1),
    entry('other', 2, 'another'), entry('other', 3),
    entry('short', 2),
    entry('disordered', 3), entry('disordered', 2),
  ]
  batches = [await Promise.all(entries.map(message)), [{ value: null }]]
  opened.length = 0
  expect(await journal.containing(spans, 7)).toEqual(new Set([
    'same', 'longer', 'disordered', 'known',
  ]))
  expect(opened).toMatchObject([[{}, 'wallet.journal', { sinceMs: 7 }]])
  for (const tenant of tenants.slice(0, -1)) spans.delete(tenant)
  expect(await journal.containing(spans, Infinity)).toEqual(new Set(['known']))
  expect(opened).toHaveLength(1)
})
