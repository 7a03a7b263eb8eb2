import { describe, expect, it } from 'vitest'
import { allWithout, batchEmissions, blockBatchOf } from '../../../services/verify/batch.ts'
import { createManualClock, batchOf, QUOTED_AT_MS, rowsOf } from '../../support/stage-doubles.ts'

const message = batchOf(['+12127365000', '+12127365001'])
const batch = { value: message.value, rows: message.rows() }
const deps = { clock: createManualClock(), retryDelayMs: 60_000, retryForMs: 900_000 }
const [first] = allWithout(batch, 'cancelled', QUOTED_AT_MS)

describe('the emissions of a verification batch', () => {
  it('are a block of the rows with an outcome, and a retry of the others', () => {
    const [block, retry, ...more] = batchEmissions(batch, [first, undefined], deps)
    expect(more).toEqual([])
    expect(block?.topic === 'rows.completed' && rowsOf(block.value.finished)).toEqual([0])
    expect(retry).toMatchObject({
      topic: 'rows.retry',
      value: {
        attempt: 1, notBefore: QUOTED_AT_MS + 60_000, retryDeadline: QUOTED_AT_MS + 900_000,
      },
      rows: { rows: [1], canonicals: ['+12127365001'] },
    })
  })

  it('are one block with all rows after the retry deadline', () => {
    const due = { ...batch, value: { ...batch.value, retryDeadline: QUOTED_AT_MS } }
    const [block, ...more] = batchEmissions(due, [undefined, first], deps)
    expect(more).toEqual([])
    expect(block?.topic === 'rows.completed' && rowsOf(block.value.finished)).toEqual([0, 1])
  })

  it('have a different batch number for each attempt of each batch', () => {
    expect(blockBatchOf({ batch: 1_999, attempt: 0 })).toBe(1_999)
    expect(blockBatchOf({ batch: 0, attempt: 1 })).toBe(2_000)
  })
})
