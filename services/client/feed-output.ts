import { createReadStream, createWriteStream, renameSync, rmSync } from 'node:fs'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { FeedCells } from '../../schemas/feeds/seal.ts'
import { csvCell } from './csv-cells.ts'
import { FeedError } from './feed-topics.ts'

/** A result as it is written: the sender's own name of the contact first. */
export type WrittenResult = {
  readonly reference: string
  readonly resultId: string
  readonly cells: FeedCells
}

export type ResultFile = {
  readonly write: (result: WrittenResult) => void
  /** Completes the file under its name; until then results stand in `<file>.part`. */
  readonly finish: () => Promise<void>
}

const NOTHING: ResultFile = { write: () => {}, finish: async () => {} }
const FIRST_COLUMNS = ['reference', 'resultId', 'status', 'reason', 'input']

/**
 * Writes results as they come: NDJSON as it is, CSV once all columns are known. Throws FeedError
 * for a file of another kind.
 */
export function openResultFile (file: string | undefined): ResultFile {
  if (file === undefined) return NOTHING
  const isCsv = /\.csv$/i.test(file)
  if (!isCsv && !/\.(ndjson|jsonl)$/i.test(file)) {
    throw new FeedError(`-o ${file}: name the file .csv, .ndjson or .jsonl, by what it shall hold.`)
  }
  const part = `${file}.part`
  const stream = createWriteStream(part)
  let failure: unknown
  stream.on('error', error => { failure = error })
  const columns = new Set(FIRST_COLUMNS)
  return {
    write: ({ reference, resultId, cells }) => {
      for (const name in cells) columns.add(name)
      stream.write(`${JSON.stringify({ reference, resultId, ...cells })}\n`)
    },
    finish: async () => {
      if (failure === undefined) await new Promise<void>(resolve => stream.end(() => resolve()))
      if (failure !== undefined) throw failure
      if (!isCsv) return renameSync(part, file)
      await toCsv(part, file, [...columns])
      rmSync(part)
    },
  }
}

async function toCsv (from: string, to: string, columns: readonly string[]): Promise<void> {
  const target = createWriteStream(to)
  target.write(`${columns.join(',')}\r\n`)
  for await (const line of createInterface({ input: createReadStream(from) })) {
    const cells = JSON.parse(line) as FeedCells
    const text = columns.map(name => csvCell(cells[name] ?? '')).join(',')
    if (!target.write(`${text}\r\n`)) await once(target, 'drain')
  }
  await new Promise<void>((resolve, reject) => {
    target.once('error', reject).end(() => resolve())
  })
}
