import { ClickHouseLogLevel, createClient, type ClickHouseClient } from '@clickhouse/client'

const REQUEST_TIMEOUT_MS = 30_000

/** A client of the audit and result store; integers of 64 bits come back as strings. */
export function connectClickhouse (url: string): ClickHouseClient {
  return createClient({
    url,
    request_timeout: REQUEST_TIMEOUT_MS,
    // The client's own log would print parts of statements.
    log: { level: ClickHouseLogLevel.OFF },
    clickhouse_settings: { date_time_input_format: 'best_effort' },
  })
}
