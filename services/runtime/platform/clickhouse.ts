import { createHmac, randomBytes } from 'node:crypto'
import {
  type ClickHouseClient, ClickHouseLogLevel, type ClickHouseSettings, createClient,
} from '@clickhouse/client'
import { PasswordFile } from './config.ts'
import {
  InfrastructureError, isOutageOrFatal, isUntrusted, markFailed, storeText,
} from './errors.ts'
import { retry } from './retry.ts'

const REQUEST_TIMEOUT_MS = 30_000
/** For commands, where an operator prefers a long wait to a failure. */
export const COMMAND_TIMEOUT_MS = 300_000

/** The settings of a connection to ClickHouse. */
export type ClickhouseSettings = {
  readonly CLICKHOUSE_URL: string
  readonly CLICKHOUSE_PASSWORD_FILE?: string | undefined
}

type QueryParameters = Readonly<Record<string, unknown>>

/**
 * ClickHouse, which returns 64-bit integers as strings. The password is that of the URL, or what is
 * in `passwordFile` at each request. Throws InfrastructureError for responses that are not from
 * ClickHouse (of a proxy without a backend, for example), and, with the setting to fix, for failed
 * authentication and untrusted certificates.
 */
export class Clickhouse {
  readonly #client: ClickHouseClient
  readonly #store: string
  readonly #signIn: () => { readonly auth?: { username: string, password: string } }

  constructor (
    url: string,
    { timeoutMs = REQUEST_TIMEOUT_MS, passwordFile }:
    { readonly timeoutMs?: number, readonly passwordFile?: string | undefined } = {}
  ) {
    this.#store = storeText('CLICKHOUSE_URL', url)
    const password = passwordFile === undefined ? undefined : new PasswordFile(passwordFile)
    this.#signIn = () => {
      if (password === undefined) return {}
      const username = decodeURIComponent(new URL(url).username) || 'default'
      return { auth: { username, password: password.toString() } }
    }
    this.#client = createClient({
      url,
      request_timeout: timeoutMs,
      // A blocked process would write to a connection that the server has closed in the meantime.
      keep_alive: { eagerly_destroy_stale_sockets: true },
      // Parameters that are too long for the URL are sent in the body.
      use_multipart_params_auto: true,
      // The log of the client would contain parts of statements.
      log: { level: ClickHouseLogLevel.OFF },
      // A response means that the rows are stored, also on another server of a cluster;
      // asynchronous inserts would delay it.
      clickhouse_settings: {
        date_time_input_format: 'best_effort', async_insert: 0, distributed_foreground_insert: 1,
      },
    })
  }

  /** All rows of a query. */
  async rows<T> (
    query: string, parameters: QueryParameters = {}, settings: ClickHouseSettings = {}
  ): Promise<readonly T[]> {
    try {
      return await (await this.#query(query, parameters, settings)).json<T>()
    } catch (error) {
      throw this.#explained(error)
    }
  }

  /**
   * Streams the rows of a query, so that a long result is never held in memory. Ending the
   * iteration cancels the query.
   */
  async * stream<T> (query: string, parameters: QueryParameters = {}): AsyncGenerator<T, void> {
    try {
      const answer = await this.#query(query, parameters)
      for await (const rows of answer.stream<T>()) {
        for (const row of rows) yield row.json()
      }
    } catch (error) {
      throw this.#explained(error)
    }
  }

  /**
   * Inserts rows in one statement; they are stored when this resolves, and none if it is refused.
   * @throws InfrastructureError when the table lacks a column, which is no fault of a row.
   */
  async insert ({ table, values, token }: Insert): Promise<void> {
    try {
      await this.#client.insert({
        ...this.#signIn(),
        table,
        // Columns that only inserts have are not filled unless they are named.
        columns: [...new Set(values.flatMap(Object.keys))] as [string, ...string[]],
        values,
        format: 'JSONEachRow',
        clickhouse_settings: {
          ...ONE_THREAD, ...token !== undefined && { insert_deduplication_token: token },
        },
      })
    } catch (error) {
      if (error instanceof Error && 'code' in error && COLUMN_CODES.has(error.code)) {
        throw new InfrastructureError(`table ${table} of ClickHouse lacks a column of this ` +
          'release: run "npm run provision" of this release', { cause: error })
      }
      throw this.#explained(error)
    }
  }

  async command (query: string, parameters: QueryParameters = {}): Promise<void> {
    try {
      await this.#client.command({ ...this.#signIn(), query, query_params: parameters })
    } catch (error) {
      throw this.#explained(error)
    }
  }

  close (): Promise<void> {
    return this.#client.close()
  }

  /**
   * Sent once more if the connection ends before a response: after a result that was read slowly,
   * the server may close the connection in the moment it is used again.
   */
  #query (query: string, parameters: QueryParameters, settings: ClickHouseSettings = {}) {
    return retry(2, () => this.#client.query({
      ...this.#signIn(),
      query,
      query_params: parameters,
      format: 'JSONEachRow',
      clickhouse_settings: settings,
    }), { firstMs: 0, when: isReset })
  }

  /**
   * The error, as an InfrastructureError where it is one of infrastructure; records that it comes
   * from this store, unless its message says what to fix.
   */
  #explained (error: unknown): unknown {
    const refusal = describeAccessError(error)
    if (refusal !== undefined) return new InfrastructureError(refusal, { cause: error })
    const isLate = error instanceof Error && error.message === 'Timeout error.'
    if (!isLate && isNotClickhouse(error)) {
      return new InfrastructureError('CLICKHOUSE_URL returned a response that is not from ' +
        'ClickHouse: check the URL and the proxy in front of it', { cause: error })
    }
    const explained = isLate
      ? new InfrastructureError(`${this.#store} did not respond in time`, { cause: error })
      : error
    markFailed(explained, this.#store)
    return explained
  }
}

