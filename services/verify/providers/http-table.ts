import { parse } from 'csv-parse/sync'
import { inflateRawSync } from 'node:zlib'

/** A larger file of an archive, uncompressed, is not read. */
const MAX_FILE_BYTES = 16 * 1_024 * 1_024
const MAX_FILES = 64

type Row = Readonly<Record<string, string>>

/**
 * The rows of a table under the names of its first line: CSV, an Excel sheet (the first one), or an
 * archive (ZIP) with one of them. Undefined if it is none of these, or too large.
 */
export function readTable (bytes: Buffer): readonly Row[] | undefined {
  try {
    const files = filesIn(bytes)
    if (files === undefined) return rowsOf(csvCells(bytes))
    if (files.has('xl/workbook.xml')) return rowsOf(sheetCells(files))
    const [name] = [...files.keys()].filter((one) => /\.(?:csv|txt|xlsx)$/i.test(one))
    const file = files.get(name ?? '')?.()
    if (file === undefined) return undefined
    const inner = name?.toLowerCase().endsWith('.xlsx') === true ? filesIn(file) : undefined
    return rowsOf(inner === undefined ? csvCells(file) : sheetCells(inner))
  } catch {
    return undefined
  }
}

type Cells = readonly (readonly string[])[]

function rowsOf (cells: Cells): readonly Row[] | undefined {
  const [head, ...lines] = cells
  if (head === undefined) return undefined
  const names = head.map((name) => name.trim())
  return lines.map((line) =>
    Object.fromEntries(names.map((name, column) => [name, (line[column] ?? '').trim()])))
}

function csvCells (bytes: Buffer): Cells {
  return parse(bytes, { bom: true, skip_empty_lines: true, relax_column_count: true }) as Cells
}

type Files = ReadonlyMap<string, () => Buffer>

const END = 0x06054b50
const ENTRY = 0x02014b50
const END_BYTES = 22
const MAX_COMMENT = 65_535

/**
 * The files of an archive by name, unpacked when they are read; undefined if it is no archive.
 * @throws RangeError for an archive that is cut off.
 */
function filesIn (bytes: Buffer): Files | undefined {
  if (bytes.toString('latin1', 0, 4) !== 'PK\x03\x04') return undefined
  const from = Math.max(0, bytes.length - END_BYTES - MAX_COMMENT)
  let end = bytes.length - END_BYTES
  while (end >= from && bytes.readUInt32LE(end) !== END) end--
  if (end < from) throw new RangeError('the archive is cut off: it has no directory')
  const files = new Map<string, () => Buffer>()
  const count = Math.min(bytes.readUInt16LE(end + 10), MAX_FILES)
  let here = bytes.readUInt32LE(end + 16)
  for (let index = 0; index < count && bytes.readUInt32LE(here) === ENTRY; index++) {
    const nameEnd = here + 46 + bytes.readUInt16LE(here + 28)
    const entry = {
      method: bytes.readUInt16LE(here + 10),
      packed: bytes.readUInt32LE(here + 20),
      local: bytes.readUInt32LE(here + 42),
    }
    files.set(bytes.toString('utf8', here + 46, nameEnd), () => unpacked(bytes, entry))
    here = nameEnd + bytes.readUInt16LE(here + 30) + bytes.readUInt16LE(here + 32)
  }
  return files
}

type Entry = { readonly method: number, readonly packed: number, readonly local: number }

function unpacked (bytes: Buffer, { method, packed, local }: Entry): Buffer {
  const start = local + 30 + bytes.readUInt16LE(local + 26) + bytes.readUInt16LE(local + 28)
  const content = bytes.subarray(start, start + packed)
  return method === 0 ? content : inflateRawSync(content, { maxOutputLength: MAX_FILE_BYTES })
}

/** The cells of the first sheet of an Excel file. */
function sheetCells (files: Files): Cells {
  const [sheet] = [...files.keys()].filter((name) => /^xl\/worksheets\/[^/]+\.xml$/.test(name))
    .toSorted((a, b) => a.localeCompare(b, 'en', { numeric: true }))
  const textIn = (name: string | undefined) => files.get(name ?? '')?.().toString('utf8') ?? ''
  const shared = elements(textIn('xl/sharedStrings.xml'), 'si').map(({ content }) => texts(content))
  return elements(textIn(sheet), 'row').map(({ content }) => {
    const line: string[] = []
    for (const cell of elements(content, 'c')) {
      const at = columnOf(attribute(cell.head, 'r')) ?? line.length
      const value = elements(cell.content, 'v')[0]?.content ?? ''
      const kind = attribute(cell.head, 't')
      if (at < MAX_COLUMNS) {
        const own = decoded(value) || texts(cell.content)
        line[at] = kind === 's' ? shared[Number(value)] ?? '' : own
      }
    }
    return Array.from(line, (text) => text ?? '')
  })
}

const MAX_COLUMNS = 256

/** The index of a column, from a name such as `AB12`. */
function columnOf (name: string | undefined): number | undefined {
  const letters = /^[A-Z]{1,3}/.exec(name ?? '')?.[0]
  if (letters === undefined) return undefined
  return [...letters].reduce((sum, letter) => sum * 26 + letter.charCodeAt(0) - 64, 0) - 1
}

type Element = { readonly head: string, readonly content: string }

/** The elements of a name; those of Excel files never contain themselves. */
function elements (xml: string, name: string): readonly Element[] {
  const pattern = new RegExp(`<${name}((?:\\s[^<>]*?)?)(?:/>|>([^]*?)</${name}>)`, 'g')
  return Array.from(xml.matchAll(pattern), ([, head = '', content = '']) => ({ head, content }))
}

function attribute (head: string, name: string): string | undefined {
  return new RegExp(`\\s${name}="([^"]*)"`).exec(head)?.[1]
}

const texts = (xml: string) => elements(xml, 't').map(({ content }) => decoded(content)).join('')

const ENTITIES: Readonly<Record<string, string>> = {
  lt: '<', gt: '>', quot: '"', apos: '\'', amp: '&',
}

function decoded (text: string): string {
  return text.replace(/&(lt|gt|quot|apos|amp);/g, (_, name: string) => ENTITIES[name] ?? '')
}
