import { buffer } from 'node:stream/consumers'
import { Readable } from 'node:stream'
import { EXAMPLE_JOBS } from '../../schemas/api/job.ts'
import { listRowFields } from '../../services/jobs/results/columns.ts'
import type { Job } from '../../services/jobs/job.ts'
import {
  parquetPieces, createTable, type ResultTable, workbookStream,
} from '../../services/jobs/results/result-tables.ts'
import type { Rows } from '../../services/jobs/results/results.ts'

const JOB = { service: 'phone-validation', tenant: 'org:live' } as Job
const FIELDS = listRowFields('phone-validation')

type Table = Parameters<typeof createTable>[1]

/** The table of a job of phone numbers. */
export const tableOf = (options: Table) => createTable(JOB, options)

/** The fields of a row by their names; the customer's line last if it is given. */
export const rowWith = (values: Readonly<Record<string, string>>, line?: string) =>
  [...FIELDS.map(name => values[name] ?? ''), ...line === undefined ? [] : [line]]

/** A table of texts, whose cells are the fields of the rows. */
export const textTable = (width: number): ResultTable => ({
  columns: Array.from({ length: width }, (_, at) =>
    ({ name: `c${at}`, kind: 'text', isOriginal: true })),
  toCells: fields => fields,
})

async function * batchesOf (rows: Rows) {
  for (let at = 0; at < rows.length; at += 1_000) yield rows.slice(at, at + 1_000)
}

/** The workbook of these rows as bytes. */
export async function workbookBytes (table: ResultTable, rows: Rows): Promise<Buffer> {
  return await buffer(workbookStream({
    job: EXAMPLE_JOBS.completed, tenant: JOB.tenant, table, rows: batchesOf(rows),
  }))
}

/** The Parquet file of these rows as bytes. */
export async function parquetBytes (table: ResultTable, rows: Rows): Promise<Buffer> {
  return await buffer(Readable.from(parquetPieces(JOB.tenant, table, batchesOf(rows))))
}
