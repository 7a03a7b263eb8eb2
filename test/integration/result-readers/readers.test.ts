import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { listColumns } from '../../../services/jobs/results/columns.ts'
import { parquetBytes, rowWith, tableOf, workbookBytes } from '../../support/result-rows.ts'
import { newFolder } from '../../support/folder.ts'
import { installReaders } from './install.ts'

const AT = '2026-08-11T10:00:02.500Z'
const INPUTS = ['+49170', '00491701234567', '=1+1', '  "a, b" ', '\u0000\ud83d\ude00', '']
const ROWS = Array.from({ length: 4_321 }, (_, at) => rowWith({
  row: String(at + 1),
  input: INPUTS[at % INPUTS.length] ?? '',
  e164: `+4917${at}`,
  confidence: at % 3 === 0 ? '' : '60',
  checked_at: AT,
  expires_at: AT,
}))

it('result files are read by DuckDB, pandas and openpyxl as they were written', async () => {
  const python = await installReaders(() => {})
  const folder = newFolder('result-files-')
  const [parquet, workbook] = [join(folder, 'a.parquet'), join(folder, 'a.xlsx')]
  const table = tableOf({ columns: listColumns('phone-validation') })
  writeFileSync(parquet, await parquetBytes(table, ROWS))
  writeFileSync(workbook, await workbookBytes(table, ROWS))
  const { stdout } = await promisify(execFile)(
    python, [join(import.meta.dirname, 'read.py'), parquet, workbook],
    { maxBuffer: 64 * 1_024 * 1_024, env: { TZ: 'UTC' } })
  const read = JSON.parse(stdout) as Record<string, unknown>
  const rows = ROWS.map((_, at) => [at + 1, INPUTS[at % INPUTS.length], at % 3 === 0 ? null : 60,
    '2026-08-11T10:00:02.500000+00:00'])
  expect(read['duckdb']).toEqual(rows)
  expect(read['pandas']).toEqual(rows)
  expect(read['duckdbTypes']).toEqual(['INTEGER', 'VARCHAR', 'TIMESTAMP WITH TIME ZONE'])
  expect((read['openpyxl'] as unknown[]).slice(0, 4)).toEqual([
    ['row', 'input', 'phone'], [1, '+49170', null], [2, '00491701234567', null], [3, '=1+1', null],
  ])
  // Numbers and texts, and no formula.
  expect(read['types']).toEqual(['n', 's'])
  expect(read).toMatchObject({
    frozen: 'A2', filter: 'A1:V4322', summary: { Rows: 4, 'Charged in USD': 0.004 },
  })
})
