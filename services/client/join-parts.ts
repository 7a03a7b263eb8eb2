import { closeSync, existsSync, fsyncSync, ftruncateSync, openSync, statSync, writeSync }
  from 'node:fs'
import { pipeline, Readable } from 'node:stream'
import { parse } from 'csv-parse'
import { textOf } from './csv-dialect.ts'
import { readRecords, type CsvRecord } from './csv-records.ts'
import { createLines, headerLine, type Layout } from './join-lines.ts'
import { patiently } from './patience.ts'
import { addedNames, columnsToAdd, wantedColumns } from './result-columns.ts'
import { NOTHING_JOINED, type Joined, type Part } from './run-state.ts'
import { unfinishedFileOf, type Run } from './submit-settings.ts'

type Rows = AsyncIterator<readonly string[]>

const WRITE_CHARACTERS = 256 * 1_024

/**
 * Writes the lines of the file with their results behind them, job by job in the order of the file,
 * and notes after each how much of the unfinished output is complete. Neither the file nor the
 * results are held in memory.
 */
export async function joinParts (run: Run): Promise<void> {
  const { store, parts, settings: { output } } = run
  const unfinished = unfinishedFileOf(output)
  const { bytes } = store.state().joined
  if (bytes > 0 && (!existsSync(unfinished) || statSync(unfinished).size < bytes)) {
    store.update({ joined: NOTHING_JOINED })
  }
  for (let index = store.state().joined.parts; index < store.state().parts.length; index++) {
    await patiently(() => joinPart(run, unfinished), parts)
  }
}

async function joinPart (run: Run, unfinished: string): Promise<void> {
  const { store, settings, parts } = run
  const { joined, file, plan, parts: all } = store.state()
  const part = all[joined.parts] as Part
  const results = await resultsOf(run, part.job ?? '')
  const handle = openSync(unfinished, joined.bytes === 0 ? 'w' : 'r+')
  try {
    ftruncateSync(handle, joined.bytes)
    const { value: columnsOfResults = [] } = await results.next()
    const columns = joined.parts > 0
      ? joined.columns
      : columnsToAdd(columnsOfResults, wantedColumns(settings.only, columnsOfResults))
    const layout = { file, plan, columns, guarded: settings.guarded }
    const writer = createWriter(handle, joined)
    if (joined.parts === 0) await writeHeader(run, layout, writer)
    const lineOf = createLines(layout, { columnsOfResults, firstRow: part.firstRow })
    const statusAt = columnsOfResults.indexOf('status')
    for await (const record of readRecords(settings.input, file.dialect, part)) {
      const row = await results.next()
      if (row.done === true) throw new Error(`the results of ${part.job} end too early`)
      writer.write(lineOf(record, row.value), row.value[statusAt])
    }
    if ((await results.next()).done !== true) throw new Error(`${part.job} has too many results`)
    const { bytes, byStatus } = writer.flush()
    fsyncSync(handle)
    store.update({ joined: { parts: joined.parts + 1, bytes, columns, byStatus } })
  } finally {
    closeSync(handle)
    await results.return?.()
  }
  if (all.length > 1) parts.say(`Joined ${store.state().joined.parts} of ${all.length} jobs.`)
}

async function writeHeader (
  { store, settings }: Run, layout: Layout, { write }: Writer
): Promise<void> {
  const { file, plan } = store.state()
  let header: CsvRecord | undefined
  for await (const record of readRecords(settings.input, file.dialect, plan.header)) header = record
  if (header === undefined) throw new Error('the header of the file is gone')
  const original = header.cells.map(cell => textOf(cell, file.encoding))
  write(headerLine(header, addedNames(layout.columns, original), layout))
}

/** The rows of a result file, its header first. */
async function resultsOf ({ parts: { client } }: Run, job: string): Promise<Rows> {
  const parser = parse()
  const pieces = Readable.from(await client.resultsFile(job), { objectMode: false })
  // What goes wrong is thrown by the reading of the parser.
  pipeline(pieces, parser, () => {})
  return (parser as AsyncIterable<readonly string[]>)[Symbol.asyncIterator]()
}

type Writer = {
  readonly write: (line: string, status?: string) => void
  readonly flush: () => Pick<Joined, 'bytes' | 'byStatus'>
}

function createWriter (handle: number, { bytes: start, byStatus: counts }: Joined): Writer {
  const byStatus: Record<string, number> = { ...counts }
  let bytes = start
  let waiting = ''
  const flush = () => {
    const piece = Buffer.from(waiting, 'latin1')
    for (let at = 0; at < piece.length;) {
      at += writeSync(handle, piece, at, piece.length - at, bytes + at)
    }
    bytes += piece.length
    waiting = ''
    return { bytes, byStatus }
  }
  return {
    write: (line, status) => {
      if (status !== undefined) byStatus[status] = (byStatus[status] ?? 0) + 1
      waiting += line
      if (waiting.length >= WRITE_CHARACTERS) flush()
    },
    flush,
  }
}
