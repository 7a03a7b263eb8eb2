import { ClickHouseLogLevel, createClient, type ClickHouseClient } from '@clickhouse/client'
import { InfrastructureError, isUntrusted } from './errors.ts'

const REQUEST_TIMEOUT_MS = 30_000
/** For commands: a person or a script waits rather than to begin anew. */
export const PATIENT_MS = 300_000

/**
 * A client of the audit and result store; integers of 64 bits come back as strings. Answers that
 * are none of ClickHouse's, as of a proxy whose server is away, are thrown as InfrastructureError;
 * so are refusals of the user or of the certificate, with the setting that is to be mended.
 */
export function connectClickhouse (
  url: string, timeoutMs = REQUEST_TIMEOUT_MS
): ClickHouseClient {
  return new Proxy(createClient({
    url,
    request_timeout: timeoutMs,
    // A process that was late would write to a connection that the server has closed meanwhile.
    keep_alive: { eagerly_destroy_stale_sockets: true },
    // Parameters that are too long for an address travel in the body.
    use_multipart_params_auto: true,
    // The client's own log would print parts of statements.
    log: { level: ClickHouseLogLevel.OFF },
    // An answer means stored; servers that gather inserts by themselves keep them waiting for it.
    clickhouse_settings: { date_time_input_format: 'best_effort', async_insert: 0 },
  }), { get: (client, name) => judged(client, Reflect.get(client, name)) })
}

export type Insert = {
  readonly table: string
  readonly columns: readonly string[]
  readonly values: readonly object[]
  /** Names what is inserted: the same once more leaves what is there as it is. */
  readonly token?: string
}

/** A few rows are read and written by one thread in less time than several take to begin. */
const ONE_THREAD = {
  max_threads: 1, max_insert_threads: '1', input_format_parallel_parsing: 0,
} as const

/** Stores some rows at once: they are there when this resolves. */
export async function insertRows (
  clickhouse: Pick<ClickHouseClient, 'insert'>, { table, columns, values, token }: Insert
): Promise<void> {
  await clickhouse.insert({
    table,
    columns: columns as [string, ...string[]],
    values,
    format: 'JSONEachRow',
    clickhouse_settings: {
      ...ONE_THREAD, ...token !== undefined && { insert_deduplication_token: token },
    },
  })
}

/**
 * Reads rows as they come: of a query that goes on for long, no more is kept than is looked at, and
 * whoever stops reading ends it.
 * @throws InfrastructureError as every other use of the client.
 */
export async function * streamRows<T> (
  clickhouse: Pick<ClickHouseClient, 'query'>, query: string, parameters: Record<string, unknown>
): AsyncIterable<T> {
  const answer = await clickhouse.query({
    query, query_params: parameters, format: 'JSONEachRow',
  })
  try {
    for await (const rows of answer.stream<T>()) {
      for (const row of rows) yield row.json()
    }
  } catch (error) {
    throwJudged(error)
  }
}

/** The same member; of a method that promises, failures and the reader of rows are judged too. */
function judged (owner: object, member: unknown): unknown {
  if (typeof member !== 'function') return member
  return (...given: readonly unknown[]) => {
    const result: unknown = Reflect.apply(member, owner, given)
    return result instanceof Promise ? result.then(judgedRows, throwJudged) : result
  }
}

/** Rows come after the status, so what breaks them off may have no status of its own. */
function judgedRows (result: unknown): unknown {
  if (typeof result !== 'object' || result === null || !('json' in result)) return result
  return Object.assign(result, { json: judged(result, result.json) })
}

function throwJudged (error: unknown): never {
  const refusal = refusalOf(error)
  if (refusal !== undefined) throw new InfrastructureError(refusal, { cause: error })
  if (error instanceof Error && error.message === 'Timeout error.') {
    throw new InfrastructureError('ClickHouse did not answer in time', { cause: error })
  }
  throw isForeign(error)
    ? new InfrastructureError('the answer is none of ClickHouse', { cause: error })
    : error
}

/** The client throws a bare error for a text it can't read as one, and the parser's for rows. */
function isForeign (error: unknown): boolean {
  if (error instanceof SyntaxError) return true
  return error instanceof Error && error.constructor === Error && !('code' in error)
}

/** Unknown user, wrong or missing password, and failed authentication, which stands for all. */
const SIGN_IN_CODES: readonly unknown[] = ['192', '193', '194', '516']

/** What an operator has to set right when ClickHouse is there but refuses, or is not trusted. */
function refusalOf (error: unknown): string | undefined {
  if (isUntrusted(error)) {
    return 'The certificate of ClickHouse is not trusted: give the file of its authority as ' +
      'NODE_EXTRA_CA_CERTS, and a name in the certificate in CLICKHOUSE_URL'
  }
  if (!(error instanceof Error && 'code' in error)) return undefined
  if (error.code === '497') {
    return 'ClickHouse denies this user something: give the user of CLICKHOUSE_URL the right to it'
  }
  if (!SIGN_IN_CODES.includes(error.code)) return undefined
  return 'ClickHouse refuses to sign this user in: check user and password in CLICKHOUSE_URL'
}
