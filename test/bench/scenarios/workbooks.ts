import type { BenchContext } from '../run.ts'
import { rowOf, workbookOf } from '../../support/workbooks.ts'
import { freshPhones } from '../jobs.ts'
import { usageOf } from '../usage.ts'

const KINDS = ['csv', 'xlsx'] as const
const MIB = 1_024 * 1_024

/** The same rows as CSV and as a workbook: a job, and its results in the same form. */
export async function measureWorkbooks (
  context: Pick<BenchContext, 'client' | 'log' | 'rows' | 'services'>
) {
  const { log, rows } = context
  log(`${rows} rows as CSV and as a workbook, in and out`)
  const pid = context.services.list().find(({ name }) => name.startsWith('ingest'))?.pid
  if (pid === undefined) throw new Error('no process of the services takes requests')
  // Loads the code of both.
  for (const kind of KINDS) await measureFile(context, { kind, pid, rows: 100 })
  // CSV first, so that its peak of memory is its own.
  const csv = await measureFile(context, { kind: 'csv', pid, rows })
  const xlsx = await measureFile(context, { kind: 'xlsx', pid, rows })
  return {
    rows,
    csv,
    xlsx,
    /** CPU of a workbook in and out, in that of CSV. */
    ratioIn: xlsx.acceptCpuMs / csv.acceptCpuMs,
    ratioOut: xlsx.downloadCpuMs / csv.downloadCpuMs,
  }
}

type Measured = { readonly kind: typeof KINDS[number], readonly pid: number, readonly rows: number }

/** A job and its results as files of a kind. */
async function measureFile (
  { client }: Pick<BenchContext, 'client'>, { kind, pid, rows }: Measured
) {
  const table = [['id', 'phone', 'note'], ...freshPhones(rows).map((phone, row) =>
    [String(row), phone, `customer ${row}`])]
  const file = kind === 'csv'
    ? Buffer.from(table.map(cells => cells.join(',')).join('\r\n'))
    : workbookOf({ rows: table.map((cells, row) => rowOf(row + 1, ...cells)).join('') })
  const sent = startClock(pid)
  const { id } = await client.createJobFromFile(file, {
    service: 'phone-validation', column: 'phone', countryCode: 'US',
  })
  const accepted = sent()
  const { status } = await client.waitForEnd(id)
  if (status !== 'completed') throw new Error(`${id} is ${status}`)
  const asked = startClock(pid)
  let bytes = 0
  for await (const piece of await client.resultsFile(id, { format: kind, join: 'original' })) {
    bytes += piece.length
  }
  const downloaded = asked()
  if (bytes === 0) throw new Error(`${id} has no results`)
  return {
    /** Of the file that is sent. */
    megabytes: file.length / MIB,
    /** From the request to the 202, and the CPU of ingest for that. */
    acceptMs: accepted.wallMs,
    acceptCpuMs: accepted.cpuMs,
    downloadMs: downloaded.wallMs,
    downloadCpuMs: downloaded.cpuMs,
    /** The highest resident memory of ingest so far. */
    peakMb: usageOf(pid).peakMb,
  }
}

/** Time and CPU of a process from here to the call of the result. */
function startClock (pid: number) {
  const startedAt = performance.now()
  const { cpuSeconds } = usageOf(pid)
  return () => ({
    wallMs: performance.now() - startedAt,
    cpuMs: 1_000 * (usageOf(pid).cpuSeconds - cpuSeconds),
  })
}
