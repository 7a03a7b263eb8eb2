import { describe, expect, it } from 'vitest'
import type { Journal } from '../../../../schemas/types.ts'
import { canonicalText } from '../../../../services/money/journal-chain.ts'
import {
  checkKafka, checkMovements, checkNumbers, missingRanges,
} from '../../../../services/admin/audit/checks.ts'
import { acceptedJob, entryOf, JOB, TENANT } from '../../../support/stage-doubles.ts'

const entry = (seq: number, change: Partial<Journal> = {}): Journal =>
  ({ ...entryOf(TENANT, acceptedJob()), seq, ...change })
const entries = (...seqs: readonly number[]) => seqs.map(seq => entry(seq))
const kafkaOf = (...seqs: readonly number[]) =>
  new Map(seqs.map(seq => [seq, canonicalText(entry(seq))]))
const details = (found: readonly { readonly detail: string }[]) =>
  found.map(({ detail }) => detail)

describe('missing numbers of a journal', () => {
  it('are the ranges between present numbers, up to the last', () => {
    expect(missingRanges(new Set([1, 2, 3]), 3)).toEqual([])
    expect(missingRanges(new Set(), 0)).toEqual([])
    expect(missingRanges(new Set([3, 4, 6, 9]), 8)).toEqual([[1, 2], [5, 5], [7, 8]])
  })
})

describe('the audit of movements', () => {
  const lost = 'lost from the journal before they were copied: ' +
    'neither the outbox nor Kafka nor the copy has them'

  it('finds nothing when every movement is in the copy or in the outbox', () => {
    const stored = { seq: 4, copy: entries(1, 2), outbox: entries(2, 3, 4) }
    expect(checkMovements(stored, kafkaOf(1, 2))).toEqual([])
  })

  it('reports lost movements as ranges', () => {
    const stored = { seq: 6, copy: entries(1, 5), outbox: [] }
    expect(checkMovements(stored, kafkaOf(1, 5))).toEqual([
      { rule: 'every movement is in the journal', job: '', detail: `entries 2 to 4 were ${lost}` },
      { rule: 'every movement is in the journal', job: '', detail: `entry 6 was ${lost}` },
    ])
  })

  it('reports movements in Kafka as not copied', () => {
    const stored = { seq: 4, copy: entries(1), outbox: [] }
    expect(details(checkMovements(stored, kafkaOf(1, 2, 4)))).toEqual([
      `entry 3 was ${lost}`, 'entry 2 was not copied from Kafka to ClickHouse',
      'entry 4 was not copied from Kafka to ClickHouse',
    ])
  })
})

describe('the audit of entry numbers', () => {
  it('finds duplicate numbers and numbers after the last movement', () => {
    const stored = { seq: 3, outbox: [], copy: entries(1, 2, 3) }
    expect(checkNumbers(stored)).toEqual([])
    const [rule, job] = ['the journal is numbered 1 to n', JOB]
    const copy = [...entries(1, 2), entry(2, { reason: 'another' }), ...entries(3, 4)]
    expect(checkNumbers({ ...stored, copy })).toEqual([
      { rule, job, detail: 'two entries have the number 2' },
      { rule, job, detail: 'entry 4 exists, but Redis has only 3 movements' },
    ])
  })
})

describe('the audit of the copy against Kafka', () => {
  it('finds nothing when Kafka has all entries of the copy, and more', () => {
    expect(checkKafka(entries(1, 2), kafkaOf(1, 2, 3))).toEqual([])
  })

  it('finds entries that are missing or different in Kafka', () => {
    const kafka = new Map([[1, canonicalText(entry(1, { amountMicros: 999 }))]])
    const rule = 'Kafka and the copy have the same entries'
    expect(checkKafka(entries(1, 2), kafka)).toEqual([
      { rule, job: JOB, detail: 'entry 1 is different in Kafka' },
      { rule, job: JOB, detail: 'entry 2 is missing in Kafka' },
    ])
  })
})
