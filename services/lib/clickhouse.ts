import { ClickHouseLogLevel, createClient, type ClickHouseClient } from '@clickhouse/client'
import { InfrastructureError } from './errors.ts'

const REQUEST_TIMEOUT_MS = 30_000

/**
 * A client of the audit and result store; integers of 64 bits come back as strings. Answers that
 * are none of ClickHouse's, as of a proxy whose server is away, are thrown as InfrastructureError.
 */
export function connectClickhouse (url: string): ClickHouseClient {
  return new Proxy(createClient({
    url,
    request_timeout: REQUEST_TIMEOUT_MS,
    // The client's own log would print parts of statements.
    log: { level: ClickHouseLogLevel.OFF },
    // An answer means stored; servers that gather inserts by themselves keep them waiting for it.
    clickhouse_settings: { date_time_input_format: 'best_effort', async_insert: 0 },
  }), { get: (client, name) => judged(client, Reflect.get(client, name)) })
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
  throw isForeign(error)
    ? new InfrastructureError('the answer is none of ClickHouse', { cause: error })
    : error
}

/** The client throws a bare error for a text it can't read as one, and the parser's for rows. */
function isForeign (error: unknown): boolean {
  if (error instanceof SyntaxError) return true
  return error instanceof Error && error.constructor === Error && !('code' in error)
}
