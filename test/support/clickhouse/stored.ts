import { type Attempt, createDeliveryHistory } from '../../../services/webhooks/deliveries.ts'
import type { Clickhouse, Insert } from '../../../services/runtime/platform/clickhouse.ts'
import { recordMacOf } from '../keys/signed.ts'

/**
 * ClickHouse that answers queries as given, one after another, and records inserts and
 * queries.
 */
export function createClickhouseDouble (...answers: readonly (readonly object[])[]) {
  const inserted: Record<string, unknown>[] = []
  const tokens: unknown[] = []
  const queries: { query: string, parameters: Readonly<Record<string, unknown>> }[] = []
  const rows = async (query: string, parameters = {}) =>
    answers[queries.push({ query, parameters }) - 1] ?? []
  const clickhouse = {
    insert: async ({ values, token }: Insert) => {
      inserted.push(...values as Record<string, unknown>[])
      tokens.push(token)
    },
    rows,
    stream: async function * (query: string, parameters = {}) {
      yield * await rows(query, parameters)
    },
  }
  return { clickhouse: clickhouse as unknown as Clickhouse, inserted, tokens, queries }
}

/** Attempts as they are stored, signed by the keys for tests, as ClickHouse gives them back. */
export async function storedAttempts (attempts: readonly Attempt[]) {
  const { clickhouse, inserted } = createClickhouseDouble()
  await createDeliveryHistory(clickhouse, recordMacOf()).append(attempts)
  const timeOf = (text: unknown) => text === null ? '0' : String(Date.parse(String(text)))
  return inserted.map(({ at, next_at: nextAt, ...row }) =>
    ({ ...row, at: timeOf(at), next_at: timeOf(nextAt) }))
}
