import { describe, expect, it } from 'vitest'
import {
  afterRowOf, createRowFilter, createRowShape, cursorOf, jsonLines,
} from '../../../services/ingest/results-response.ts'
import { columnsOf } from '../../../services/results/columns.ts'

const columns = columnsOf('telegram')
const cellsOf = (values: Readonly<Record<string, string>>) =>
  columns.map(name => values[name] ?? '')
const shape = createRowShape('telegram')

describe('a row as JSON', () => {
  it('has the columns in their order, with null for what is blank', () => {
    const row = shape(cellsOf({ row: '2', input: '007', confidence: '0', telegram: 'true' }))
    expect(Object.keys(row)).toEqual(columns)
    expect(row).toMatchObject({
      row: 2, input: '007', confidence: 0, telegram: 'true', phone: null, duplicate_of: null,
    })
  })

  it('keeps an empty input as it was submitted', () => {
    expect(shape(cellsOf({ row: '1' }))['input']).toBe('')
  })

  it('is one line of many', async () => {
    async function * rows () {
      yield [cellsOf({ row: '1', input: 'a\nb' }), cellsOf({ row: '2' })]
      yield [cellsOf({ row: '3' })]
    }
    const pieces = []
    for await (const piece of jsonLines('telegram', rows())) pieces.push(piece)
    expect(pieces.length).toBe(2)
    const parsed = pieces.join('').trimEnd().split('\n').map(line => JSON.parse(line))
    expect(parsed.map(({ row, input }) => [row, input])).toEqual([[1, 'a\nb'], [2, ''], [3, '']])
  })
})

describe('a filter of rows', () => {
  it('is undefined when nothing is requested', () => {
    expect(createRowFilter('telegram', {})).toBeUndefined()
  })

  it('keeps rows of the status and of the source', () => {
    const rows = [['valid', 'live'], ['valid', 'cache'], ['risky', 'live']]
      .map(([status = '', source = '']) => cellsOf({ status, source }))
    const kept = (wanted: Parameters<typeof createRowFilter>[1]) =>
      rows.map(cells => createRowFilter('telegram', wanted)?.(cells))
    expect(kept({ status: 'valid' })).toEqual([true, true, false])
    expect(kept({ source: 'live' })).toEqual([true, false, true])
    expect(kept({ status: 'valid', source: 'live' })).toEqual([true, false, false])
  })
})

describe('a cursor', () => {
  it('leads back to its row', () => {
    expect([0, 1, 99_999].map(row => afterRowOf(cursorOf(row)))).toEqual([0, 1, 99_999])
  })

  it.each(['', '7', 'v1:7', `${cursorOf(7)}=`, Buffer.from('v1:-7').toString('base64url'),
    Buffer.from('v2:7').toString('base64url')])('is not any other text: %j', text => {
    expect(afterRowOf(text)).toBeUndefined()
  })
})
