import { describe, expect, it } from 'vitest'
import type { Journal } from '../../../schemas/types.ts'
import { canonicalText } from '../../../services/records/journal-chain.ts'
import {
  checkKafka, checkMovements, checkNumbers, missingFrom,
} from '../../../services/workspace/audit-journal.ts'
import { acceptedJob, entryOf, JOB, TENANT } from '../../support/stage-doubles.ts'

const entry = (seq: number, change: Partial<Journal> = {}): Journal =>
  ({ ...entryOf(TENANT, acceptedJob()), seq, ...change })
const entries = (...seqs: readonly number[]) => seqs.map(seq => entry(seq))
const kafkaOf = (...seqs: readonly number[]) =>
  new Map(seqs.map(seq => [seq, canonicalText(entry(seq))]))
const details = (found: readonly { readonly detail: string }[]) =>
  found.map(({ detail }) => detail)

describe('missing numbers', () => {
  it('are the ranges between those that are present, up to the last', () => {
    expect(missingFrom(new Set([1, 2, 3]), 3)).toEqual([])
    expect(missingFrom(new Set(), 0)).toEqual([])
    expect(missingFrom(new Set([3, 4, 6, 9]), 8)).toEqual([[1, 2], [5, 5], [7, 8]])
  })
})

describe('every movement', () => {
  const lost = 'lost from the journal before they were copied: ' +
    'neither the outbox nor Kafka nor the copy has them'

  it('is in the copy or in the outbox', () => {
    const stored = { seq: 4, copy: entries(1, 2), outbox: entries(2, 3, 4) }
    expect(checkMovements(stored, kafkaOf(1, 2))).toEqual([])
  })

  it('that is nowhere is lost, and named with those beside it', () => {
    const stored = { seq: 6, copy: entries(1, 5), outbox: [] }
    expect(checkMovements(stored, kafkaOf(1, 5))).toEqual([
      { law: 'every movement is in the journal', job: '', detail: `entries 2 to 4 were ${lost}` },
      { law: 'every movement is in the journal', job: '', detail: `entry 6 was ${lost}` },
    ])
  })

  it('that Kafka has is not lost and has to be copied', () => {
    const stored = { seq: 4, copy: entries(1), outbox: [] }
    expect(details(checkMovements(stored, kafkaOf(1, 2, 4)))).toEqual([
      `entry 3 was ${lost}`, 'entry 2 was not copied, and in Kafka',
      'entry 4 was not copied, and in Kafka',
    ])
  })
})

describe('the numbers of the copy', () => {
  it('have one entry each, and none beyond the last movement', () => {
    const stored = { seq: 3, outbox: [], copy: entries(1, 2, 3) }
    expect(checkNumbers(stored)).toEqual([])
    const [law, job] = ['the journal is numbered 1 to n', JOB]
    const copy = [...entries(1, 2), entry(2, { reason: 'another' }), ...entries(3, 4)]
    expect(checkNumbers({ ...stored, copy })).toEqual([
      { law, job, detail: 'there are two entries with the number 2' },
      { law, job, detail: 'entry 4 is there, and Redis has 3 movements' },
    ])
  })
})

describe('the copy of the journal', () => {
  it('is what Kafka has, which may be further', () => {
    expect(checkKafka(entries(1, 2), kafkaOf(1, 2, 3))).toEqual([])
  })

  it('has entries that are missing or others in Kafka', () => {
    const kafka = new Map([[1, canonicalText(entry(1, { amountMicros: 999 }))]])
    const law = 'Kafka and the copy have the same entries'
    expect(checkKafka(entries(1, 2), kafka)).toEqual([
      { law, job: JOB, detail: 'entry 1 is another one in Kafka' },
      { law, job: JOB, detail: 'entry 2 is missing in Kafka' },
    ])
  })
})
