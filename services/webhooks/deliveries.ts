import { createHash, randomUUID } from 'node:crypto'
import type { EventType } from '../../schemas/api/webhooks.ts'
import { toFields } from '../jobs/job-record.ts'
import type { RecordMac, SignedRecord } from '../runtime/crypto/mac.ts'
import {
  dateTime, number, signedTable, type SignedRow, text,
} from '../runtime/crypto/signed-table.ts'
import { type Clickhouse, insertDivided } from '../runtime/platform/clickhouse.ts'
import { joinLua, namedArguments, type RedisClient, script } from '../runtime/platform/redis.ts'
import { topology } from '../topology.ts'
import { toDeliveryId, deriveEventId } from './event.ts'

/** The delivery of a job event to one destination. */
export type WebhookDelivery = {
  readonly tenant: string
  readonly job: string
  readonly type: EventType
  /** Of progress: the tenth, 1 to 9. */
  readonly tenth?: number
  readonly to: Destination
  /** W3C `traceparent` of the span that its attempts belong to. */
  readonly traceparent?: string
}

/** The webhook address of the job, or a webhook endpoint of its organization. */
type Destination = { readonly webhookUrl: string } | { readonly endpoint: string }

/** Receivers that were slow lately have their own slots, so that they delay no others. */
export type PriorityClass = 'quick' | 'slow'

/** A delivery that this process may attempt until the lease expires. */
export type DeliveryClaim = {
  /** Its id: see `toDeliveryId`. */
  readonly delivery: string
  readonly tenant: string
  readonly job: string
  readonly type: EventType
  /** Number of the attempt to be made, from 1. */
  readonly attempt: number
  /** True for a manual resend: no retry follows. */
  readonly once: boolean
  readonly token: string
  /** The `traceparent` of the delivery, if it has one. */
  readonly traceparent?: string
}

/** How many deliveries to claim, and for how long. */
type ClaimLimits = {
  readonly priority: PriorityClass
  readonly limit: number
  readonly leaseMs: number
  /** Maximum of concurrent attempts per tenant. */
  readonly tenantSlots: number
}

/** All states but the first two are final. */
type DeliveryState =
  'waiting' | 'trying' | 'delivered' | 'gone' | 'exhausted' | 'discarded'

/** The result of an attempt. */
export type AttemptRecord = {
  readonly state: Exclude<DeliveryState, 'trying'>
  /** Redis time of the next attempt, for `waiting`. */
  readonly dueAtMs?: number
  /** Class of the receiver by the duration of this attempt. */
  readonly priority: PriorityClass
  readonly attempt: Attempt
}

export type Deliveries = ReturnType<typeof createDeliveries>

/**
 * How long the record of an ended delivery is kept: longer than its message can be redelivered. A
 * topic keeps a segment until its last message has expired, which can take twice the retention.
 */
const REMEMBERED_MS = (2 * topology.topics['jobs.settled'].keepHours + 24) * 3_600_000

/** How long the priority class of a receiver lasts after an attempt. */
const PRIORITY_MS = 3_600_000

/** String: the run of the server in which lost deliveries were restored. */
export const DELIVERIES_RUN_KEY = 'run:{deliveries}'
/** String: the time, in ms, up to which Redis has all deliveries. */
export const DELIVERIES_UNTIL_KEY = 'until:{deliveries}'
const LEASES_KEY = 'leases:{deliveries}'
const ATTEMPTS_KEY = 'attempts:{deliveries}'
const WAITING_KEY = 'waiting:{deliveries}'
const keyName = (delivery: string) => `delivery:{deliveries}:${delivery}`

/**
 * The queue of webhook deliveries in Redis, shared by all processes of `deliver`. It contains
 * neither addresses nor payloads.
 */
export function createDeliveries (redis: RedisClient) {
  const run = loadScripts(redis)
  return {
    /** Adds a delivery, due immediately; returns false if it exists or was delivered before. */
    put: async (delivery: WebhookDelivery): Promise<boolean> => {
      const { traceparent = '' } = delivery
      const args = toArguments(delivery)
      return await run.put(keyName(args.delivery), { ...args, traceparent }) === 'new'
    },

    /**
     * Makes a delivery due immediately; a waiting one keeps its retries. `attempts` is the number
     * of the last attempt in the history. Returns `trying` while an attempt is under way.
     */
    resend: async (delivery: WebhookDelivery, attempts: number): Promise<'queued' | 'trying'> => {
      const args = toArguments(delivery)
      return await run.resend(keyName(args.delivery), { ...args, attempts }) as 'queued' | 'trying'
    },

    /** The state of a delivery; undefined if it is unknown or its record has expired. */
    find: async (delivery: string) => {
      const { state, attempts, dueAtMs } = await redis.hgetall(keyName(delivery))
      if (state === undefined) return undefined
      return {
        state: state as DeliveryState,
        attempts: Number(attempts),
        dueAtMs: dueAtMs === '' ? undefined : Number(dueAtMs),
      }
    },

    /** Number of waiting deliveries of all tenants that are due at this Redis time. */
    dueBy: async (nowMs: number): Promise<number> =>
      await redis.zcount(WAITING_KEY, '-inf', nowMs),

    ...createWork(run),
    ...createAttempts(redis),
  }
}

