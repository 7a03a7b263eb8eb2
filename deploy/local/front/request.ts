import { hasSecondStatement, splitInsert, type InsertText } from './sql.ts'

/** What one HTTP request asks the engine to do. */
export type EngineRequest = {
  readonly sql: string
  /** The data of an INSERT and its text without them; undefined when the text is all. */
  readonly insert?: { readonly text: InsertText, readonly data: Buffer }
  /** Typed query parameters (`{name:Type}`), values as they came in the URL. */
  readonly parameters: ReadonlyMap<string, string>
  readonly settings: ReadonlyMap<string, string>
  readonly database?: string
  readonly defaultFormat: string
}

/** A request that no server would run; the code is the engine's own for that kind of fault. */
export class BadRequest extends Error {
  readonly code: number
  constructor (code: number, type: string, message: string) {
    super(`Code: ${code}. DB::Exception: ${message}. (${type})`)
    this.code = code
  }
}

/** URL parameters about the transport; everything else in the URL is a setting of the query. */
const transport = new Set([
  'query', 'query_id', 'database', 'default_format', 'session_id', 'session_timeout',
  'session_check', 'role', 'user', 'password', 'quota_key', 'compress', 'decompress',
  'wait_end_of_query', 'buffer_size', 'stacktrace', 'close_session', 'client_protocol_version',
  'enable_http_compression', 'http_zlib_compression_level', 'http_headers_progress_interval_ms',
  'send_progress_in_http_headers', 'add_http_cors_header',
  'cancel_http_readonly_queries_on_client_close',
])

const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/
const MAX_QUERY_BYTES = 1024 * 1024

/** Reads the URL's parameters (and a form's, which has the same names) and the body. */
export function parseRequest (fields: Iterable<[string, string]>, body: Buffer): EngineRequest {
  const parameters = new Map<string, string>()
  const settings = new Map<string, string>()
  const plain = new Map<string, string>()
  for (const [name, value] of fields) {
    if (name.startsWith('param_')) parameters.set(nameFrom(name.slice('param_'.length)), value)
    else if (transport.has(name)) plain.set(name, value)
    else settings.set(nameFrom(name), value)
  }
  const database = plain.get('database')
  return {
    ...statementFrom(plain.get('query') ?? '', body),
    parameters,
    settings,
    defaultFormat: plain.get('default_format') ?? 'TabSeparated',
    ...(database === undefined ? {} : { database }),
  }
}

/** Names become part of a SET statement, so only identifiers may pass. */
function nameFrom (name: string): string {
  if (NAME.test(name)) return name
  throw new BadRequest(36, 'BAD_ARGUMENTS', `Name ${JSON.stringify(name)} is not an identifier`)
}

/** The query is the URL's text followed by the body; data of an INSERT begin after its format. */
function statementFrom (
  query: string, body: Buffer
): Pick<EngineRequest, 'sql' | 'insert'> {
  const inUrl = query === '' ? undefined : splitInsert(query)
  if (inUrl) {
    const rest = Buffer.from(query.slice(inUrl.dataAt))
    return { sql: query, insert: { text: inUrl, data: Buffer.concat([rest, body]) } }
  }
  const start = body.subarray(0, MAX_QUERY_BYTES).toString('utf8')
  const inBody = query === '' ? splitInsert(start) : undefined
  if (inBody) {
    const dataAt = Buffer.byteLength(start.slice(0, inBody.dataAt))
    const insert = { text: inBody, data: body.subarray(dataAt) }
    return { sql: start.slice(0, inBody.dataAt), insert }
  }
  const sql = [query, body.toString('utf8')].filter((text) => text !== '').join('\n')
  if (sql.trim() === '') throw new BadRequest(62, 'SYNTAX_ERROR', 'Empty query')
  if (hasSecondStatement(sql)) {
    throw new BadRequest(62, 'SYNTAX_ERROR', 'Multi-statements are not allowed')
  }
  return { sql }
}
