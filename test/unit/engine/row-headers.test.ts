import { describe, expect, it } from 'vitest'
import { rowCountOf } from '../../../services/engine/stage.ts'

describe('the number of rows of a message', () => {
  it('is the bits of the bitmap, or the rows of the chunk, or 0', () => {
    const rows = Buffer.of(0b101, 0b1).toString('base64')
    expect(rowCountOf({ rows, chunkRows: '10' })).toBe(3)
    expect(rowCountOf({ chunkRows: '10' })).toBe(10)
    for (const chunkRows of ['', 'x', '-1']) expect(rowCountOf({ chunkRows })).toBe(0)
    expect(rowCountOf({})).toBe(0)
  })
})
