import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { open, stat } from 'node:fs/promises'
import { MAX_INPUTS, MAX_INPUT_CHARACTERS } from '../../schemas/api/create-job.ts'
import { CommandError } from './command-error.ts'
import type { TableHead } from './contact-column.ts'
import { dialectOf, textOf, type Dialect, type TextEncoding } from './csv-dialect.ts'
import { readRecords, type ByteRange } from './csv-records.ts'

/** A file as it is at one moment; `digest` is the SHA-256 of its bytes in hex. */
export type FileFacts = {
  readonly bytes: number
  readonly digest: string
  readonly dialect: Dialect
  readonly encoding: TextEncoding
}

/** Rows that go into one job: their place in the file, and the number of the first from 0. */
export type Slice = ByteRange & { readonly firstRow: number, readonly rows: number }

/** How a file is cut into jobs. */
export type Plan = {
  /** Place of the contacts among the columns, from 0. */
  readonly column: number
  /** The most cells of any record: shorter ones are filled up. */
  readonly width: number
  readonly rows: number
  readonly header: ByteRange
  /** What ends the header, and so lines. */
  readonly lineEnd: string
  readonly slices: readonly Slice[]
}

const SAMPLE_BYTES = 64 * 1_024
const HEAD_ROWS = 200
/** The service takes 34 MiB; metadata and the rest of a request need some of it. */
export const MOST_BODY_BYTES = 32_000_000

/** Reads a file once. Throws CommandError when there is none or it is no text. */
export async function factsOf (file: string, delimiter?: string): Promise<FileFacts> {
  const kind = await stat(file).catch(() => undefined)
  if (kind === undefined) throw new CommandError(`There is no file ${file}.`)
  if (!kind.isFile()) {
    throw new CommandError(`${file} is no file: it is read more than once, so save it to one.`)
  }
  const dialect = dialectOf(await sampleOf(file), delimiter)
  const hash = createHash('sha256')
  const decoder = new TextDecoder('utf-8', { fatal: true })
  let bytes = 0
  let isUtf8 = true
  for await (const piece of createReadStream(file) as AsyncIterable<Buffer>) {
    hash.update(piece)
    bytes += piece.length
    isUtf8 &&= decodes(() => decoder.decode(piece, { stream: true }))
  }
  isUtf8 &&= decodes(() => decoder.decode())
  const encoding = isUtf8 ? 'utf-8' : 'windows-1252'
  return { bytes, digest: hash.digest('hex'), dialect, encoding }
}

function decodes (action: () => unknown): boolean {
  try {
    action()
    return true
  } catch {
    return false
  }
}

async function sampleOf (file: string): Promise<Buffer> {
  const handle = await open(file)
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(SAMPLE_BYTES), 0, SAMPLE_BYTES, 0)
    return buffer.subarray(0, bytesRead)
  } finally {
    await handle.close()
  }
}

/** The header and the first rows. */
export async function headOf (
  file: string, { dialect, encoding, bytes }: FileFacts
): Promise<TableHead> {
  const records: string[][] = []
  const whole = { from: dialect.startByte, to: bytes }
  for await (const { cells } of readRecords(file, dialect, whole)) {
    records.push(cells.map(cell => textOf(cell, encoding)))
    if (records.length > HEAD_ROWS) break
  }
  const [header, ...rows] = records
  if (header === undefined) throw new CommandError(`${file} is empty.`)
  return { header, rows }
}

type PlanOptions = { readonly column: number, readonly rowsPerJob?: number }

/**
 * Cuts the rows of a file into jobs of so many rows (100,000, the most there may be) and of
 * requests that the service takes. Throws CommandError when there are no rows.
 */
export async function planOf (
  file: string, { dialect, encoding, bytes }: FileFacts, options: PlanOptions
): Promise<Plan> {
  const { column, rowsPerJob = MAX_INPUTS } = options
  const slices: Slice[] = []
  let header: ByteRange | undefined
  let lineEnd = ''
  let width = 0
  let bodyBytes = 0
  let slice: Slice | undefined
  for await (const record of readRecords(file, dialect, { from: dialect.startByte, to: bytes })) {
    const { cells, from, to } = record
    width = Math.max(width, cells.length)
    if (header === undefined) {
      header = { from, to }
      lineEnd = record.end
      continue
    }
    const more = bytesInBody(contactOf(cells[column], encoding))
    if (slice === undefined || slice.rows === rowsPerJob || bodyBytes + more > MOST_BODY_BYTES) {
      if (slice !== undefined) slices.push(slice)
      slice = { firstRow: slice === undefined ? 0 : slice.firstRow + slice.rows, rows: 0, from, to }
      bodyBytes = 0
    }
    slice = { ...slice, rows: slice.rows + 1, to }
    bodyBytes += more
  }
  if (header === undefined || slice === undefined) {
    throw new CommandError(`${file} holds no rows below its first line, which names the columns.`)
  }
  slices.push(slice)
  return { column, width, rows: slice.firstRow + slice.rows, header, lineEnd, slices }
}

/** What is sent of a cell; the service takes no longer text, and such a row is invalid anyway. */
export function contactOf (cell: string | undefined, encoding: TextEncoding): string {
  return textOf(cell ?? '', encoding).slice(0, MAX_INPUT_CHARACTERS).toWellFormed()
}

const bytesInBody = (contact: string) => Buffer.byteLength(JSON.stringify(contact)) + 1

/** The contacts of one job, in the order of the file. */
export async function contactsOf (
  file: string, { dialect, encoding }: Pick<FileFacts, 'dialect' | 'encoding'>,
  { slice, column }: { readonly slice: Slice, readonly column: number }
): Promise<readonly string[]> {
  const contacts: string[] = []
  for await (const { cells } of readRecords(file, dialect, slice)) {
    contacts.push(contactOf(cells[column], encoding))
  }
  return contacts
}
