import type { ResultsPage } from '../../schemas/api/results.ts'
import { columnsOf } from '../results/columns.ts'
import type { Rows } from '../results/results.ts'
import type { ServiceSlug } from '../topology.ts'

const NUMBERS: ReadonlySet<string> = new Set(['row', 'confidence', 'duplicate_of'])
const CURSOR = /^v1:(0|[1-9]\d{0,8})$/

type ResultRow = ResultsPage['data'][number]

/** Makes objects of cells, for jobs of a service: blank is null, but for the input as submitted. */
export function createRowShape (
  service: ServiceSlug
): (cells: readonly string[]) => ResultRow {
  const columns = columnsOf(service)
  return cells => Object.fromEntries(columns.map((name, at) => [name, valueOf(name, cells[at])]))
}

/** The rows as JSON, one a line: a piece for as many as come together. */
export async function * jsonLines (
  service: ServiceSlug, rows: AsyncIterable<Rows>
): AsyncIterable<string> {
  const shape = createRowShape(service)
  for await (const some of rows) {
    yield some.map(cells => `${JSON.stringify(shape(cells))}\n`).join('')
  }
}

/** Which rows a filter keeps; undefined when it keeps all. */
export function createRowFilter (
  service: ServiceSlug,
  wanted: { readonly status?: string | undefined, readonly source?: string | undefined }
): ((cells: readonly string[]) => boolean) | undefined {
  const { status, source } = wanted
  if (status === undefined && source === undefined) return undefined
  const columns = columnsOf(service)
  const [statusAt, sourceAt] = [columns.indexOf('status'), columns.indexOf('source')]
  return cells => (status === undefined || cells[statusAt] === status) &&
    (source === undefined || cells[sourceAt] === source)
}

/** The cursor behind a row, opaque to clients. */
export function cursorOf (afterRow: number): string {
  return Buffer.from(`v1:${afterRow}`).toString('base64url')
}

/** The row a cursor stands behind; undefined for a text that is no cursor. */
export function afterRowOf (cursor: string): number | undefined {
  const row = CURSOR.exec(Buffer.from(cursor, 'base64url').toString('latin1'))?.[1]
  return row === undefined || cursorOf(Number(row)) !== cursor ? undefined : Number(row)
}

function valueOf (name: string, text = ''): string | number | null {
  if (text === '' && name !== 'input') return null
  return NUMBERS.has(name) ? Number(text) : text
}
