import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Session } from 'chdb'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { readWorkbook } from '../../schemas/files/workbook.ts'
import { newFolder } from '../support/folder.ts'
import { parquetBytes, textTable, workbookBytes } from '../support/result-rows.ts'

const WIDTH = 4
const session = new Session()
const folder = newFolder('result-files-')

/** Texts of every character, and those that a spreadsheet or its XML would rewrite. */
const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 20 }),
  fc.string({ unit: fc.constantFrom('_', 'x0041', 'x005F', '\r', 'a'), maxLength: 6 }),
  fc.constantFrom('=1+1', '+491701234567', '00491701234567', '_x0041_', ' a ', '\r\n', ']]>', ''),
)
const rows = fc.array(fc.array(text, { minLength: WIDTH, maxLength: WIDTH }), { maxLength: 30 })

const withoutBlankEnd = (cells: readonly string[]) =>
  cells.slice(0, cells.findLastIndex(cell => cell !== '') + 1)

it('rows of a workbook are read back as they were written', async () => {
  await fc.assert(fc.asyncProperty(rows, async written => {
    const read: (readonly string[])[] = []
    const bytes = await workbookBytes(textTable(WIDTH), written)
    await readWorkbook(bytes, {
      maxInflatedBytes: 1_048_576, pause: async () => {},
    }, ({ row, cells }) => { read[row - 1] = cells })
    expect(read[0]).toEqual(['c0', 'c1', 'c2', 'c3'])
    expect(written.map((_, at) => read[at + 1] ?? [])).toEqual(written.map(withoutBlankEnd))
  }))
})

it('rows of a Parquet file are read by the engine of ClickHouse as they were written', async () => {
  const path = join(folder, 'rows.parquet')
  await fc.assert(fc.asyncProperty(rows, async written => {
    writeFileSync(path, await parquetBytes(textTable(WIDTH), written))
    const read = session.query(`SELECT * FROM file('${path}', Parquet)`, 'JSONCompactEachRow')
      .split('\n').filter(Boolean).map(line => JSON.parse(line) as unknown)
    expect(read).toEqual(written)
  }))
})
