import { Readable } from 'node:stream'
import type { ClickHouseClient } from '@clickhouse/client'
import { type Attempt, createDeliveryHistory } from '../../../services/webhooks/deliveries.ts'
import { recordMacOf } from '../keys/signed.ts'

/** What ClickHouse answers to a query for these rows. */
function rowsAnswer (rows: readonly object[]) {
  return {
    json: async () => rows,
    stream: () => Readable.from([rows.map(row => ({ json: () => row }))]),
  }
}

type Query = { readonly query: string, readonly query_params: Readonly<Record<string, unknown>> }

/**
 * ClickHouse that answers queries as given, one after another, and records inserts and
 * queries.
 */
export function createClickhouseDouble (...answers: readonly (readonly object[])[]) {
  const inserted: Record<string, unknown>[] = []
  const tokens: unknown[] = []
  const queries: Query[] = []
  const clickhouse = {
    insert: async ({ values, clickhouse_settings: settings }: {
      readonly values: readonly Record<string, unknown>[]
      readonly clickhouse_settings: Readonly<Record<string, unknown>>
    }) => {
      inserted.push(...values)
      tokens.push(settings['insert_deduplication_token'])
    },
    query: async (query: Query) => rowsAnswer(answers[queries.push(query) - 1] ?? []),
  }
  return { clickhouse: clickhouse as unknown as ClickHouseClient, inserted, tokens, queries }
}

/** Attempts as they are stored, signed by the keys for tests, as ClickHouse gives them back. */
export async function storedAttempts (attempts: readonly Attempt[]) {
  const { clickhouse, inserted } = createClickhouseDouble()
  await createDeliveryHistory(clickhouse, recordMacOf()).append(attempts)
  const timeOf = (text: unknown) => text === null ? '0' : String(Date.parse(String(text)))
  return inserted.map(({ at, next_at: nextAt, ...row }) =>
    ({ ...row, at_ms: timeOf(at), next_at_ms: timeOf(nextAt) }))
}
