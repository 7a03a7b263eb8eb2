import { describe, expect, it } from 'vitest'
import type { Journal } from '../../../schemas/types.ts'
import { beginFold, take } from '../../../services/ledger/journal-fold.ts'
import { missingEntry } from '../../../services/ledger/missing.ts'
import { NOTHING, post, type Amounts } from '../../../services/money/arithmetic.ts'

type Move = readonly [type: string, job: string, amountMicros: number, chargeMicros: number]

const FUNDED: Move = ['topup', '', 100, 0]
const RESERVED: Move = ['reserve', 'job_1', 30, 0]
const LAST: Move = ['adjust', '', 1, 0]

/** What is told of a journal of these movements when those at these places are nowhere. */
function told (moves: readonly Move[], ...lost: readonly number[]) {
  const interest = { seq: 0, openJobs: new Set<string>(), sinceMs: 0 }
  const fold = beginFold(interest)
  let amounts: Amounts = NOTHING
  for (const [index, [type, job, amountMicros, chargeMicros]] of moves.entries()) {
    amounts = post(amounts, { type, amountMicros, chargeMicros })
    const seq = index + 1
    const movement = { type, job, amountMicros, chargeMicros, ...amounts }
    const rest = { tenant: 'a', seq, entryId: `${seq}`, at: 10 * seq, reason: '', header: null }
    const entry: Journal = { ...movement, ...rest }
    if (!lost.includes(seq)) take(fold, entry, interest)
  }
  return missingEntry(fold)
}

describe('an entry that a journal lacks', () => {
  it.each([['topup', 50], ['adjust', -20]] as const)('is told when it is a %s', (type, micros) => {
    expect(told([FUNDED, [type, '', micros, 0], RESERVED], 2)).toEqual({
      tenant: 'a',
      seq: 2,
      entryId: 'missing:2',
      type: 'adjust',
      job: '',
      amountMicros: micros,
      chargeMicros: 0,
      availableMicros: 100 + micros,
      reservedMicros: 0,
      chargedMicros: 0,
      fundedMicros: 100 + micros,
      at: 30,
      reason: 'told from entry 3: the entry itself is nowhere',
      header: null,
    })
  })

  it('is told when it ends the only job that had reserved so much', () => {
    const moves: readonly Move[] = [FUNDED, RESERVED, ['reserve', 'job_2', 20, 0]]
    expect(told([...moves, ['settle', 'job_1', 30, 12], LAST], 4)).toMatchObject({
      entryId: 'job_1:settle',
      type: 'settle',
      job: 'job_1',
      amountMicros: 30,
      chargeMicros: 12,
      availableMicros: 68,
      reservedMicros: 20,
      chargedMicros: 12,
      fundedMicros: 100,
    })
  })

  const settled: Move = ['settle', 'job_1', 30, 12]
  it.each<readonly [string, readonly Move[], readonly number[]]>([
    ['nothing is missing', [FUNDED, RESERVED], []],
    ['nothing came behind it', [FUNDED, RESERVED], [2]],
    ['there are two', [FUNDED, LAST, LAST, RESERVED], [2, 3]],
    ['it is a reservation', [FUNDED, RESERVED, LAST], [2]],
    ['it could be the end of either of two jobs',
      [FUNDED, RESERVED, ['reserve', 'job_2', 30, 0], settled, LAST], [4]],
    ['it moved nothing', [FUNDED, ['reserve', 'job_1', 0, 0], LAST], [2]],
  ])('is not told when %s', (_, moves, lost) => {
    expect(told(moves, ...lost)).toBe(undefined)
  })
})