type Scripts = ReturnType<typeof loadScripts>

function loadScripts (redis: RedisClient) {
  const load = (name: string) => {
    const source = joinLua(lua('common'), lua(name))
    const call = script(redis, { name: `delivery/${name}`, source, numberOfKeys: 1 })
    return async (key: string, args: object) => await call([key], [namedArguments(args)])
  }
  return {
    put: load('put'),
    resend: load('resend'),
    claim: load('claim'),
    record: load('record'),
    release: load('release'),
    throttle: load('throttle'),
    drop: load('drop'),
  }
}

const lua = (name: string) => new URL(`./${name}.lua`, import.meta.url)

/** The operations of a delivery worker. */
function createWork (run: Scripts) {
  return {
    /**
     * Claims due deliveries, first those of the tenants with the fewest attempts under way, and
     * none of a tenant with `tenantSlots` attempts. A delivery without a record of an attempt
     * within the lease is claimed again.
     */
    claim: async (limits: ClaimLimits): Promise<readonly DeliveryClaim[]> => {
      const token = randomUUID()
      const claimed = await run.claim(LEASES_KEY, { ...limits, token })
      return (claimed as string[][]).map(fields => parseClaim(fields, token))
    },

    /** Records an attempt and the new state; false if another process holds the lease. */
    record: async (claim: DeliveryClaim, record: AttemptRecord): Promise<boolean> => {
      const { state, dueAtMs, priority, attempt } = record
      const answer = await run.record(keyName(claim.delivery), {
        delivery: claim.delivery,
        token: claim.token,
        state,
        dueAtMs,
        priority,
        priorityMs: PRIORITY_MS,
        rememberedMs: REMEMBERED_MS,
        attempt: JSON.stringify(attempt),
      })
      return answer === 'recorded'
    },

    /** Releases a claim without an attempt; the delivery is due again after `afterMs`. */
    release: async ({ delivery, token }: DeliveryClaim, afterMs: number): Promise<void> => {
      await run.release(keyName(delivery), { delivery, token, afterMs })
    },

    /**
     * Releases a claim without an attempt. The delivery keeps its position in the queue, and no
     * attempt to its receiver starts for `forMs`.
     */
    throttle: async ({ delivery, token }: DeliveryClaim, forMs: number): Promise<void> => {
      await run.throttle(keyName(delivery), { delivery, token, forMs })
    },

    /** Removes a claimed delivery that is obsolete, without an attempt. */
    drop: async ({ delivery, token }: DeliveryClaim): Promise<void> => {
      await run.drop(keyName(delivery), { delivery, token })
    },
  }
}

/** Attempts that are not in the history yet; recorded together with the state of the delivery. */
function createAttempts (redis: RedisClient) {
  return {
    /** Up to `limit` of them, in no order, by the name that `forget` takes. */
    unshipped: async (limit: number): Promise<ReadonlyMap<string, Attempt>> => {
      const fields = await redis.hrandfield(ATTEMPTS_KEY, limit, 'WITHVALUES') as string[]
      return new Map(Object.entries(toFields(fields))
        .map(([name, json]) => [name, JSON.parse(json ?? '') as Attempt]))
    },

    /** Removes attempts that are in the history. */
    forget: async (names: readonly string[]): Promise<void> => {
      if (names.length > 0) await redis.hdel(ATTEMPTS_KEY, ...names)
    },
  }
}

function parseClaim (fields: readonly string[], token: string): DeliveryClaim {
  const [delivery = '', tenant = '', job = '', type, attempts, once, traceparent] = fields
  return {
    delivery,
    tenant,
    job,
    type: type as EventType,
    attempt: Number(attempts) + 1,
    once: once === '1',
    token,
    ...traceparent && { traceparent },
  }
}

/** The arguments of the scripts that add a delivery, whose id has its event and destination. */
function toArguments (delivery: WebhookDelivery) {
  const { tenant, job, type, tenth, to } = delivery
  const id = toDeliveryId(deriveEventId(job, type, tenth), 'endpoint' in to ? to.endpoint : '')
  // Receivers are the hosts of each tenant, and its endpoints; a digest, so that Redis has no
  // readable host.
  const name = 'endpoint' in to ? to.endpoint : new URL(to.webhookUrl).host
  const receiver =
    createHash('sha256').update(`${tenant}\n${name}`).digest('base64url').slice(0, 22)
  return { delivery: id, tenant, job, type, receiver }
}

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
  /** Id of the delivery: see `toDeliveryId`. */
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

