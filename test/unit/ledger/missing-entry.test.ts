import { describe, expect, it } from 'vitest'
import type { Journal } from '../../../schemas/types.ts'
import { applyEntry, createJournalState } from '../../../services/ledger/journal-state.ts'
import { missingEntry } from '../../../services/ledger/reconcile.ts'
import { type Amounts, post, ZERO_AMOUNTS } from '../../../services/money/prices.ts'

type Move = readonly [type: string, job: string, amountMicros: number, chargeMicros: number]

const FUNDED: Move = ['topup', '', 100, 0]
const RESERVED: Move = ['reserve', 'job_1', 30, 0]
const LAST: Move = ['adjust', '', 1, 0]

/** The reconstructed entry of a journal with these movements, some of which are lost. */
function reconstruct (moves: readonly Move[], ...lost: readonly number[]) {
  const retention = { seq: 0, openJobs: new Set<string>(), sinceMs: 0 }
  const journal = createJournalState(retention)
  let amounts: Amounts = ZERO_AMOUNTS
  for (const [index, [type, job, amountMicros, chargeMicros]] of moves.entries()) {
    amounts = post(amounts, { type, amountMicros, chargeMicros })
    const seq = index + 1
    const movement = { type, job, amountMicros, chargeMicros, ...amounts }
    const rest = { tenant: 'a', seq, entryId: `${seq}`, at: 10 * seq, reason: '', header: null }
    const entry: Journal = { ...movement, ...rest }
    if (!lost.includes(seq)) applyEntry(journal, entry, retention)
  }
  return missingEntry(journal)
}

describe('missingEntry', () => {
  it.each([['topup', 50], ['adjust', -20]] as const)('reconstructs a %s', (type, micros) => {
    expect(reconstruct([FUNDED, [type, '', micros, 0], RESERVED], 2)).toEqual({
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
      reason: 'reconstructed from entry 3: the entry itself is lost',
      header: null,
    })
  })

  it('reconstructs the end of the only job with that reservation', () => {
    const moves: readonly Move[] = [FUNDED, RESERVED, ['reserve', 'job_2', 20, 0]]
    expect(reconstruct([...moves, ['settle', 'job_1', 30, 12], LAST], 4)).toMatchObject({
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
  ])('returns undefined when %s', (_, moves, lost) => {
    expect(reconstruct(moves, ...lost)).toBe(undefined)
  })
})
