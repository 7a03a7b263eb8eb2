import type { ResultsPage } from '../../schemas/api/results.ts'
import { columnsOf } from '../results/columns.ts'
import type { Rows } from '../results/results.ts'
import type { ServiceSlug } from '../topology.ts'

const NUMBERS: ReadonlySet<string> = new Set(['row', 'confidence', 'duplicate_of'])
const CURSOR = /^v1:(0|[1-9]\d{0,8})$/

type ResultRow = ResultsPage['data'][number]

/** Converts cells of a service to objects: blank cells are null, except for the submitted input. */
export function createRowShape (
  service: ServiceSlug
): (cells: readonly string[]) => ResultRow {
  const columns = columnsOf(service)
  return cells => Object.fromEntries(columns.map((name, at) => [name, valueOf(name, cells[at])]))
}

/** The rows as JSON Lines, one piece per batch. */
export async function * jsonLines (
  service: ServiceSlug, rows: AsyncIterable<Rows>
): AsyncIterable<string> {
  const shape = createRowShape(service)
  for await (const some of rows) {
    yield some.map(cells => `${JSON.stringify(shape(cells))}\n`).join('')
  }
}

/** The filter of rows; undefined if it keeps all. */
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

/** The cursor after a row, opaque to clients. */
export function cursorOf (afterRow: number): string {
  return Buffer.from(`v1:${afterRow}`).toString('base64url')
}

/** The row before a cursor; undefined for an invalid cursor. */
export function afterRowOf (cursor: string): number | undefined {
  const row = CURSOR.exec(Buffer.from(cursor, 'base64url').toString('latin1'))?.[1]
  return row === undefined || cursorOf(Number(row)) !== cursor ? undefined : Number(row)
}

function valueOf (name: string, text = ''): string | number | null {
  if (text === '' && name !== 'input') return null
  return NUMBERS.has(name) ? Number(text) : text
}
