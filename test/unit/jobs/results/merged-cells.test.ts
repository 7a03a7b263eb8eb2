import { describe, expect, it } from 'vitest'
import {
  mergeChunk, type MergedChunk, createCellReader, createRepeater,
} from '../../../../services/jobs/results/merge.ts'
import { createChunkCsv } from '../../../../services/jobs/results/merged-csv.ts'
import { bitmapOf } from '../../../support/stage-doubles.ts'

const columns = ['row', 'input', 'carrier', 'source', 'duplicate_of']

describe('cells of a row', () => {
  it('are read from columns of either kind, blank where the block has none', () => {
    const entry = { chunk: 0, firstRow: 0, digest: '', won: bitmapOf(3, [0, 1, 2]), inputs: true }
    const merged = mergeChunk('job_1', { chunk: 0, firstRow: 7, rows: 2, entries: [] }, [{
      entry: { ...entry, firstRow: 7 },
      rows: {
        inputs: ['a'],
        rows: [0, 1],
        duplicateOf: [],
        columns: [
          { name: 'source', values: ['live', 'cache'], at: [1, 0] },
          { name: 'carrier', values: ['x', 'y'], at: [] },
        ],
      },
    }])
    const cellsAt = createCellReader(columns)
    expect([cellsAt(merged, 0), cellsAt(merged, 1), cellsAt(merged, 2)]).toEqual([
      ['8', 'a', 'x', 'cache', ''], ['9', '', 'y', 'live', ''], [],
    ])
  })
})

describe('a duplicate', () => {
  const chunk: MergedChunk = {
    firstRow: 7,
    rows: 3,
    inputs: ['other', 'mine'],
    blocks: [{
      inputs: null,
      rows: [0, 1],
      duplicateOf: [0, 3],
      columns: [{ name: 'email', values: ['other@x.org', 'MINE@x.org'], at: [] }],
    }],
    blockOf: Int32Array.of(0, 0, -1),
    positionOf: Int32Array.of(0, 1, 0),
    duplicateOf: Int32Array.of(0, 3, 3),
    contacts: undefined,
  }

  it('has its own spelling of an e-mail address', () => {
    const repeat = createRepeater([...columns, 'email'])
    const original = ['3', 'mine', 'x', 'live', '', 'mine@x.org']
    expect(repeat(chunk, 1, original).at(-1)).toBe('MINE@x.org')
    expect(repeat(chunk, 2, original).at(-1)).toBe('mine@x.org')
  })

  it('has its own extension of a phone number, in cells and in CSV', () => {
    const phoneColumns = ['row', 'input', 'e164', 'source', 'duplicate_of', 'extension']
    const e164 = '+12127365000'
    const phones: MergedChunk = {
      ...chunk,
      rows: 1,
      inputs: ['212 736 5000 x12', '212 736 5000 x13'],
      blocks: [{
        inputs: null,
        rows: [0, 1],
        duplicateOf: [0, 8],
        columns: [{ name: 'e164', values: [e164, ''], at: [] }],
      }],
    }
    const original = createCellReader(phoneColumns)(phones, 0)
    const copy = createRepeater(phoneColumns)(phones, 1, original)
    expect([original.at(-1), copy.at(-1), copy[2]]).toEqual(['12', '13', e164])
    const csv = createChunkCsv(phoneColumns, { safe: false })(phones, new Map(), 0)
    expect(String(csv.lines)).toBe(`8,212 736 5000 x12,${e164},,,12\r\n`)
  })

  it('has the cells of its original, but for its own place, input and source', () => {
    const repeat = createRepeater(columns)
    const phones = { ...chunk, blocks: [] }
    expect(repeat(phones, 1, ['3', 'first', 'x', 'live', '']))
      .toEqual(['9', 'mine', 'x', 'duplicate', '3'])
    expect(repeat(phones, 2, ['3', 'first', 'x', 'live', ''])[1]).toBe('')
  })
})
