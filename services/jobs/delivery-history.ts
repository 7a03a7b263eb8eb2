import type { ClickHouseClient } from '@clickhouse/client'
import { insertRows, streamRows } from '../platform/clickhouse.ts'
import type { RecordMac, SignedRecord } from '../crypto/record-mac.ts'
import type { EventType } from './events.ts'

/** What an attempt came to; only `failed` is followed by another one. */
export type AttemptOutcome = 'delivered' | 'failed' | 'gone' | 'exhausted' | 'discarded'

/** Why an attempt came to nothing; a closed list that may grow, and never says where it went. */
export type AttemptReason =
  'status' | 'redirect' | 'timeout' | 'dns_error' | 'blocked_address' | 'tls_error' |
  'connection_error' | 'erased' | 'internal'

/** One try to hand an event to its receiver. */
export type Attempt = {
  readonly tenant: string
  readonly job: string
  readonly event: string
  /** From 1, in the order they were made. */
  readonly attempt: number
  readonly type: EventType
  readonly atMs: number
  readonly outcome: AttemptOutcome
  /** Empty for what was delivered. */
  readonly reason: AttemptReason | ''
  /** 0 when there was no answer. */
  readonly httpStatus: number
  readonly durationMs: number
  readonly nextAtMs: number | undefined
}

/** The attempts of the last 90 days, in ClickHouse. */
export type DeliveryHistory = {
  /** The same attempt again replaces it. */
  readonly append: (attempts: readonly Attempt[]) => Promise<void>
  /** All attempts of a job's deliveries, in order. */
  readonly list: (tenant: string, job: string) => Promise<readonly Attempt[]>
  /** Those of several jobs of these tenants, in the order of each. */
  readonly listAll: (
    tenants: readonly string[], jobs: readonly string[]
  ) => Promise<readonly Attempt[]>
}

/**
 * Where attempts are kept: what came of them, never what was sent or to which address. Rows that no
 * service has signed are reported and left out.
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

/** Everything is signed as it is read again: times in whole milliseconds. */
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
  /** 0 when no other attempt follows. */
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
