import { describe, expect, it } from 'vitest'
import { emptyBitmap, set } from '../../../services/lib/bitmap.ts'
import { createOpenRows } from '../../../services/settle/open-rows.ts'
import { endedJob } from '../../support/results.ts'

const job = endedJob({}, 20)
const countedOf = (finishedRows: number) => ({ ...job, counts: { ...job.counts, finishedRows } })

/** A block of so many rows of a job of 20. */
function block (rows: number, headers: Record<string, string> = {}) {
  const bitmap = emptyBitmap(20)
  for (let row = 0; row < rows; row++) set(bitmap, row)
  return { headers: { job: job.id, totalRows: '20', rows: bitmap.toString('base64'), ...headers } }
}

describe('the open rows of jobs', () => {
  it('are all of them before any were counted', () => {
    const { mayEnd } = createOpenRows()
    expect(mayEnd([block(10), block(9)])).toBe(false)
    expect(mayEnd([block(10), block(10)])).toBe(true)
  })

  it('are what the tally left', () => {
    const { counted, mayEnd } = createOpenRows()
    counted(countedOf(15))
    expect([mayEnd([block(4)]), mayEnd([block(5)])]).toEqual([false, true])
    counted(countedOf(20))
    expect(mayEnd([block(1)])).toBe(true)
  })

  it('are told apart by job', () => {
    const { counted, mayEnd } = createOpenRows()
    counted(countedOf(12))
    const other = { job: 'job_other' }
    expect(mayEnd([block(7), block(7, other)])).toBe(false)
    expect(mayEnd([block(7), block(20, other)])).toBe(true)
  })

  it('are unknown of blocks that do not say what they are of', () => {
    expect(createOpenRows().mayEnd([{ headers: {} }])).toBe(false)
    expect(createOpenRows().mayEnd([{ headers: { totalRows: '0' } }])).toBe(true)
  })
})
