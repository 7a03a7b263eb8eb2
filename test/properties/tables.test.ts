import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { splitRows } from '../../schemas/files/csv-format.ts'
import { openInput } from '../../services/client/files.ts'
import { planJobs, readContacts, readFacts } from '../../services/client/plan.ts'
import { newFolder } from '../support/folder.ts'
import { previewUpload, readFile } from '../support/parse-upload.ts'

const path = join(newFolder('tables-'), 'a.csv')
writeFileSync(path, '')
const file = openInput(path)

const blankLines = fc.array(fc.constantFrom('', '""'), { maxLength: 4 })
/** A table with blank lines anywhere, and with an end of line behind the last or none. */
const tableBelow = (first: fc.Arbitrary<string>) => fc.record({
  before: blankLines,
  first,
  rows: fc.array(fc.tuple(fc.constantFrom('x,1', ',', '"a\n",2', 'y,'), blankLines), {
    minLength: 1, maxLength: 8,
  }),
  end: fc.constantFrom('\n', '\r\n', '\r'),
  isEnded: fc.boolean(),
}).map(({ before, first, rows, end, isEnded }) => {
  const lines = [...before, first, ...rows.flatMap(([row, after]) => [row, ...after])]
  return Buffer.from(lines.join(end) + (isEnded ? end : ''))
})
const table = tableBelow(fc.constant('name,phone'))
const limit = fc.integer({ min: 1, max: 4 })

/** The contacts of a file as a job has them; the first line names the columns, or is a row. */
const readJob = async (bytes: Uint8Array, header: boolean) =>
  (await readFile(Buffer.from(bytes), { column: '2', delimiter: ',', header })).inputs

it('a table with blank lines anywhere has the rows for submit that it has for the service', () =>
  fc.assert(fc.asyncProperty(table, limit, async (bytes, rowsPerJob) => {
    writeFileSync(path, bytes)
    const facts = await readFacts(file, { delimiter: ',' })
    const { ranges, rows } = await planJobs(file, facts, { column: 1, rowsPerJob })
    const jobs = await Promise.all(ranges.map(range =>
      readContacts(file, facts, { range, column: 1 })))
    expect(jobs.flat()).toEqual(await readJob(bytes, true))
    expect(jobs.flat()).toHaveLength(rows)
    expect(jobs.map(({ length }) => length)).toEqual(ranges.map(range => range.rows))
    expect(Math.max(...jobs.map(({ length }) => length))).toBeLessThanOrEqual(rowsPerJob)
  }), { numRuns: 500 }))

it('its parts for several jobs have all rows, of which blank lines between two are none', () =>
  fc.assert(fc.asyncProperty(table, limit, fc.boolean(), async (bytes, maxRows, hasHeader) => {
    const { head, parts } = splitRows(bytes, {
      delimiter: ',', start: 0, hasHeader, maxRows, maxBytes: 1_000,
    })
    const jobs = await Promise.all(parts.map(([from, to]) => readJob(
      Buffer.concat([bytes.subarray(0, head), bytes.subarray(from, to)]), hasHeader)))
    const rows = await readJob(bytes, hasHeader)
    const isFilled = (contact: string) => contact !== ''
    expect(jobs.flat().filter(isFilled)).toEqual(rows.filter(isFilled))
    expect(Math.max(...jobs.map(({ length }) => length))).toBeLessThanOrEqual(maxRows)
    expect(parts.length > 1).toBe(rows.length > maxRows)
  }), { numRuns: 500 }))

const firstLine = fc.constantFrom(
  'name,phone', 'name,phone 2024-01', 'Ann,+12127365000', 'Ann,Tel: +49 30 901820', ',', ' , ',
  'a@b,1', 'x,2024-01-31')

it('has the columns and rows of its preview if column and header of that are sent', () =>
  fc.assert(fc.asyncProperty(tableBelow(firstLine), async bytes => {
    const { column, header, columns, rows } = await previewUpload(bytes, {
      delimiter: ',', service: 'phone-validation',
    })
    const job = await readFile(bytes, { delimiter: ',', header, column: String(column ?? 2) })
    expect([job.columns, job.lines.length]).toEqual([columns, rows])
  }), { numRuns: 500 }))
