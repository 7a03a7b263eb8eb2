import { describe, expect, it } from 'vitest'
import { countBits } from '../../../../services/runtime/platform/bitmap.ts'
import {
  type ChunkCoordinates, createBlock, unresolvableBlock,
} from '../../../../services/jobs/results/block.ts'
import { type RowOutcome, withoutVerdict } from '../../../../services/jobs/results/outcome.ts'
import { cellsIn } from '../../../support/clickhouse/cells.ts'
import { bitmapOf, JOB, rowsOf, TENANT } from '../../../support/stage-doubles.ts'

const coordinates: ChunkCoordinates = {
  tenant: TENANT,
  job: JOB,
  service: 'phone-validation',
  chunk: 2,
  chunks: 3,
  firstRow: 20,
  rows: 10,
  totalRows: 30,
}

const outcome = (change: Partial<RowOutcome>): RowOutcome => ({
  status: 'valid',
  reason: 'assigned_range',
  source: 'live',
  confidence: 90,
  checkedAtMs: 0,
  expiresAtMs: 1_000,
  fields: {},
  contact: {},
  copies: 0,
  ...change,
})

const column = (block: ReturnType<typeof createBlock>, name: string) =>
  cellsIn(block.emission('small').rows, name)

describe('a block', () => {
  it('derives every bitmap from how its rows ended', () => {
    const block = createBlock({ coordinates, batch: 4 })
    block.add(0, outcome({ status: 'valid', copies: 2 }))
    block.add(1, outcome({ status: 'invalid' }))
    block.add(2, outcome({ source: 'none', status: 'unknown', reason: 'no_answer' }))
    block.add(3, outcome({ source: 'cache', copies: 1 }))
    block.add(4, outcome({ source: 'preflight', status: 'invalid', reason: 'empty' }))
    block.add(5, outcome({ source: 'none', status: 'unknown', reason: 'cancelled' }))
    block.add(9, { source: 'duplicate', duplicateOf: 21 })
    const { value, rows } = block.emission('small')
    expect(rowsOf(value.finished)).toEqual([0, 1, 2, 3, 4, 5, 9])
    expect(rowsOf(value.cached)).toEqual([3])
    expect(rowsOf(value.live)).toEqual([0, 1])
    expect(rowsOf(value.invalid)).toEqual([4])
    expect(rowsOf(value.unknown)).toEqual([2])
    expect(rowsOf(value.cancelled)).toEqual([5])
    expect(value.duplicates).toEqual([{ row: 0, count: 2 }, { row: 3, count: 1 }])
    expect(value).toMatchObject({ ...coordinates, batch: 4, inputs: false })
    expect(rows.rows).toEqual([0, 1, 2, 3, 4, 5, 9])
    expect(rows.duplicateOf).toEqual([0, 0, 0, 0, 0, 0, 21])
    expect(rows.inputs).toBe(null)
  })

  it('stores the evidence of its rows, apart for rows that differ in nothing else', () => {
    const block = createBlock({ coordinates, batch: 0 })
    const fields = {}
    block.add(0, outcome({ fields, evidence: 8 }))
    block.add(1, outcome({ fields, evidence: 0 }))
    block.add(2, outcome({ fields }))
    expect(column(block, 'checks')).toEqual(['8', '0', ''])
  })

  it('stores the columns of the result file, blank ones left out', () => {
    const block = createBlock({ coordinates, batch: 0 })
    block.add(0, outcome({ fields: { e164: '+12127365000', carrier: 'Acme', mx_found: 'true' } }))
    block.add(1, withoutVerdict('cancelled', { atMs: 0 }))
    block.add(2, { source: 'duplicate', duplicateOf: 21 })
    expect(column(block, 'e164')).toEqual(['+12127365000', '', ''])
    expect(column(block, 'status')).toEqual(['valid', 'unknown', ''])
    expect(column(block, 'source')).toEqual(['live', 'none', 'duplicate'])
    expect(column(block, 'confidence')).toEqual(['90', '0', ''])
    expect(column(block, 'reason')).toEqual(['assigned_range', 'cancelled', ''])
    expect(column(block, 'checked_at')?.[0]).toBe('1970-01-01T00:00:00.000Z')
    expect(column(block, 'expires_at')?.[0]).toBe('1970-01-01T00:00:01.000Z')
    expect(column(block, 'region')).toBe(undefined)
    expect(column(block, 'mx_found')).toBe(undefined)
  })

  it('keeps rows of one record apart that ended differently', () => {
    const block = createBlock({ coordinates, batch: 0 })
    const fields = { carrier: 'Acme' }
    block.add(0, outcome({ fields, contact: { e164: '+12127365000' } }))
    block.add(1, outcome({ fields, contact: { e164: '+12127365001' }, source: 'cache' }))
    block.add(2, outcome({ fields, expiresAtMs: 2_000 }))
    block.add(3, outcome({ fields, confidence: 1 }))
    block.add(4, outcome({ fields, contact: { carrier: 'its own' } }))
    expect(column(block, 'carrier')).toEqual(['Acme', 'Acme', 'Acme', 'Acme', 'its own'])
    expect(column(block, 'e164')).toEqual(['+12127365000', '+12127365001', '', '', ''])
    expect(column(block, 'source')).toEqual(['live', 'cache', 'live', 'live', 'live'])
    expect(column(block, 'confidence')).toEqual(['90', '90', '90', '1', '90'])
    expect(column(block, 'expires_at')?.map((time) => time.slice(17)))
      .toEqual(['01.000Z', '01.000Z', '02.000Z', '01.000Z', '01.000Z'])
  })

  it('has no column for duplicates when it holds none', () => {
    const block = createBlock({ coordinates, batch: 0, inputs: [] })
    block.add(0, outcome({}))
    expect(block.emission('bulk')).toMatchObject({
      lane: 'bulk', value: { inputs: true }, rows: { inputs: [], duplicateOf: [] },
    })
  })

  it('takes each row of its chunk once and in order', () => {
    const block = createBlock({ coordinates, batch: 0 })
    block.add(3, outcome({}))
    expect(() => block.add(3, outcome({}))).toThrow(RangeError)
    expect(() => block.add(2, outcome({}))).toThrow(RangeError)
    expect(() => block.add(10, outcome({}))).toThrow(RangeError)
    expect(block.size()).toBe(1)
  })
})

