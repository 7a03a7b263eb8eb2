import { describe, expect, it } from 'vitest'
import { measureCells, measureNumbers } from './phones.ts'

/** How many numbers become cells; all of them in `npm run test:full`. */
const NUMBERS = Number(process.env['ACCURACY_NUMBERS'] ?? 100)
/** Cells that name no country besides that of the job mean a number there (decision of the API). */
const UNMARKED = 'without plus, from abroad'

describe('phone numbers, compared with Google\'s data of the newest release', () => {
  it('have the same number, country, type, carrier, place and time zone', async () => {
    const rows = await measureNumbers()
    expect(rows.reduce((sum, { total }) => sum + total, 0)).toBeGreaterThan(40_000)
    expect(rows.filter(({ wrong }) => wrong > 0)).toEqual([])
  })

  it('never become another valid number in a cell as people and spreadsheets write it', () => {
    const rows = measureCells(NUMBERS).filter(({ part }) => part !== UNMARKED)
    const sum = (column: 'total' | 'right') => rows.reduce((all, row) => all + row[column], 0)
    expect(sum('total')).toBeGreaterThan(90_000)
    expect(rows.filter(({ wrong }) => wrong > 0)).toEqual([])
    expect(sum('right') / sum('total')).toBeGreaterThan(0.85)
  })
})
