import { expect, it } from 'vitest'
import type { Journal } from '../../../schemas/types.ts'
import { emptyFold, take, type Interest } from '../../../services/ledger/journal-fold.ts'
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

it.each<[string, Interest, readonly string[]]>([
  ['that Redis has not heard of', { seq: 2, openJobs: new Set() }, ['b', 'c']],
  ['whose end Redis has not heard of', { seq: 3, openJobs: new Set() }, ['b', 'c']],
  ['that Redis takes for open', { seq: 6, openJobs: new Set(['a']) }, ['a']],
  ['but none that Redis has closed', { seq: 6, openJobs: new Set() }, []],
])('of ended jobs those are remembered %s', (_, interest, remembered) => {
  const fold = emptyFold(interest)
  for (const entry of entries) take(fold, entry, interest)
  expect([fold.faults, [...fold.ended.keys()], fold.open.size]).toEqual([[], remembered, 0])
  expect([...fold.missed.keys()]).toEqual(['a', 'b', 'c'].filter((_, index) =>
    2 * index + 1 > interest.seq))
})
