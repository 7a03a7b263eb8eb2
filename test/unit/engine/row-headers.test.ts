import { describe, expect, it } from 'vitest'
import { rowsOf } from '../../../services/engine/row-headers.ts'

describe('rows by headers', () => {
  it('are the bits of the bitmap, else the rows of the chunk, else none', () => {
    const rows = Buffer.of(0b101, 0b1).toString('base64')
    expect(rowsOf({ rows, chunkRows: '10' })).toBe(3)
    expect(rowsOf({ chunkRows: '10' })).toBe(10)
    expect([rowsOf({}), rowsOf({ chunkRows: 'x' }), rowsOf({ chunkRows: '-1' })]).toEqual([0, 0, 0])
  })
})
