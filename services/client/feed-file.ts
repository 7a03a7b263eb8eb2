import { closeSync, createReadStream, existsSync, openSync, readSync, statSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { parse } from 'csv-parse'
import { CommandError } from './command-error.ts'
import { dialectOf } from './csv-dialect.ts'
import { FeedError } from './feed-topics.ts'

export type FileOptions = {
  readonly file: string
  /** Name of the field with the inputs; found by itself when it has one of the usual names. */
  readonly column?: string | undefined
  /** Name of the field with the references; rows are numbered when there is none. */
  readonly referenceColumn?: string | undefined
}

export type FileContact = {
  readonly input: string
  /** Undefined when the file names none. */
  readonly reference: string | undefined
  readonly countryCode: string | undefined
}

export type ContactFile = {
  readonly contacts: AsyncIterable<FileContact>
  /** The part of the file that has been read, from 0 to 1. */
  readonly read: () => number
}

type Fields = Readonly<Record<string, unknown>>

const INPUT_NAMES = ['input', 'phone', 'email', 'contact']
const REFERENCE_NAMES = ['reference', 'id']

/**
 * Reads contacts from a CSV file with a header line, or from NDJSON, a piece at a time: a file may
 * be of any size. Throws FeedError when the file or its column can't be told.
 */
export function openContactFile (options: FileOptions): ContactFile {
  const { file } = options
  if (!existsSync(file)) throw new FeedError(`There is no file ${file}.`)
  const isCsv = /\.csv$/i.test(file)
  if (!isCsv && !/\.(ndjson|jsonl)$/i.test(file)) {
    throw new FeedError(`${file}: name the file .csv, .ndjson or .jsonl, by what it holds.`)
  }
  const bytes = statSync(file).size
  const stream = createReadStream(file)
  const records = isCsv ? csvRecords(stream, delimiterIn(file)) : jsonRecords(stream, file)
  return {
    contacts: contactsOf(records, options),
    read: () => bytes === 0 ? 1 : stream.bytesRead / bytes,
  }
}

async function * contactsOf (
  records: AsyncIterable<Fields>, { file, column, referenceColumn }: FileOptions
): AsyncIterable<FileContact> {
  let input: string | undefined
  let reference: string | undefined
  for await (const record of records) {
    if (input === undefined) {
      const names = Object.keys(record)
      input = chosen(names, { file, asked: column, usual: INPUT_NAMES })
      if (input === undefined && names.length === 1) [input] = names
      if (input === undefined) {
        throw new FeedError(`${file}: say with --column which field holds the contacts; there ` +
          `are ${names.join(', ')}.`)
      }
      reference = chosen(names, { file, asked: referenceColumn, usual: REFERENCE_NAMES })
    }
    yield {
      input: textOf(record[input]),
      reference: reference === undefined ? undefined : textOf(record[reference]),
      countryCode: textOf(record['countryCode']) || undefined,
    }
  }
}

function chosen (
  names: readonly string[],
  { file, asked, usual }: {
    readonly file: string
    readonly asked: string | undefined
    readonly usual: readonly string[]
  }
): string | undefined {
  if (asked === undefined) return usual.find(name => names.includes(name))
  if (names.includes(asked)) return asked
  throw new FeedError(`${file} has no field ${asked}; there are ${names.join(', ')}.`)
}

function textOf (value: unknown): string {
  if (typeof value === 'string') return value
  return typeof value === 'number' ? String(value) : ''
}

/** What stands between the cells: comma, semicolon, tab or bar, as its beginning tells. */
function delimiterIn (file: string): string {
  const sample = Buffer.alloc(64 * 1_024)
  const handle = openSync(file, 'r')
  try {
    return dialectOf(sample.subarray(0, readSync(handle, sample, 0, sample.length, 0))).delimiter
  } catch (error) {
    throw error instanceof CommandError ? new FeedError(error.message, { cause: error }) : error
  } finally {
    closeSync(handle)
  }
}

async function * csvRecords (
  stream: NodeJS.ReadableStream, delimiter: string
): AsyncIterable<Fields> {
  const options = { columns: true, bom: true, skip_empty_lines: true, delimiter }
  const parser = stream.pipe(parse(options))
  try {
    yield * parser as AsyncIterable<Fields>
  } catch (cause) {
    throw new FeedError(`The CSV can't be read: ${messageOf(cause)}`, { cause })
  }
}

async function * jsonRecords (stream: NodeJS.ReadableStream, file: string): AsyncIterable<Fields> {
  let line = 0
  for await (const text of createInterface({ input: stream, crlfDelay: Infinity })) {
    line++
    if (text.trim() === '') continue
    yield objectOf(text, `${file}, line ${line}`)
  }
}

function objectOf (text: string, place: string): Fields {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Fields
  } catch {
    // Told below, as for any other line that holds no object.
  }
  throw new FeedError(`${place}: each line is a JSON object like {"input":"+12127365000"}.`)
}

function messageOf (error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
