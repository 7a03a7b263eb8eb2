import { describe, expect, it } from 'vitest'
import { emptyBitmap, set } from '../../../services/runtime/platform/bitmap.ts'
import { RemainingRows } from '../../../services/settle/buffer.ts'
import { endedJob } from '../../support/clickhouse/results.ts'

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
    const remaining = new RemainingRows()
    expect(remaining.mayEndJob([block(10), block(9)])).toBe(false)
    expect(remaining.mayEndJob([block(10), block(10)])).toBe(true)
  })

  it('are its unfinished rows after a count', () => {
    const remaining = new RemainingRows()
    remaining.update(countedOf(15))
    expect([4, 5].map(rows => remaining.mayEndJob([block(rows)]))).toEqual([false, true])
    remaining.update(countedOf(20))
    expect(remaining.mayEndJob([block(1)])).toBe(true)
  })

  it('are counted separately for each job', () => {
    const remaining = new RemainingRows()
    remaining.update(countedOf(12))
    const other = { job: 'job_other' }
    expect(remaining.mayEndJob([block(7), block(7, other)])).toBe(false)
    expect(remaining.mayEndJob([block(7), block(20, other)])).toBe(true)
  })

  it('are taken from totalRows for a block without a job', () => {
    expect(new RemainingRows().mayEndJob([{ headers: {} }])).toBe(false)
    expect(new RemainingRows().mayEndJob([{ headers: { totalRows: '0' } }])).toBe(true)
  })
})
