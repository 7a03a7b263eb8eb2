import { describe, expect, it } from 'vitest'
import { partEmissions, partOfAttempt } from '../../../services/verify/emit.ts'
import { allWithout } from '../../../services/verify/part.ts'
import { createManualClock, partOf, QUOTED_AT_MS, rowsOf } from '../../support/stage-doubles.ts'

const message = partOf(['+12127365000', '+12127365001'])
const part = { value: message.value, rows: message.rows() }
const parts = { clock: createManualClock(), laterAfterMs: 60_000, giveUpAfterMs: 900_000 }
const [first] = allWithout(part, 'cancelled', QUOTED_AT_MS)

describe('what is emitted for a part', () => {
  it('is a block of the rows that are finished, and a part of the others', () => {
    const [block, later, ...more] = partEmissions(part, [first, undefined], parts)
    expect(more).toEqual([])
    expect(block?.topic === 'rows.finished' && rowsOf(block.value.finished)).toEqual([0])
    expect(later).toMatchObject({
      topic: 'rows.later',
      value: {
        attempt: 1, notBefore: QUOTED_AT_MS + 60_000, giveUpAt: QUOTED_AT_MS + 900_000,
      },
      rows: { rows: [1], canonicals: ['+12127365001'] },
    })
  })

  it('is one block with all of its rows once it is given up', () => {
    const due = { ...part, value: { ...part.value, giveUpAt: QUOTED_AT_MS } }
    const [block, ...more] = partEmissions(due, [undefined, first], parts)
    expect(more).toEqual([])
    expect(block?.topic === 'rows.finished' && rowsOf(block.value.finished)).toEqual([0, 1])
  })

  it('has a part number for each attempt that no other part has', () => {
    expect(partOfAttempt({ part: 1_999, attempt: 0 })).toBe(1_999)
    expect(partOfAttempt({ part: 0, attempt: 1 })).toBe(2_000)
  })
})
