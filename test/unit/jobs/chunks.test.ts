import { describe, expect, it } from 'vitest'
import { CHUNK_BYTES, chunksOf } from '../../../services/jobs/chunks.ts'

const shape = (inputs: readonly string[]) =>
  chunksOf(inputs).map(chunk => [chunk.firstRow, chunk.inputs.length])

describe('chunks', () => {
  it('have at most two thousand rows, the last one what is left', () => {
    const inputs = Array.from({ length: 4_001 }, (_, row) => `+1212736${row}`)
    expect(shape(inputs)).toEqual([[0, 2_000], [2_000, 2_000], [4_000, 1]])
    expect(chunksOf(inputs).flatMap(chunk => chunk.inputs)).toEqual(inputs)
  })

  it('have at most 256 KiB, counted in bytes and not in characters', () => {
    const long = 'é'.repeat(1_000)
    const fitting = Math.floor(CHUNK_BYTES / 2_003)
    expect(shape(Array.from({ length: fitting + 1 }, () => long)))
      .toEqual([[0, fitting], [fitting, 1]])
  })

  it('keep empty inputs as rows', () => {
    expect(chunksOf(['', '', 'a'])).toEqual([{ firstRow: 0, inputs: ['', '', 'a'] }])
    expect(chunksOf([])).toEqual([])
  })

  it('give an input above the limit a chunk of its own', () => {
    expect(shape(['a', 'x'.repeat(CHUNK_BYTES + 1), 'b'])).toEqual([[0, 1], [1, 1], [2, 1]])
  })

  it('leave space for the metadata of each input', () => {
    const chunks = chunksOf(['', '', '', ''], row => row === 0 ? 0 : CHUNK_BYTES / 2 - 3)
    const sizes = chunks.map(({ firstRow, inputs }) => [firstRow, inputs.length])
    expect(sizes).toEqual([[0, 2], [2, 2]])
  })
})
