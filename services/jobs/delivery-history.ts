import type { ClickHouseClient } from '@clickhouse/client'
import { insertRows, streamRows } from '../platform/clickhouse.ts'
import type { RecordMac, SignedRecord } from '../crypto/record-mac.ts'
import type { EventType } from './events.ts'

/** The outcome of an attempt; only `failed` is retried. */
export type AttemptOutcome = 'delivered' | 'failed' | 'gone' | 'exhausted' | 'discarded'

/** Why an attempt failed: a fixed code, which never contains an address. */
export type AttemptReason =
  'status' | 'redirect' | 'timeout' | 'dns_error' | 'blocked_address' | 'tls_error' |
  'connection_error' | 'erased' | 'internal'

/** One attempt to deliver an event to its webhook. */
export type Attempt = {
  readonly tenant: string
  readonly job: string
  readonly event: string
  /** From 1, in the order of the attempts. */
  readonly attempt: number
  readonly type: EventType
  readonly atMs: number
  readonly outcome: AttemptOutcome
  /** Empty if the event was delivered. */
  readonly reason: AttemptReason | ''
  /** 0 without a response. */
  readonly httpStatus: number
  readonly durationMs: number
  readonly nextAtMs: number | undefined
}

/** The attempts of the last 90 days, in ClickHouse. */
export type DeliveryHistory = {
  /** Appends attempts; a repeated attempt replaces the earlier one. */
  readonly append: (attempts: readonly Attempt[]) => Promise<void>
  /** All attempts of a job's deliveries, in order. */
  readonly list: (tenant: string, job: string) => Promise<readonly Attempt[]>
  /** The attempts of several jobs of these tenants, in order for each job. */
  readonly listAll: (
    tenants: readonly string[], jobs: readonly string[]
  ) => Promise<readonly Attempt[]>
}

/**
 * The repository of attempts: their outcomes, never payloads or addresses. Rows without a valid
 * signature are reported and skipped.
 */
export function createDeliveryHistory (
  clickhouse: Pick<ClickHouseClient, 'query' | 'insert'>, mac: RecordMac
): DeliveryHistory {
  const listAll = async (tenants: readonly string[], jobs: readonly string[]) => {
    const newest = new Map<string, Attempt>()
    for await (const row of streamRows<Row>(clickhouse, SELECT, { tenants, jobs })) {
      const attempt = attemptOf(row)
      const signed = signedOf(attempt)
      if (mac.isAuthentic(row.mac, signed)) newest.set(signed.id, attempt)
    }
    return [...newest.values()]
  }
  return {
    append: async attempts => {
      if (attempts.length === 0) return
      const values = attempts.map(attempt => rowOf(attempt, mac))
      await insertRows(clickhouse, { table: 'deliveries', columns: COLUMNS, values })
    },
    list: (tenant, job) => listAll([tenant], [job]),
    listAll,
  }
}

/** Signs values as ClickHouse returns them: times in whole milliseconds. */
function signedOf (one: Attempt): SignedRecord {
  const { tenant, job, event, attempt, type, outcome, reason, httpStatus, nextAtMs = 0 } = one
  const times = [one.atMs, one.durationMs, nextAtMs].map(Math.round)
  const content = JSON.stringify([type, outcome, reason, httpStatus, ...times])
  return { table: 'deliveries', tenant, id: JSON.stringify([job, event, attempt]), content }
}

const COLUMNS = [
  'tenant', 'job', 'event', 'attempt', 'type', 'at', 'outcome', 'reason', 'http_status',
  'duration_ms', 'next_at', 'mac',
]

const SELECT = `
  SELECT tenant, job, event, attempt, type, toString(toUnixTimestamp64Milli(at)) AS at_ms, outcome,
    reason, http_status, duration_ms,
    toString(toUnixTimestamp64Milli(ifNull(next_at, toDateTime64(0, 3, 'UTC')))) AS next_at_ms,
    mac
  FROM deliveries WHERE tenant IN {tenants:Array(String)} AND job IN {jobs:Array(String)}
  ORDER BY event, attempt, stored`

type Row = Pick<Attempt, 'tenant' | 'job' | 'event' | 'attempt' | 'type' | 'outcome' | 'reason'> & {
  readonly at_ms: string
  readonly http_status: number
  readonly duration_ms: number
  /** 0 without a next attempt. */
  readonly next_at_ms: string
  readonly mac: string
}

const timeOf = (ms: number) => new Date(ms).toISOString()

function rowOf (one: Attempt, mac: RecordMac) {
  const { tenant, job, event, attempt, type, outcome, reason } = one
  return {
    tenant,
    job,
    event,
    attempt,
    type,
    at: timeOf(one.atMs),
    outcome,
    reason,
    http_status: one.httpStatus,
    duration_ms: Math.round(one.durationMs),
    next_at: one.nextAtMs === undefined ? null : timeOf(one.nextAtMs),
    mac: mac.sign(signedOf(one)),
  }
}

function attemptOf (row: Row): Attempt {
  const { tenant, job, event, attempt, type, outcome, reason } = row
  return {
    tenant,
    job,
    event,
    attempt,
    type,
    atMs: Number(row.at_ms),
    outcome,
    reason,
    httpStatus: row.http_status,
    durationMs: row.duration_ms,
    nextAtMs: row.next_at_ms === '0' ? undefined : Number(row.next_at_ms),
  }
}
