import type { ClickHouseClient } from '@clickhouse/client'
import { insertRows, streamRows } from '../runtime/platform/clickhouse.ts'
import type { RecordMac, SignedRecord } from '../runtime/crypto/mac.ts'
import { deliveryIdOf } from './event.ts'
import type { EventType } from '../../schemas/api/event.ts'

/** The outcome of an attempt; only `failed` is retried. */
export type AttemptOutcome = 'delivered' | 'failed' | 'gone' | 'exhausted' | 'discarded'

/** Why an attempt failed: a fixed code, which never contains an address. */
export type AttemptReason =
  'status' | 'redirect' | 'timeout' | 'dns_error' | 'blocked_address' | 'tls_error' |
  'connection_error' | 'proxy_error' | 'erased' | 'endpoint_removed' | 'internal'

/** One attempt to deliver an event to its webhook. */
export type Attempt = {
  readonly tenant: string
  readonly job: string
  /** Id of the delivery: see `deliveryIdOf`. */
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
  /** Up to `limit` attempts to a webhook endpoint, those of the newest jobs first. */
  readonly listOfEndpoint: (
    tenant: string, endpoint: string, options: EndpointPage
  ) => Promise<readonly Attempt[]>
}

type EndpointPage = {
  readonly limit: number
  /** Only attempts that follow this one in the list. */
  readonly after?: Pick<Attempt, 'job' | 'event' | 'attempt'>
}

/** Growth of a page that forged or repeated rows have filled. */
const PAGE_GROWTH = 16

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
    listOfEndpoint: async (tenant, endpoint, { limit, after }) => {
      const { job = '', event = '', attempt = 0 } = after ?? {}
      const suffix = deliveryIdOf('', endpoint)
      for (let maxRows = limit; ; maxRows *= PAGE_GROWTH) {
        // The newest row of an attempt comes first.
        const attempts = new Map<string, Attempt>()
        let rows = 0
        const parameters = { tenant, suffix, job, event, number: attempt, maxRows }
        for await (const row of streamRows<Row>(clickhouse, SELECT_OF_ENDPOINT, parameters)) {
          rows++
          const attempted = attemptOf(row)
          const signed = signedOf(attempted)
          if (attempts.has(signed.id) || !mac.isAuthentic(row.mac, signed)) continue
          attempts.set(signed.id, attempted)
        }
        if (attempts.size >= limit || rows < maxRows) return [...attempts.values()].slice(0, limit)
      }
    },
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

const SELECTED = `
  SELECT tenant, job, event, attempt, type, toString(toUnixTimestamp64Milli(at)) AS at_ms, outcome,
    reason, http_status, duration_ms,
    toString(toUnixTimestamp64Milli(ifNull(next_at, toDateTime64(0, 3, 'UTC')))) AS next_at_ms,
    mac
  FROM deliveries`

const SELECT = `${SELECTED}
  WHERE tenant IN {tenants:Array(String)} AND job IN {jobs:Array(String)}
  ORDER BY event, attempt, stored`

/** In the reverse order of the table, so that reading stops after the first rows. */
const SELECT_OF_ENDPOINT = `${SELECTED}
  WHERE tenant = {tenant:String} AND endsWith(event, {suffix:String})
    AND ({job:String} = '' OR
      (job, event, attempt) < ({job:String}, {event:String}, {number:UInt32}))
  ORDER BY tenant DESC, job DESC, event DESC, attempt DESC, stored DESC LIMIT {maxRows:UInt64}`

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
