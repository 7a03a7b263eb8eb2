import { writeFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import type { Journal } from '../../../../schemas/types.ts'
import {
  checkExportedHead, createKafkaJournal, readExportedHeads,
} from '../../../../services/admin/audit/journals.ts'
import {
  canonicalText, CHAIN_START, createHeadsCodec, extendChain,
} from '../../../../services/money/journal.ts'
import type { RawMessage } from '../../../../services/runtime/kafka/bus.ts'
import type { createTopicReader } from '../../../../services/runtime/kafka/topic-reader.ts'
import { UsageError } from '../../../../services/runtime/platform/run-command.ts'
import { codec, endedJob } from '../../../support/clickhouse/results.ts'
import { messageKeysOf } from '../../../support/keys/signed.ts'
import { acceptedJob, entryOf, TENANT } from '../../../support/stage-messages.ts'
import { newFolder } from '../../../support/folder.ts'

const folder = newFolder('verification-jobs-heads-')
const keys = messageKeysOf()
const headsCodec = createHeadsCodec(keys)
const file = `${folder}/heads.ndjson`

const line = (at: number, ...tenants: readonly [tenant: string, seq: number, hash: string][]) =>
  headsCodec.encode({
    at, tenants: tenants.map(([tenant, seq, hash]) => ({ tenant, seq, hash, missing: [] })),
  })

describe('a file of exported heads', () => {
  it('is read as the greatest head of each tenant', async () => {
    writeFileSync(file, [
      line(1, ['a', 2, 'a2'], ['gone', 1, 'g1']), line(2, ['a', 5, 'a5']),
      line(3, ['a', 4, 'a4'], ['b', 1, 'b1']), '',
    ].join('\n'))
    expect(await readExportedHeads(file, keys)).toEqual(new Map([
      ['a', { seq: 5, hash: 'a5', missing: [], at: 2 }],
      ['gone', { seq: 1, hash: 'g1', missing: [], at: 1 }],
      ['b', { seq: 1, hash: 'b1', missing: [], at: 3 }],
    ]))
  })

  it('is rejected when it is missing or empty', async () => {
    writeFileSync(file, '')
    await expect(readExportedHeads(file, keys)).rejects.toThrow('contains no exported journal head')
    for (const [path, reason] of [[`${folder}/none`, 'ENOENT'], [folder, 'EISDIR']] as const) {
      const read = readExportedHeads(path, keys)
      await expect(read).rejects.toBeInstanceOf(UsageError)
      await expect(read).rejects.toThrow(`--journal-head: ${path} cannot be read: ${reason}`)
    }
  })
})

const entries = [1, 2, 3].map(seq => ({ ...entryOf(TENANT, acceptedJob()), seq }))
const texts = new Map(entries.map(entry => [entry.seq, [canonicalText(entry)]]))
const headOf = (some: typeof entries) => ({ ...some.reduce(extendChain, CHAIN_START), at: 0 })
const head = headOf(entries.slice(0, 2))
const exported = `entry 2 with hash ${head.hash} was exported at 1970-01-01T00:00:00.000Z`
const found = (...details: readonly string[]) => details.map(detail =>
  ({ job: '', rule: 'the journal contains the exported head', detail }))

describe('an exported head', () => {
  it('allows entries that were missing at the export to be missing or present', () => {
    const gapped = headOf(entries.toSpliced(1, 1))
    expect(gapped).toMatchObject({ seq: 3, missing: [[2, 2]] })
    expect(checkExportedHead(gapped, { copy: entries.toSpliced(1, 1), kafka: texts })).toEqual([])
    expect(checkExportedHead(gapped, { copy: entries.slice(0, 2), kafka: undefined }))
      .toMatchObject([{ detail: expect.stringMatching(/ClickHouse lacks entry 3$/) }])
  })

  it('is not in a journal with another entry up to its number', () => {
    const other = entries.map(entry => ({ ...entry, reason: entry.seq === 1 ? 'x' : entry.reason }))
    const { hash } = headOf(other.slice(0, 2))
    expect(checkExportedHead(head, { copy: other, kafka: texts }))
      .toEqual(found(`${exported}; the journal in ClickHouse has the hash ${hash} there`))
  })

  it('is still in a journal that has got another entry with a number since', () => {
    for (const seq of [1, 2]) {
      const more = [{ ...entries[seq - 1]!, reason: 'x' }, { ...entries[seq - 1]!, reason: 'y' }]
      for (const copy of [[...more, ...entries], [...entries, ...more]]) {
        expect(checkExportedHead(head, { copy, kafka: texts })).toEqual([])
      }
    }
  })

  it('is a breach for a tenant that no store has', () => {
    expect(checkExportedHead(head, { copy: undefined, kafka: texts }))
      .toEqual(found(`${exported}; neither Redis nor the copy has the tenant`))
  })
})

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

const settings = { KAFKA_BROKERS: ['broker:9092'], ...keys }
const journal = createKafkaJournal(settings, codec, createReader)

it('the journal in Kafka is read by tenant, with both of two entries', async () => {
  batches = [
    [await message(entry('org_a.live', 1)), { value: null }, await message(entry('org_b.live', 1))],
    [await message(entry('org_a.live', 1, 'again')), await message(entry('org_a.live', 2))],
    [await message(entry('org_a.live', 1))],
  ]
  const found = await journal.texts(new Set(['org_a.live', 'org_b.live']))
  expect((await journal.texts(new Set(['org_b.live']))).size).toBe(1)
  expect(found).toEqual(new Map([
    ['org_a.live', new Map([
      [1, [entry('org_a.live', 1), entry('org_a.live', 1, 'again')].map(canonicalText)],
      [2, [canonicalText(entry('org_a.live', 2))]],
    ])],
    ['org_b.live', new Map([[1, [canonicalText(entry('org_b.live', 1))]]])],
  ]))
  expect(opened[0]).toEqual([
    { brokers: ['broker:9092'], clientId: 'audit', mac: expect.anything() }, 'wallet.journal', {},
  ])
})

it('Kafka contains a span when it has its entries and no others, in any order', async () => {
  const tenants = ['same', 'twice', 'early', 'longer', 'other', 'short', 'disordered', 'known']
  const headAt = (tenant: string, seq: number) => Array.from({ length: seq }, (_, index) =>
    entry(tenant, index + 1)).reduce(extendChain, CHAIN_START)
  const spans = new Map(tenants.map(tenant =>
    [tenant, { from: headAt(tenant, 1), head: headAt(tenant, 3) }]))
  spans.set('known', { from: headAt('known', 1), head: headAt('known', 1) })
  const entries = [
    ...['same', 'twice', 'early', 'longer', 'other', 'short', 'disordered']
      .map(tenant => entry(tenant, 1)),
    entry('same', 2), entry('same', 2), entry('same', 3), entry('same', 2),
    entry('twice', 2), entry('twice', 3), entry('twice', 2, 'again'),
    entry('early', 3), entry('early', 3, 'again'), entry('early', 2),
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
