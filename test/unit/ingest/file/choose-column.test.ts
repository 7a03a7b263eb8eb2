import { describe, expect, it } from 'vitest'
import { chooseColumn } from '../../../../services/ingest/file/read-csv.ts'

describe('the first line of a file', () => {
  it.each<[first: readonly string[], column: string | undefined, isHeader: boolean]>([
    [['phone'], undefined, true],
    [['+12127365000'], undefined, false],
    [['ann@example'], undefined, false],
    [['12345'], undefined, false],
    [[' '], undefined, false],
    [['name', 'phone'], 'phone', true],
    [['+12127365000', '1'], '+12127365000', true],
    [['name', '+12127365000'], '1', true],
    [['name', '+12127365000'], '2', false],
  ])('%j with the column %j is a header: %s', (first, column, isHeader) => {
    expect(chooseColumn(first, { column }).isHeader).toBe(isHeader)
    expect(chooseColumn(first, { column: '1', header: true }))
      .toEqual({ isHeader: true, columns: first, at: 0 })
  })
})