describe('a block made from headers', () => {
  it('ends exactly the rows of the message, free and without a verdict', () => {
    const rows = bitmapOf(10, [1, 8])
    const { value, rows: stored } = unresolvableBlock({ coordinates, lane: 'bulk', rows },
      { atMs: 5, inputs: false })
    expect(rowsOf(value.finished)).toEqual([1, 8])
    expect(rowsOf(value.unknown)).toEqual([1, 8])
    expect([countBits(value.live), countBits(value.cached)]).toEqual([0, 0])
    expect(cellsIn(stored, 'source')).toEqual(['none', 'none'])
    expect(value.batch).toBe(-2)
    expect(cellsIn(stored, 'reason')).toEqual(['internal', 'internal'])
    expect(stored.inputs).toBe(null)
  })

  it('replaces the input block of its chunk on request', () => {
    const block = unresolvableBlock({ coordinates, lane: 'bulk', rows: bitmapOf(10, [0]) },
      { atMs: 5, inputs: true })
    expect(block.value.inputs).toBe(true)
    expect(block.rows.inputs).toEqual(new Array(10).fill(''))
  })
})

describe('a row without a verdict', () => {
  it('still shows what follows from its canonical form', () => {
    const subject = { service: 'phone-validation', canonical: '+12127365000', copies: 3 } as const
    expect(withoutVerdict('unavailable', { atMs: 9, subject })).toMatchObject({
      status: 'unknown',
      source: 'none',
      reason: 'unavailable',
      checkedAtMs: 9,
      expiresAtMs: 9,
      copies: 3,
      fields: {},
      contact: { e164: '+12127365000', country: 'US' },
    })
  })
})
