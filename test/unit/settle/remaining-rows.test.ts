import { describe, expect, it } from 'vitest'
import { emptyBitmap, set } from '../../../services/platform/bitmap.ts'
import { createRemainingRows } from '../../../services/settle/held.ts'
import { endedJob } from '../../support/results.ts'

const job = endedJob({}, 20)
const countedOf = (finishedRows: number) => ({ ...job, counts: { ...job.counts, finishedRows } })

/** A block with this many rows of a job of 20. */
function block (rows: number, headers: Record<string, string> = {}) {
  const bitmap = emptyBitmap(20)
  for (let row = 0; row < rows; row++) set(bitmap, row)
  return { headers: { job: job.id, totalRows: '20', rows: bitmap.toString('base64'), ...headers } }
}

describe('the remaining rows of a job', () => {
  it('are all its rows before the first count', () => {
    const { mayEndJob } = createRemainingRows()
    expect(mayEndJob([block(10), block(9)])).toBe(false)
    expect(mayEndJob([block(10), block(10)])).toBe(true)
  })

  it('are its unfinished rows after a count', () => {
    const { update, mayEndJob } = createRemainingRows()
    update(countedOf(15))
    expect([mayEndJob([block(4)]), mayEndJob([block(5)])]).toEqual([false, true])
    update(countedOf(20))
    expect(mayEndJob([block(1)])).toBe(true)
  })

  it('are counted separately for each job', () => {
    const { update, mayEndJob } = createRemainingRows()
    update(countedOf(12))
    const other = { job: 'job_other' }
    expect(mayEndJob([block(7), block(7, other)])).toBe(false)
    expect(mayEndJob([block(7), block(20, other)])).toBe(true)
  })

  it('are taken from totalRows for a block without a job', () => {
    expect(createRemainingRows().mayEndJob([{ headers: {} }])).toBe(false)
    expect(createRemainingRows().mayEndJob([{ headers: { totalRows: '0' } }])).toBe(true)
  })
})
