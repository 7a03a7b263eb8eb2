import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { columnsOf, rowFieldsOf } from '../../../../services/jobs/results/columns.ts'
import { guardCell } from '../../../../schemas/files/csv-format.ts'
import { csvCell } from '../../../../services/jobs/results/csv.ts'
import {
  cellsOfLine, createOriginalJson, joinedColumns, joinedHeader,
} from '../../../../services/jobs/results/original.ts'
import { createResults, type RowOptions } from '../../../../services/jobs/results/results.ts'
import {
  arrived, blockEmission, codec, createBlocksDouble, endedJob, keys, live, manifestEntry, textOf,
} from '../../../support/clickhouse/results.ts'

const columns = columnsOf('phone-validation')
const LINE = rowFieldsOf('phone-validation').length
const nasty = fc.string({ unit: fc.constantFrom(...'",\r\n;=\té漢1 ') })

describe('a line of a file', () => {
  it('is the cells that it was made of', () => {
    fc.assert(fc.property(fc.array(nasty, { minLength: 1, maxLength: 6 }), cells => {
      expect(cellsOfLine(cells.map(csvCell).join(','))).toEqual(cells)
    }))
  })

  it('has each cell by its column, whose name is replaced if it is blank or repeated', () => {
    const jsonOf = createOriginalJson(['column_2', '', 'a', 'a', '__proto__', 'constructor'])
    const row = JSON.parse(jsonOf('1,2,3,4,5,6'))
    expect(Object.entries(row)).toEqual([
      ['column_2', '1'], ['column_2_', '2'], ['a', '3'], ['column_4', '4'], ['__proto__', '5'],
      ['constructor', '6'],
    ])
    expect(Object.values(JSON.parse(jsonOf('')))).toEqual(['', '', '', '', '', ''])
  })
})

describe('the header of a joined file', () => {
  it('has the names of the customer, and a prefix before ours that they have too', () => {
    const own = ['ID', 'Status ', 'phone', 'verified_phone', '=cmd']
    const header = joinedHeader({ columns: own, safe: false }, joinedColumns(columns))
    expect(header.slice(0, 9)).toEqual(
      [...own, 'verified_verified_phone', 'e164', 'country', 'region'])
    expect(header).toContain('verified_status')
    expect(header).not.toContain('row')
    expect(header).not.toContain('input')
    expect(header).toHaveLength(own.length + columns.length - 2)
    expect(joinedHeader({ columns: own, safe: true }, columns)[4]).toBe("'=cmd")
  })
})

describe('joined results', () => {
  const names = ['name', 'phone']
  const contacts = { offsets: [], references: ['"A, B",1', '=cmd(),2', 'C,1', 'D,x'] }
  const inputs = ['1', '2', '1', 'x']

  async function results () {
    const place = { chunk: 0, chunks: 1, firstRow: 0, rows: 4, totalRows: 4 }
    const { value } = await arrived(blockEmission(place, [
      [0, live('a', 1)], [1, live('b')], [2, { source: 'duplicate', duplicateOf: 1 }],
      [3, live('d')],
    ], { inputs, contacts }))
    const blocks = createBlocksDouble()
    await blocks.insert([value])
    const manifest = [manifestEntry(value, [0, 1, 2, 3])]
    return { read: createResults({ blocks, codec, keys }), manifest, job: endedJob({}, 4) }
  }

  it('as CSV begin each line with that of the customer, duplicates too', async () => {
    const { read, manifest, job } = await results()
    const text = await textOf(read.csvStream(job, manifest, { original: names }))
    const lines = text.split('\r\n')
    expect(lines[0]).toMatch(/^name,phone,verified_phone,e164,country,/)
    expect(lines.slice(1).map(line => line.split(',,')[0]))
      .toEqual([...contacts.references, ''])
    expect(lines[3]).toContain(',a,valid,duplicate,90,')
    const widths = lines.slice(0, -1).map(line => cellsOfLine(line).length)
    expect(new Set(widths)).toEqual(new Set([names.length + columns.length - 2]))
  })

  it('as CSV have the selected rows and columns only', async () => {
    const { read, manifest, job } = await results()
    const keep = (cells: readonly string[]) => cells[columns.indexOf('source')] === 'duplicate'
    const text = await textOf(read.csvStream(job, manifest, {
      original: names, columns: ['row', 'phone', 'status'], keep,
    }))
    expect(text).toBe('name,phone,row,verified_phone,status\r\nC,1,3,,valid\r\n')
  })

  it('as CSV guard cells of the customer on request only', async () => {
    const { read, manifest, job } = await results()
    const safe = await textOf(read.csvStream(job, manifest, { original: names, safe: true }))
    expect(safe).toContain(`\r\n${guardCell('=cmd()')},2,`)
    expect(safe).toContain('\r\n"A, B",1,')
  })

  it('as rows and pages end with the line', async () => {
    const { read, manifest, job } = await results()
    const linesOf = async (options: RowOptions) => {
      const rows = []
      const all = read.rows(job, manifest, { ...options, withReference: true })
      for await (const some of all) rows.push(...some)
      return rows.map(cells => cells[LINE])
    }
    expect(await linesOf({})).toEqual(contacts.references)
    expect(await linesOf({ afterRow: 2, limit: 1 })).toEqual(['C,1'])
  })

  it('have blank cells where the block with the lines is lost', async () => {
    const place = { chunk: 0, chunks: 1, firstRow: 0, rows: 1, totalRows: 1 }
    const { value } = await arrived(blockEmission(place, [[0, live('a')]], { inputs: [''] }))
    const blocks = createBlocksDouble()
    await blocks.insert([value])
    const read = createResults({ blocks, codec, keys })
    const manifest = [manifestEntry(value, [0])]
    const text = await textOf(read.csvStream(endedJob(), manifest, { original: names }))
    expect(text).toMatch(/\r\n,,,,,,,,a,valid,live,/)
  })
})
