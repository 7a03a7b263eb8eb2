import { describe, expect, it } from 'vitest'
import { rowFieldsOf } from '../../../../services/jobs/results/columns.ts'
import { createRowFilter, type WantedRows } from '../../../../services/jobs/results/results.ts'

const fields = rowFieldsOf('phone-validation')
const cellsOf = (values: Readonly<Record<string, string | undefined>>) =>
  fields.map(name => values[name] ?? '')

const ROWS = [
  { status: 'valid', source: 'live', reason: 'assigned_range', line_type: 'mobile', country: 'DE' },
  { status: 'valid', source: 'cache', reason: 'assigned_range', line_type: 'voip', country: 'US' },
  { status: 'valid', source: 'duplicate', reason: 'assigned_range', country: 'US' },
  { status: 'invalid', source: 'preflight', reason: 'too_short' },
].map(cellsOf)

const kept = (wanted: WantedRows) => {
  const keep = createRowFilter('phone-validation', wanted)
  return ROWS.flatMap((cells, index) => keep?.(cells) === true ? [index] : [])
}

describe('a filter of rows', () => {
  it('is undefined when nothing is requested', () => {
    expect(createRowFilter('phone-validation', {})).toBeUndefined()
  })

  it.each([
    [{ status: ['valid'] }, [0, 1, 2]],
    [{ status: ['invalid', 'risky'] }, [3]],
    [{ source: ['live', 'cache'] }, [0, 1]],
    [{ reason: ['too_short'] }, [3]],
    [{ line_type: ['mobile', 'voip'] }, [0, 1]],
    [{ country: ['US'] }, [1, 2]],
    [{ duplicates: 'drop' }, [0, 1, 3]],
    [{ status: ['valid'], country: ['US'], duplicates: 'drop' }, [1]],
    [{ source: ['duplicate'], duplicates: 'drop' }, []],
  ] as const)('of %j keeps the rows %j', (wanted, rows) => {
    expect(kept(wanted)).toEqual(rows)
  })
})