const isReset = (error: unknown) =>
  error instanceof Error && 'code' in error && error.code === 'ECONNRESET'

export type Insert = {
  readonly table: string
  readonly values: readonly object[]
  /** Deduplication token: a second insert with the same token has no effect. */
  readonly token?: string
}

const TOKEN_KEY = randomBytes(32)

/**
 * The deduplication token, in this process, of an insert of rows with these names, which others may
 * know: with a predictable token an attacker could make ClickHouse drop the insert.
 */
export function insertToken (names: readonly string[]): string {
  return createHmac('sha256', TOKEN_KEY).update(names.join()).digest('hex')
}

/** For a few rows, starting several threads takes longer than the insert. */
const ONE_THREAD = {
  max_threads: 1,
  max_insert_threads: '1',
  input_format_parallel_parsing: 0,
  // A token also counts for the tables behind the views of a table.
  deduplicate_blocks_in_dependent_materialized_views: 1,
} as const

type RefusedRows = {
  /** Their positions in the insert, from 0. */
  readonly rows: ReadonlySet<number>
  /** The number of all rows of the insert. */
  readonly of: number
}

/** ClickHouse refuses these rows of an insert, and would again; all others of it are stored. */
export class RefusedRowsError extends Error {
  override readonly name = 'RefusedRowsError'
  readonly rows: RefusedRows['rows']

  constructor (table: string, { rows, of }: RefusedRows, options?: ErrorOptions) {
    super(`ClickHouse refused ${rows.size} of ${of} rows of table ${table}`, options)
    this.rows = rows
  }
}

/**
 * Inserts rows that need not be stored together. Those that are refused together are divided
 * until those that are refused alone are found: at most twice as many statements as there are rows.
 * @throws RefusedRowsError when some rows are refused, once all others are stored.
 */
export async function insertDivided (
  clickhouse: Pick<Clickhouse, 'insert'>, { table, values, token }: Insert
): Promise<void> {
  const refused = new Map<number, unknown>()
  const insertRange = async (from: number, to: number): Promise<void> => {
    const isWhole = to - from === values.length
    try {
      await clickhouse.insert({
        table,
        values: values.slice(from, to),
        ...token !== undefined &&
          { token: isWhole ? token : insertToken([token, `${from}-${to}`]) },
      })
    } catch (error) {
      if (isOutageOrFatal(error)) throw error
      if (to - from === 1) {
        refused.set(from, error)
        return
      }
      const middle = Math.ceil((from + to) / 2)
      await insertRange(from, middle)
      await insertRange(middle, to)
    }
  }
  if (values.length === 0) return
  await insertRange(0, values.length)
  if (refused.size === 0) return
  const [cause] = refused.values()
  throw new RefusedRowsError(
    table, { rows: new Set(refused.keys()), of: values.length }, { cause })
}

/**
 * Codes of ClickHouse for a column that a table, or a view of it, lacks. Columns are named by the
 * code and not by the rows, so the table has those of another release.
 */
const COLUMN_CODES: ReadonlySet<unknown> = new Set(['8', '10', '16', '47'])

/**
 * Deletes rows, and resolves when all replicas have. A table over the shards of a cluster cannot
 * delete, so the tables on the servers do. Replicated tables reject a condition with a subquery
 * unless nondeterministic ones are allowed: a replica that lacks rows may keep some. `where` gets
 * the name of the table that has the rows.
 */
export async function deleteRows (
  clickhouse: Clickhouse, table: string, where: (name: string) => string,
  parameters: QueryParameters
): Promise<void> {
  const [described] = await clickhouse.rows<{ readonly engine: string }>(SELECT_ENGINE, { table })
  const [, cluster, database, local] = DISTRIBUTED.exec(described?.engine ?? '') ?? []
  const name = local === undefined ? table : `\`${database}\`.${local}`
  const servers = cluster === undefined ? '' : ` ON CLUSTER '${cluster}'`
  await clickhouse.command(`ALTER TABLE ${name}${servers} DELETE WHERE ${where(name)} ` +
    'SETTINGS mutations_sync = 2, allow_nondeterministic_mutations = 1', parameters)
}

const SELECT_ENGINE = `
  SELECT engine_full AS engine FROM system.tables
  WHERE database = currentDatabase() AND name = {table:String}`
const DISTRIBUTED = /^Distributed\('([^']+)', '([^']+)', '([^']+)'/

/** The client throws a plain Error for a text that it cannot parse, and a SyntaxError for rows. */
function isNotClickhouse (error: unknown): boolean {
  if (error instanceof SyntaxError) return true
  return error instanceof Error && error.constructor === Error && !('code' in error)
}

/** Unknown user, wrong password, missing password, and failed authentication in general. */
const SIGN_IN_CODES: readonly unknown[] = ['192', '193', '194', '516']

/** What an operator must fix when ClickHouse rejects the user or its certificate is not trusted. */
function describeAccessError (error: unknown): string | undefined {
  if (isUntrusted(error)) {
    return 'The certificate of ClickHouse is not trusted: set NODE_EXTRA_CA_CERTS to the file of ' +
      'its CA, and use a host name of the certificate in CLICKHOUSE_URL'
  }
  if (!(error instanceof Error && 'code' in error)) return undefined
  if (error.code === '497') {
    return 'ClickHouse access denied: grant the missing privilege to the user in CLICKHOUSE_URL'
  }
  if (!SIGN_IN_CODES.includes(error.code)) return undefined
  return 'ClickHouse authentication failed: check user and password in CLICKHOUSE_URL'
}
