import { describe, expect, it } from 'vitest'
import { byJob, idsOf, rowCountOf } from '../../../../services/runtime/engine/stage.ts'
import { idOf, placeIn } from '../../../support/tracing.ts'

const a = { headers: { tenant: 't', job: 'a', ...placeIn(1, 1) } }
const b = { headers: { tenant: 't', job: 'b', ...placeIn(2, 2) } }

describe('the number of rows of a message', () => {
  it('is the bits of the bitmap, or the rows of the chunk, or 0', () => {
    const rows = Buffer.of(0b101, 0b1).toString('base64')
    expect(rowCountOf({ rows, chunkRows: '10' })).toBe(3)
    expect(rowCountOf({ chunkRows: '10' })).toBe(10)
    for (const chunkRows of ['', 'x', '-1']) expect(rowCountOf({ chunkRows })).toBe(0)
    expect(rowCountOf({})).toBe(0)
  })
})

describe('the log fields of messages', () => {
  it('have the job, or the number of jobs', () => {
    expect(idsOf([])).toEqual({})
    expect(idsOf([a])).toEqual({ tenant: 't', job: 'a', traceId: idOf(1) })
    expect(idsOf([a, b, a])).toEqual({ jobs: 2 })
    expect(idsOf([{ headers: {} }])).toEqual({})
    expect([...byJob([a, b, a])]).toEqual([['a', [a, a]], ['b', [b]]])
  })
})
