import { buffer, text } from 'node:stream/consumers'
import type { Readable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { fromBufferPromise } from 'yauzl'
import { readWorkbook, type SheetRow } from '../../../../schemas/files/workbook.ts'
import { EXAMPLE_JOBS } from '../../../../schemas/api/job.ts'
import { listColumns } from '../../../../services/jobs/results/columns.ts'
import { workbookStream } from '../../../../services/jobs/results/result-tables.ts'
import { rowWith, tableOf, textTable, workbookBytes } from '../../../support/result-rows.ts'

const TABLE = tableOf({ columns: listColumns('phone-validation') })

async function sheetOf (bytes: Buffer, sheet: string): Promise<readonly SheetRow[]> {
  const rows: SheetRow[] = []
  await readWorkbook(bytes, {
    sheet, maxInflatedBytes: 1_048_576, pause: async () => {},
  }, row => rows.push(row))
  return rows
}

async function partOf (bytes: Buffer, path: string): Promise<string> {
  const zip = await fromBufferPromise(bytes, { lazyEntries: true, autoClose: false })
  for await (const entry of zip.eachEntry()) {
    if (entry.fileName === path) return await text(await zip.openReadStreamPromise(entry))
  }
  throw new Error(`no part ${path}`)
}

it('a table of results ' +
  'has the columns of the file first, with unique names, and its cells by their place', () => {
  const columns = ['phone', 'confidence', 'checked_at']
  const table = tableOf({ columns, original: ['Phone', ''] })
  expect(table.columns).toEqual([
    { name: 'Phone', kind: 'text', isOriginal: true },
    { name: 'column_2', kind: 'text', isOriginal: true },
    { name: 'verified_phone', kind: 'text', isOriginal: false },
    { name: 'confidence', kind: 'number', isOriginal: false },
    { name: 'checked_at', kind: 'time', isOriginal: false },
  ])
  const values = { phone: '+1 212', confidence: '60', checked_at: 'T' }
  expect(table.toCells(rowWith(values, '"a,b"'))).toEqual(['a,b', '', '+1 212', '60', 'T'])
  expect(table.toCells(rowWith(values, 'a,b,c'))).toEqual(['a', 'b', '+1 212', '60', 'T'])
})

describe('a workbook of results', () => {
  it('has texts, numbers of its own, a frozen line of names, and a filter', async () => {
    const bytes = await workbookBytes(TABLE, [
      rowWith({ row: '1', input: '0049170', e164: '+49170', confidence: '60' }),
      rowWith({ row: '2', input: '=HYPERLINK("http://a")' }),
    ])
    const xml = await partOf(bytes, 'xl/worksheets/sheet1.xml')
    expect(xml).toContain('<pane ySplit="1" topLeftCell="A2" activePane="bottomLeft" ' +
      'state="frozen"/>')
    expect(xml).toContain('<autoFilter ref="A1:V3"/>')
    expect(xml).toContain('<c r="A2"><v>1</v></c><c r="B2" s="1" t="inlineStr"><is><t>0049170</t>')
    expect(xml).toContain('<is><t>=HYPERLINK("http://a")</t></is>')
    expect(xml).not.toContain('<f>')
    expect((await sheetOf(bytes, 'Results'))[0]?.cells).toEqual(listColumns('phone-validation'))
  })

  it('has a sheet with the verdicts, counts and money of the job', async () => {
    const summary = await sheetOf(await workbookBytes(TABLE, []), 'Summary')
    expect(summary.map(({ cells }) => cells.join(': '))).toEqual(expect.arrayContaining([
      `Job: ${EXAMPLE_JOBS.completed.id}`, 'Rows: 4', 'Rows valid: 3', 'Rows invalid: 1',
      'Rows that repeat another: 1', 'Rows unreadable or blocked: 1',
      'Charged in USD: 0.004', 'Reason assigned_range: 3',
    ]))
  })

  it('has no verdicts of a job that has none, and no cell that spreadsheets repair', async () => {
    const long = `${'x'.repeat(32_766)}\ud83d\ude00`
    const bytes = await buffer(workbookStream({
      job: { ...EXAMPLE_JOBS.completed, verdicts: null, reasons: null },
      tenant: 'a',
      table: textTable(1),
      rows: (async function * () { yield [[long]] })(),
    }))
    const [, row] = await sheetOf(bytes, 'Results')
    expect(row?.cells[0]).toBe(`${'x'.repeat(32_766)}\u2026`)
    expect((await sheetOf(bytes, 'Summary')).some(({ cells }) => /valid/.test(cells[0] ?? '')))
      .toBe(false)
  })

  it('is the same bytes each time', async () => {
    const rows = [rowWith({ row: '1', input: 'a' })]
    expect(await workbookBytes(TABLE, rows)).toEqual(await workbookBytes(TABLE, rows))
  })

  const streamOf = (rows: AsyncIterable<readonly (readonly string[])[]>): Readable =>
    workbookStream({ job: EXAMPLE_JOBS.completed, tenant: 'a', table: textTable(1), rows })

  it('fails where its rows fail', async () => {
    const lost = new Error('lost')
    const stream = streamOf((async function * () { yield [['a']]; throw lost })())
    await expect(buffer(stream)).rejects.toBe(lost)
  })

  it('reads no further and closes its rows when it is destroyed', async () => {
    const closed = Promise.withResolvers<number>()
    let batches = 0
    const stream = streamOf((async function * () {
      try {
        for (;;) {
          batches += 1
          yield Array.from({ length: 1_000 }, () => [`${Math.random()}`.repeat(20)])
        }
      } finally {
        closed.resolve(batches)
      }
    })())
    let bytes = 0
    stream.on('data', (piece: Buffer) => {
      bytes += piece.length
      if (bytes > 200_000) stream.destroy()
    })
    expect(await closed.promise).toBeLessThan(100)
  })
})
