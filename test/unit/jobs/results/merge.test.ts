import { describe, expect, it } from 'vitest'
import type { ManifestEntry } from '../../../../services/jobs/job.ts'
import {
  mergeChunk, planJob, ResultsError, type ChunkPlan, type OpenBlock, createCellReader,
} from '../../../../services/jobs/results/merge.ts'
import { bitmapOf } from '../../../support/stage-messages.ts'

const columns = ['row', 'input', 'carrier', 'source', 'duplicate_of']
const cellsAt = createCellReader(columns)

/** The cells of all rows of a chunk that these blocks make up. */
function mergedCells (plan: ChunkPlan, blocks: readonly OpenBlock[]): readonly string[][] {
  const merged = mergeChunk('job_1', plan, blocks)
  return Array.from({ length: merged.rows }, (_, index) => cellsAt(merged, index))
}

const entry = (chunk: number, firstRow: number, change: Partial<ManifestEntry> = {}) =>
  ({ chunk, firstRow, digest: `d${chunk}`, won: bitmapOf(8, [0]), inputs: false, ...change })

describe('planJob', () => {
  it('leaves out blocks that won nothing, but for inputs', () => {
    const nothing = bitmapOf(8, [])
    const withInputs = entry(0, 0, { digest: 'in', won: nothing, inputs: true })
    const plan = planJob([entry(0, 0, { won: nothing }), withInputs],
      { id: 'job_1', chunks: 1, totalRows: 5 })
    expect(plan.chunks[0]?.entries).toEqual([withInputs])
  })

  it('gives rows of lost chunks to a chunk of their own', () => {
    const wide = entry(3, 0, { digest: 'wide', won: bitmapOf(9, [0, 1, 2, 5, 6]) })
    const plan = planJob([entry(1, 3), wide], { id: 'job_1', chunks: 3, totalRows: 9 })
    expect(plan.chunks.map(({ chunk, firstRow, rows }) => [chunk, firstRow, rows]))
      .toEqual([[-1, 0, 3], [1, 3, 6]])
    expect(plan.jobWide).toEqual([wide])
    expect(planJob([entry(0, 0), entry(2, 12)], { id: 'job_1', chunks: 3, totalRows: 20 }).chunks
      .map(({ chunk, firstRow, rows }) => [chunk, firstRow, rows]))
      .toEqual([[0, 0, 8], [-1, 8, 4], [2, 12, 8]])
    expect(planJob([], { id: 'job_1', chunks: 3, totalRows: 9 }).chunks)
      .toEqual([{ chunk: -1, firstRow: 0, rows: 9, entries: [] }])
  })

  it('rejects chunks that overlap', () => {
    const job = { id: 'job_1', chunks: 2, totalRows: 5 }
    expect(() => planJob([entry(0, 0), entry(1, 0)], job)).toThrow(
      new ResultsError('manifest of job job_1: chunk 0 starts at row 1, chunk 1 at row 1'))
    expect(() => planJob([entry(0, 0), entry(1, 5)], job)).toThrow(
      new ResultsError('manifest of job job_1: chunk 1 starts at row 6, the job has 5 rows'))
  })
})

/** A block of a chunk that begins at `firstRow`: its rows, and those it won. */
const open = (
  { firstRow = 0, width = 8, won, holds, name, inputs }: {
    firstRow?: number,
    width?: number,
    won: number[],
    holds: number[],
    name: string,
    inputs?: string[]
  }) => ({
  entry: {
    chunk: 0,
    firstRow,
    digest: name,
    won: bitmapOf(width, won),
    inputs: inputs !== undefined,
  },
  rows: {
    inputs: inputs ?? null,
    rows: holds,
    duplicateOf: [],
    columns: [{ name: 'carrier', values: holds.map(row => `${name}${row}`), at: [] }],
  },
})

describe('mergeChunk', () => {
  const plan = { chunk: 0, firstRow: 10, rows: 4, entries: [] }

  it('takes from each block exactly what it won, in order, with inputs', () => {
    const cells = mergedCells(plan, [
      open({ firstRow: 10, won: [2, 3], holds: [1, 2, 3], name: 'a' }),
      open({ firstRow: 10, won: [0, 1], holds: [0, 1, 2], name: 'b', inputs: [...'ijkl'] }),
    ])
    expect(cells).toEqual([
      ['11', 'i', 'b0', '', ''], ['12', 'j', 'b1', '', ''],
      ['13', 'k', 'a2', '', ''], ['14', 'l', 'a3', '', ''],
    ])
  })

  it('takes the rest from a block of the whole job, and knows inputs over blanks', () => {
    const cells = mergedCells(plan, [
      open({ firstRow: 10, won: [0], holds: [0], name: 'a', inputs: ['', '', '', ''] }),
      open({ firstRow: 10, won: [1], holds: [1], name: 'b', inputs: ['i', '', 'k', 'l'] }),
      open({ firstRow: 0, width: 24, won: [2, 12, 13, 20], holds: [2, 12, 13, 20], name: 'w' }),
    ])
    expect(cells.map(row => row.slice(0, 3))).toEqual([
      ['11', 'i', 'a0'], ['12', '', 'b1'], ['13', 'k', 'w12'], ['14', 'l', 'w13'],
    ])
  })

  it('rejects a row that no block won, and one that two won', () => {
    const all = open({ firstRow: 10, won: [0, 1, 2, 3], holds: [0, 1, 2, 3], name: 'a' })
    const some = open({ firstRow: 10, won: [0, 1, 3], holds: [0, 1, 2, 3], name: 'b' })
    expect(() => mergeChunk('job_1', plan, [some])).toThrow('row 13 of job job_1 has no result')
    expect(() => mergeChunk('job_1', plan, [all, some]))
      .toThrow('row 11 of job job_1 has two results')
  })
})
