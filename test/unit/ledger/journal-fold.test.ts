import { describe, expect, it } from 'vitest'
import type { Journal } from '../../../schemas/types.ts'
import {
  beginFold, snapshotOf, take, type Interest,
} from '../../../services/ledger/journal-fold.ts'
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

const NONE: Interest = { seq: 6, openJobs: new Set(), sinceMs: 0 }

it.each<[string, Interest, readonly string[]]>([
  ['that Redis has not heard of', { ...NONE, seq: 2 }, ['b', 'c']],
  ['whose end Redis has not heard of', { ...NONE, seq: 3 }, ['b', 'c']],
  ['of the last day', { ...NONE, seq: 0, sinceMs: 20 }, ['b', 'c']],
  ['older ones that Redis takes for open',
    { seq: 0, openJobs: new Set(['a']), sinceMs: 30 }, ['a', 'c']],
  ['none that Redis knows', { ...NONE, openJobs: new Set(['a']) }, []],
])('of ended jobs those are remembered %s', (_, interest, remembered) => {
  const fold = beginFold(interest)
  for (const entry of entries) take(fold, entry, interest)
  expect([fold.faults, [...fold.ended.keys()], fold.open.size]).toEqual([[], remembered, 0])
  expect([...fold.endedOpen]).toEqual([...interest.openJobs])
})

describe('a fold that begins with a snapshot', () => {
  const snapshotAfter = (seq: number) => {
    const fold = beginFold(NONE)
    for (const entry of entries.slice(0, seq)) take(fold, entry, NONE)
    return snapshotOf(fold, { tenant: TENANT, from: [7] })
  }

  it('goes on where it ended, whatever comes before that once more', () => {
    for (let seq = 0; seq <= entries.length; seq += 1) {
      const fold = beginFold(NONE, snapshotAfter(seq))
      for (const entry of entries.slice(Math.max(0, seq - 2))) take(fold, entry, NONE)
      expect([fold.seq, fold.at, fold.faults, fold.open.size, fold.held.size])
        .toEqual([6, 30, [], 0, 0])
      expect(snapshotOf(fold, { tenant: TENANT, from: [7] })).toEqual(snapshotAfter(6))
    }
  })

  it('recalls jobs that Redis lacks from entries before it, in whatever order', () => {
    const lost: Interest = { ...NONE, seq: 0 }
    const fold = beginFold(lost, snapshotAfter(5))
    expect([...fold.open.values()]).toEqual([{ job: 'c', seq: 5, at: 30, amountMicros: 0 }])
    for (const entry of [3, 2, 4, 5, 3].map(seq => entries[seq - 1]!)) take(fold, entry, lost)
    expect([...fold.ended].map(([job, { reserve, end }]) => [job, reserve?.seq, end.seq]))
      .toEqual([['b', 3, 4]])
    expect(fold.open.get('c')?.entry?.seq).toBe(5)
    expect([fold.seq, fold.faults]).toEqual([5, []])
  })
})