export type DeliveryHistory = ReturnType<typeof createDeliveryHistory>

type EndpointPage = {
  readonly limit: number
  /** Only attempts that follow this one in the list. */
  readonly after?: Pick<Attempt, 'job' | 'event' | 'attempt'>
}

/** Growth of a page that forged or repeated rows have filled. */
const PAGE_GROWTH = 16

/**
 * The attempts of the last 90 days, in ClickHouse: their outcomes, never payloads or addresses.
 * Rows without a valid signature are reported and skipped.
 */
export function createDeliveryHistory (
  clickhouse: Pick<Clickhouse, 'stream' | 'insert'>, mac: RecordMac
) {
  const listAll = async (
    tenants: readonly string[], jobs: readonly string[]
  ): Promise<readonly Attempt[]> => {
    const newest = new Map<string, Attempt>()
    for await (const row of clickhouse.stream<SignedRow>(SELECT, { tenants, jobs })) {
      const attempt = TABLE.toEntry(row)
      if (TABLE.isSigned(row, attempt, mac)) newest.set(toSigned(attempt).id, attempt)
    }
    return [...newest.values()]
  }
  return {
    /** Appends attempts; a repeated attempt replaces the earlier one. */
    append: async (attempts: readonly Attempt[]): Promise<void> => {
      if (attempts.length === 0) return
      const values = attempts.map(attempt => TABLE.toRow(attempt, mac))
      await insertDivided(clickhouse, { table: 'deliveries', values })
    },

    /** All attempts of a job's deliveries, in order. */
    list: (tenant: string, job: string): Promise<readonly Attempt[]> => listAll([tenant], [job]),

    /** The attempts of several jobs of these tenants, in order for each job. */
    listAll,

    /** Up to `limit` attempts to a webhook endpoint, those of the newest jobs first. */
    listOfEndpoint: async (
      tenant: string, endpoint: string, { limit, after }: EndpointPage
    ): Promise<readonly Attempt[]> => {
      const { job = '', event = '', attempt = 0 } = after ?? {}
      const suffix = toDeliveryId('', endpoint)
      for (let maxRows = limit; ; maxRows *= PAGE_GROWTH) {
        // The newest row of an attempt comes first.
        const attempts = new Map<string, Attempt>()
        let rows = 0
        const parameters = { tenant, suffix, job, event, number: attempt, maxRows }
        for await (const row of clickhouse.stream<SignedRow>(SELECT_OF_ENDPOINT, parameters)) {
          rows++
          const attempted = TABLE.toEntry(row)
          const { id } = toSigned(attempted)
          if (attempts.has(id) || !TABLE.isSigned(row, attempted, mac)) continue
          attempts.set(id, attempted)
        }
        if (attempts.size >= limit || rows < maxRows) return [...attempts.values()].slice(0, limit)
      }
    },
  }
}

/** Signs values as ClickHouse returns them: times in whole milliseconds. */
function toSigned (attempt: Attempt): SignedRecord {
  const { tenant, job, event, type, outcome, reason, httpStatus, nextAtMs = 0 } = attempt
  const times = [attempt.atMs, attempt.durationMs, nextAtMs].map(Math.round)
  const content = JSON.stringify([type, outcome, reason, httpStatus, ...times])
  const id = JSON.stringify([job, event, attempt.attempt])
  return { table: 'deliveries', tenant, id, content }
}

const TABLE = signedTable<Attempt>({
  tenant: text('tenant'),
  job: text('job'),
  event: text('event'),
  attempt: number('attempt'),
  type: text('type'),
  outcome: text('outcome'),
  reason: text('reason'),
  atMs: dateTime('at'),
  httpStatus: number('http_status'),
  durationMs: { ...number('duration_ms'), toStored: Math.round },
  nextAtMs: {
    name: 'next_at',
    selected: "toUnixTimestamp64Milli(ifNull(next_at, toDateTime64(0, 3, 'UTC'))) AS next_at",
    toStored: value => value === undefined ? null : new Date(value).toISOString(),
    parse: stored => stored === '0' ? undefined : Number(stored),
  },
}, toSigned)

const SELECT = `SELECT ${TABLE.selected} FROM deliveries
  WHERE tenant IN {tenants:Array(String)} AND job IN {jobs:Array(String)}
  ORDER BY event, attempt, stored`

/** In the reverse order of the table, so that reading stops after the first rows. */
const SELECT_OF_ENDPOINT = `SELECT ${TABLE.selected} FROM deliveries
  WHERE tenant = {tenant:String} AND endsWith(event, {suffix:String})
    AND ({job:String} = '' OR
      (job, event, attempt) < ({job:String}, {event:String}, {number:UInt32}))
  ORDER BY tenant DESC, job DESC, event DESC, attempt DESC, stored DESC LIMIT {maxRows:UInt64}`
