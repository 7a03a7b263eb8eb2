import type { ResultsPage, ResultsQuery } from '../../schemas/api/results.ts'
import { bodyOf, type Transport } from './transport.ts'

/** A row of the results: the columns of the result file by name, blank cells null. */
export type ResultRow = ResultsPage['data'][number]

export type RowFilter = Pick<ResultsQuery, 'status' | 'source'>
export type PageQuery = Omit<ResultsQuery, 'format' | 'safe'>
export type FileOptions = Pick<ResultsQuery, 'safe'>

type Pieces = AsyncIterable<Uint8Array>

const LARGEST_PAGE = 1_000

/**
 * What is asked of the service for a whole file: zstd costs both sides half as much as gzip, which
 * `fetch` asks for by itself. `undici` is the version of that `fetch`, which surely opens zstd from
 * 7.29 on; one that does not would give it away as it is.
 */
export function compressedBy (undici = ''): { readonly headers?: Record<string, string> } {
  const [major = 0, minor = 0] = undici.split('.').map(Number)
  const opensZstd = major > 7 || (major === 7 && minor >= 29)
  return opensZstd ? { headers: { 'accept-encoding': 'zstd, gzip' } } : {}
}

const COMPRESSED = compressedBy(process.versions['undici'])

/** The results of a job that has come to its end, in each form they can be had. */
export function createResultReader (send: Transport) {
  const fileOf = (id: string, { safe }: FileOptions) =>
    send(`/jobs/${id}/results${queryOf({ format: 'csv', safe })}`, COMPRESSED)

  const resultsPage = (id: string, query: PageQuery = {}): Promise<ResultsPage> =>
    bodyOf(send(`/jobs/${id}/results${queryOf({ ...query, format: 'json' })}`))

  return {
    /** The whole result file as text; `safe: 'spreadsheet'` guards cells like formulas. */
    results: async (id: string, options: FileOptions = {}): Promise<string> =>
      (await fileOf(id, options)).text(),

    /** The result file in pieces as they come, for files that are not to be held in memory. */
    resultsFile: async (id: string, options: FileOptions = {}): Promise<Pieces> =>
      bytesOf(await fileOf(id, options)),

    resultsPage,

    /** Every row of that status and source, read page by page as the loop asks for them. */
    resultRows: (id: string, filter: RowFilter = {}): AsyncIterable<ResultRow> =>
      pagesOf(async cursor => await resultsPage(id, { ...filter, limit: LARGEST_PAGE, ...cursor }),
        'cursor'),

    /** Every row, by one request that streams JSON lines. */
    resultLines: async function * (id: string): AsyncIterable<ResultRow> {
      const answer = await send(`/jobs/${id}/results${queryOf({ format: 'jsonl' })}`, COMPRESSED)
      for await (const line of linesOf(bytesOf(answer))) yield JSON.parse(line) as ResultRow
    },
  }
}

type Page<T> = {
  readonly data: readonly T[]
  readonly has_more: boolean
  readonly next_cursor: string | null
}

/** All entries of a list that comes by pages; `name` is the parameter that takes the cursor. */
export async function * pagesOf<T> (
  read: (cursor: Readonly<Record<string, string>>) => Promise<Page<T>>, name: string
): AsyncIterable<T> {
  let cursor = {}
  for (;;) {
    const { data, next_cursor: next } = await read(cursor)
    yield * data
    if (next === null) return
    cursor = { [name]: next }
  }
}

/** `?a=1&b=2` of what is given, '' for nothing. */
export function queryOf (fields: Readonly<Record<string, string | number | undefined>>): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(fields)) {
    if (value !== undefined) query.set(name, String(value))
  }
  return query.size === 0 ? '' : `?${query}`
}

function bytesOf (response: Response): Pieces {
  if (response.body === null) throw new Error('the answer has no body')
  return response.body
}

async function * linesOf (pieces: Pieces): AsyncIterable<string> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const piece of pieces) {
    const lines = (rest + decoder.decode(piece, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    yield * lines
  }
  if (rest !== '') yield rest
}
