import { closeSync, fsyncSync, ftruncateSync, writeSync } from 'node:fs'
import { pipeline, Readable } from 'node:stream'
import { parse } from 'csv-parse'
import { guardCell, uniqueNames } from '../../schemas/files/csv-format.ts'
import { columnsToAppend, parseOnly, ROW_NUMBER_COLUMNS } from './columns.ts'
import { CommandError } from './terminal.ts'
import { csvCell, decodeCell, encodeCell, readRecords, type CsvRecord } from './csv.ts'
import { decodeContact, type FileFacts, type Plan } from './plan.ts'
import { NOTHING_JOINED, type Joined, type RunJob } from './run-state.ts'
import type { Run } from './run.ts'
import { retryWhileUnavailable } from './transport.ts'

type Rows = AsyncIterator<readonly string[]>

const WRITE_CHARACTERS = 256 * 1_024

/**
 * Appends the results to the wanted lines of the file, job by job in the order of the file, and
 * stores after each job how much of the unfinished output is complete. Streams both the file and
 * the results. Throws CommandError when the file has changed or the results do not match the job.
 * The service's `join=original` keeps no bytes: it takes one job in UTF-8, writes cells with commas
 * and CRLF and only the quotes they need, and refuses rows that are wider than the first line.
 */
export async function joinResults (run: Run): Promise<void> {
  const { store, deps, folder, names } = run
  const { bytes } = store.state().joined
  if (bytes > 0 && (folder.facts(names.unfinished)?.size ?? 0) < bytes) {
    store.update({ joined: NOTHING_JOINED })
  }
  for (let index = store.state().joined.jobs; index < store.state().jobs.length; index++) {
    await retryWhileUnavailable(() => joinJob(run), deps)
  }
}

async function joinJob (run: Run): Promise<void> {
  const { store, settings, deps, input, folder, names: { unfinished } } = run
  const { joined, file, plan, jobs } = store.state()
  const job = jobs[joined.jobs] as RunJob
  const results = await readResults(run, job.id ?? '')
  const handle = joined.bytes === 0 ? folder.create(unfinished) : folder.continue(unfinished)
  try {
    ftruncateSync(handle, joined.bytes)
    const { value: resultColumns = [] } = await results.next()
    const columns = joined.jobs > 0
      ? joined.columns
      : columnsToAppend(resultColumns, parseOnly(settings.only, resultColumns))
    const layout = { file, plan, columns, guarded: settings.guarded }
    const writer = createWriter(handle, joined)
    if (joined.jobs === 0) await writeHeader(run, layout, writer)
    const lineOf = createLines(layout, { resultColumns, firstRow: job.firstRow })
    const statusIndex = resultColumns.indexOf('status')
    const isWanted = createLineFilter(settings, resultColumns)
    let rows = 0
    for await (const record of readRecords(input, file.dialect, job)) {
      const row = await results.next()
      if (row.done === true) throw countError(run, job, { lines: rows + 1, results: rows })
      rows++
      const line = lineOf(record, row.value)
      writer.write(isWanted(row.value) ? line : '', row.value[statusIndex])
    }
    if ((await results.next()).done !== true) {
      throw countError(run, job, { lines: rows, results: rows + 1 })
    }
    const { bytes, byStatus } = writer.flush()
    fsyncSync(handle)
    store.update({ joined: { jobs: joined.jobs + 1, bytes, columns, byStatus } })
  } finally {
    closeSync(handle)
    await results.return?.()
  }
  if (jobs.length > 1) deps.say(`Joined ${store.state().joined.jobs} of ${jobs.length} jobs.`)
}

/** Whether a line is written, by its result. */
function createLineFilter (
  { status, dropDuplicates }: Run['settings'], columns: readonly string[]
): (result: readonly string[]) => boolean {
  const [statusAt, originalAt] = [columns.indexOf('status'), columns.indexOf('duplicate_of')]
  return result => status?.includes(result[statusAt] ?? '') !== false &&
    !(dropDuplicates === true && result[originalAt] !== '')
}

/** `lines` of the file and `results` of the job are counted up to the first difference. */
function countError (
  { settings: { input } }: Run, { id, rows }: RunJob,
  { lines, results }: { readonly lines: number, readonly results: number }
): CommandError {
  if (lines > rows || (lines < results && lines < rows)) {
    return new CommandError(`${input} no longer has the ${rows} rows of job ${id}: it has ` +
      'changed during the run. Restore it and run the command again.')
  }
  const has = results > rows ? `more than ${rows}` : `only ${results}`
  return new CommandError(
    `Job ${id} has ${rows} rows, but its result file has ${has}. Run the command again.`)
}

