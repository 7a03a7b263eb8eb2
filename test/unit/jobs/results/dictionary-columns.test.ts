import { describe, expect, it } from 'vitest'
import {
  cellsOf, createDictionaryColumns, createIsoTimes,
} from '../../../../services/jobs/results/dictionary-columns.ts'

function columnsOf (names: readonly string[], rows: readonly Readonly<Record<string, string>>[]) {
  const cells = createDictionaryColumns(names)
  for (const row of rows) {
    for (const [name, value] of Object.entries(row)) cells.put(name, value)
    cells.endRow()
  }
  return cells.filled()
}

describe('cells', () => {
  it('store the values of a column that repeats them once', () => {
    const rows = [{ b: 'x' }, { b: 'y' }, { b: 'x' }]
    expect(columnsOf(['a', 'b'], rows)).toEqual([{ name: 'b', values: ['x', 'y'], at: [0, 1, 0] }])
  })

  it('are blank where a row has none, at any position', () => {
    const [column] = columnsOf(['a'], [{}, { a: 'x' }, {}, { a: '' }, { a: 'y' }, {}])
    expect(cellsOf(column!)).toEqual(['', 'x', '', '', 'y', ''])
  })

  it('store a column of many values value by value', () => {
    const different = Array.from({ length: 100 }, (_, row) => ({ a: `value ${row}` }))
    const [column] = columnsOf(['a'], [{}, ...different, {}, {}])
    expect(column?.at).toEqual([])
    expect(column?.values).toEqual(['', ...different.map(({ a }) => a), '', ''])
  })

  it('know only the columns they were made for, in their order, and leave out blank ones', () => {
    const stored = columnsOf(['a', 'b', 'c'], [{ c: 'x', d: 'x', b: '', a: 'x' }])
    expect(stored.map(({ name }) => name)).toEqual(['a', 'c'])
  })

  it('keep the last value put into a cell', () => {
    const cells = createDictionaryColumns(['a'])
    cells.put('a', 'x')
    cells.put('a', 'y')
    cells.endRow()
    expect(cellsOf(cells.filled()[0]!)).toEqual(['y'])
  })
})

describe('cells that rows share', () => {
  const first = { a: 'x', b: 'y' }
  const second = { a: 'z', b: 'y', c: '' }

  it('are stored once, by column, with a number a row', () => {
    const cells = createDictionaryColumns(['a', 'b', 'c'])
    for (const shared of [first, second, first]) {
      cells.share(shared)
      cells.endRow()
    }
    expect(cells.filled()).toEqual([
      { name: 'a', values: ['x', 'z'], at: [0, 1, 0] },
      { name: 'b', values: ['y'], at: [0, 0, 0] },
    ])
  })

  it('give way to what was put, and are blank in rows that share nothing', () => {
    const cells = createDictionaryColumns(['a', 'b'])
    cells.share(first)
    cells.put('a', 'own')
    cells.endRow()
    cells.endRow()
    cells.put('a', 'last')
    cells.endRow()
    cells.share(second)
    cells.endRow()
    expect(cells.filled().map((column) => [column.name, cellsOf(column)]))
      .toEqual([['a', ['own', '', 'last', 'z']], ['b', ['y', '', '', 'y']]])
  })

  it('are stored value by value where there are many', () => {
    const cells = createDictionaryColumns(['a'])
    const values = Array.from({ length: 100 }, (_, row) => `value ${row}`)
    for (const a of values) {
      cells.share({ a })
      cells.endRow()
    }
    expect(cells.filled()).toEqual([{ name: 'a', values, at: [] }])
  })
})

describe('times', () => {
  it('are formatted again when they change', () => {
    const iso = createIsoTimes()
    expect([0, 0, 1_000, 0].map(iso)).toEqual([
      '1970-01-01T00:00:00.000Z', '1970-01-01T00:00:00.000Z',
      '1970-01-01T00:00:01.000Z', '1970-01-01T00:00:00.000Z',
    ])
  })
})
