import { describe, expect, it } from 'vitest'
import type { Journal } from '../../../schemas/types.ts'
import {
  createJournalState, snapshotOf, applyEntry, type JournalRetention,
} from '../../../services/ledger/journal-state.ts'
import { endedJob } from '../../support/results.ts'
import { entryOf, TENANT } from '../../support/stage-doubles.ts'

/** A job that reserved nothing at a moment of its own, and its end; two entries each. */
const jobAt = (job: string, firstSeq: number, at: number): readonly Journal[] => {
  const free = { amountMicros: 0, reservedMicros: 0, fundedMicros: 0, job, at }
  const entry = { ...entryOf(TENANT, endedJob()), ...free }
  return [
    { ...entry, seq: firstSeq, entryId: `${job}:reserve` },
    { ...entry, seq: firstSeq + 1, type: 'settle', entryId: `${job}:settle` },
  ]
}
const entries = [...jobAt('a', 1, 10), ...jobAt('b', 3, 20), ...jobAt('c', 5, 30)]

const NONE: JournalRetention = { seq: 6, openJobs: new Set(), sinceMs: 0 }

it.each<[string, JournalRetention, readonly string[]]>([
  ['that Redis has not heard of', { ...NONE, seq: 2 }, ['b', 'c']],
  ['whose end Redis has not heard of', { ...NONE, seq: 3 }, ['b', 'c']],
  ['of the last day', { ...NONE, seq: 0, sinceMs: 20 }, ['b', 'c']],
  ['older ones that Redis takes for open',
    { seq: 0, openJobs: new Set(['a']), sinceMs: 30 }, ['a', 'c']],
  ['none that Redis knows', { ...NONE, openJobs: new Set(['a']) }, []],
])('of ended jobs those are remembered %s', (_, retention, remembered) => {
  const journal = createJournalState(retention)
  for (const entry of entries) applyEntry(journal, entry, retention)
  expect([journal.faults, [...journal.ended.keys()], journal.open.size])
    .toEqual([[], remembered, 0])
  expect([...journal.endedOpen]).toEqual([...retention.openJobs])
})

describe('a journal that begins with a snapshot', () => {
  const snapshotAfter = (seq: number) => {
    const journal = createJournalState(NONE)
    for (const entry of entries.slice(0, seq)) applyEntry(journal, entry, NONE)
    return snapshotOf(journal, { tenant: TENANT, from: [7] })
  }

  it('continues where it ended, whatever is repeated before that', () => {
    for (let seq = 0; seq <= entries.length; seq += 1) {
      const journal = createJournalState(NONE, snapshotAfter(seq))
      for (const entry of entries.slice(Math.max(0, seq - 2))) applyEntry(journal, entry, NONE)
      expect([journal.seq, journal.at, journal.faults, journal.open.size, journal.afterGap.size])
        .toEqual([6, 30, [], 0, 0])
      expect(snapshotOf(journal, { tenant: TENANT, from: [7] })).toEqual(snapshotAfter(6))
    }
  })

  it('recalls jobs that Redis lacks from entries before it, in whatever order', () => {
    const lost: JournalRetention = { ...NONE, seq: 0 }
    const journal = createJournalState(lost, snapshotAfter(5))
    expect([...journal.open.values()]).toEqual([{ job: 'c', seq: 5, at: 30, amountMicros: 0 }])
    for (const seq of [3, 2, 4, 5, 3]) applyEntry(journal, entries[seq - 1]!, lost)
    expect([...journal.ended].map(([job, { reserve, end }]) => [job, reserve?.seq, end.seq]))
      .toEqual([['b', 3, 4]])
    expect(journal.open.get('c')?.entry?.seq).toBe(5)
    expect([journal.seq, journal.faults]).toEqual([5, []])
  })
})