async function writeHeader (
  { store, input }: Run, layout: Layout, { write }: Writer
): Promise<void> {
  const { file, plan } = store.state()
  let header: CsvRecord | undefined
  for await (const record of readRecords(input, file.dialect, plan.header)) header = record
  if (header === undefined) {
    throw new CommandError(`${input.path} has lost its header line during the run. Restore ` +
      'it and run the command again.')
  }
  const original = header.cells.map(cell => decodeCell(cell, file.encoding))
  write(headerLine(header, uniqueNames(layout.columns, original), layout))
}

/** Streams the rows of a result file, starting with its header. */
async function readResults ({ deps: { client } }: Run, id: string): Promise<Rows> {
  const parser = parse()
  const bytes = Readable.from(await client.resultsFile(id), { objectMode: false })
  // Reading from the parser throws the errors of the pipeline.
  pipeline(bytes, parser, () => {})
  return (parser as AsyncIterable<readonly string[]>)[Symbol.asyncIterator]()
}

type Writer = {
  readonly write: (line: string, status?: string) => void
  readonly flush: () => Pick<Joined, 'bytes' | 'byStatus'>
}

function createWriter (handle: number, { bytes: start, byStatus: counts }: Joined): Writer {
  const byStatus: Record<string, number> = { ...counts }
  let bytes = start
  let buffered = ''
  const flush = () => {
    const data = Buffer.from(buffered, 'latin1')
    for (let at = 0; at < data.length;) {
      at += writeSync(handle, data, at, data.length - at, bytes + at)
    }
    bytes += data.length
    buffered = ''
    return { bytes, byStatus }
  }
  return {
    write: (line, status) => {
      if (status !== undefined) byStatus[status] = (byStatus[status] ?? 0) + 1
      buffered += line
      if (buffered.length >= WRITE_CHARACTERS) flush()
    },
    flush,
  }
}

type Layout = {
  readonly file: Pick<FileFacts, 'dialect' | 'encoding'>
  readonly plan: Pick<Plan, 'column' | 'width' | 'lineEnd'>
  /** The result columns to append, by their names in the results. */
  readonly columns: readonly string[]
  readonly guarded: boolean
}

type JobResults = {
  readonly resultColumns: readonly string[]
  /** Rows of the file before those of the job. */
  readonly firstRow: number
}

/**
 * Returns a function that formats the lines of a job: the unchanged record, padded to the width of
 * the table, and the result cells. Lines have one character per byte, as records have. The function
 * throws CommandError when the result belongs to another contact.
 */
export function createLines (layout: Layout, { resultColumns, firstRow }: JobResults) {
  const { file: { encoding }, plan, columns } = layout
  const sources = columns.map(name => ({
    index: resultColumns.indexOf(name), isRowNumber: ROW_NUMBER_COLUMNS.includes(name),
  }))
  const inputIndex = resultColumns.indexOf('input')
  let row = firstRow
  return (record: CsvRecord, result: readonly string[]): string => {
    row++
    if (result[inputIndex] !== decodeContact(record.cells[plan.column], encoding)) {
      throw new CommandError(`Row ${row} of the file is not the contact that was verified: the ` +
        'file has changed during the run. Restore it and run the command again.')
    }
    const appended = sources.map(({ index, isRowNumber }) => {
      const text = result[index] ?? ''
      return isRowNumber && text !== '' ? String(Number(text) + firstRow) : text
    })
    return appendCells(record, appended, layout) + outputEnd(record, layout)
  }
}

/**
 * Formats the header line: the columns of the file, then the names of the appended ones. A line
 * `sep=` stays before it, so that Excel reads the output as it reads the file.
 */
export function headerLine (record: CsvRecord, names: readonly string[], layout: Layout): string {
  const { file: { dialect: { preamble } }, plan: { lineEnd } } = layout
  const hasSepLine = preamble.includes('=')
  return preamble + (hasSepLine ? lineEnd : '') + appendCells(record, names, layout) +
    outputEnd(record, layout)
}

/** The end of a line: its own CRLF or LF, or else that of the file. */
function outputEnd ({ end }: CsvRecord, { plan: { lineEnd } }: Layout): string {
  return end === '\r\n' || end === '\n' ? end : lineEnd
}

function appendCells (record: CsvRecord, appended: readonly string[], layout: Layout): string {
  const { file: { dialect: { delimiter }, encoding }, plan: { width }, guarded } = layout
  const cells = appended.map(text =>
    encodeCell(csvCell(guarded ? guardCell(text) : text, delimiter), encoding))
  const padding = delimiter.repeat(Math.max(0, width - record.cells.length))
  return `${originalText(record, layout)}${padding}${delimiter}${cells.join(delimiter)}`
}

/** The bytes of a record stay unchanged unless one of its cells must be escaped. */
function originalText ({ text, cells }: CsvRecord, { file, guarded }: Layout): string {
  if (!guarded) return text
  const { delimiter } = file.dialect
  if (cells.every(cell => guardCell(cell) === cell)) return text
  return cells.map(cell => csvCell(guardCell(cell), delimiter)).join(delimiter)
}
