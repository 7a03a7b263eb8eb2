import { createHash, randomUUID } from 'node:crypto'
import type { Redis } from 'ioredis'
import { script } from '../platform/redis.ts'
import { joinLua } from '../money/lua.ts'
import { topology } from '../topology.ts'
import type { Attempt } from './delivery-history.ts'
import { eventIdOf, type EventType } from './events.ts'
import { fieldsOf } from './job-record.ts'

/** An event of a job that has somewhere to go. */
export type Delivery = {
  readonly tenant: string
  readonly job: string
  readonly type: EventType
  readonly webhookUrl: string
  /** Where its attempts belong in the trace of the job, as the header `traceparent` has it. */
  readonly traceparent?: string
}

/** Receivers that took long lately are served apart from all others. */
export type PriorityClass = 'quick' | 'slow'

/** A delivery that is this process's to attempt, until its lease ends. */
export type Claim = {
  readonly event: string
  readonly tenant: string
  readonly job: string
  readonly type: EventType
  /** Number of the attempt to be made, from 1. */
  readonly attempt: number
  /** Somebody asked for it: whatever comes of this attempt, no other follows by itself. */
  readonly once: boolean
  readonly token: string
  /** As it was put, if it was. */
  readonly traceparent?: string
}

/** What somebody who makes attempts has room for. */
export type ResendRequest = {
  readonly pace: PriorityClass
  readonly most: number
  readonly leaseMs: number
  /** Attempts that a tenant may have under way at once. */
  readonly tenantSlots: number
}

/** Where a delivery stands; the last three are final. */
export type DeliveryState =
  'waiting' | 'trying' | 'delivered' | 'gone' | 'exhausted' | 'discarded'

/** What came of an attempt. */
export type AttemptRecord = {
  readonly state: Exclude<DeliveryState, 'trying'>
  /** Redis time of the next attempt, for `waiting`. */
  readonly dueAtMs?: number
  /** How the receiver did. */
  readonly pace: PriorityClass
  readonly attempt: Attempt
}

export type Deliveries = ReturnType<typeof createDeliveries>

/**
 * Longer than a message can come again: its topic keeps a segment until all of it is too old, which
 * may take as long once more.
 */
export const REMEMBERED_MS = (2 * topology.topics['jobs.settled'].keepHours + 24) * 3_600_000

/** How long a receiver counts as quick or slow after an attempt. */
const PACED_MS = 3_600_000

const LEASES_KEY = 'leases:{deliveries}'
const ATTEMPTS_KEY = 'attempts:{deliveries}'
const WAITING_KEY = 'waiting:{deliveries}'
const keyOf = (event: string) => `delivery:{deliveries}:${event}`

/**
 * The deliveries that wait for an attempt, in Redis: shared by all who deliver, so that any of them
 * may end. Nothing in it tells where a delivery goes or what it says.
 */
export function createDeliveries (redis: Redis) {
  const run = scriptsOf(redis)
  return {
    /** A new delivery, due at once; false for one that is or was known already. */
    put: async (delivery: Delivery): Promise<boolean> => {
      const [keys, args] = callOf(delivery)
      return await run.put(keys, [...args, delivery.traceparent ?? '']) === 'new'
    },

    /**
     * Sends an event once more, at once: one that still waits is only brought forward. `attempts`
     * is the number of the last attempt in the history. `trying` says that one is under way.
     */
    resend: async (delivery: Delivery, attempts: number): Promise<'queued' | 'trying'> => {
      const [keys, args] = callOf(delivery)
      return await run.resend(keys, [...args, attempts]) as 'queued' | 'trying'
    },

    /** Where a delivery stands; undefined once it is remembered no more. */
    find: async (event: string) => {
      const { state, attempts, dueAtMs } = await redis.hgetall(keyOf(event))
      if (state === undefined) return undefined
      return {
        state: state as DeliveryState,
        attempts: Number(attempts),
        dueAtMs: dueAtMs === '' ? undefined : Number(dueAtMs),
      }
    },

    /** How many, of all tenants, were due by this Redis time and are not under way. */
    dueBy: async (nowMs: number): Promise<number> =>
      await redis.zcount(WAITING_KEY, '-inf', nowMs),

    ...workOf(run),
    ...attemptsOf(redis),
  }
}

type Scripts = ReturnType<typeof scriptsOf>

function scriptsOf (redis: Redis) {
  const named = (name: string) => {
    const source = joinLua(lua('common'), lua(name))
    return script(redis, { name: `delivery/${name}`, source, numberOfKeys: 1 })
  }
  return {
    put: named('put'),
    resend: named('resend'),
    claim: named('claim'),
    note: named('note'),
    release: named('release'),
  }
}

const lua = (name: string) => new URL(`./delivery/${name}.lua`, import.meta.url)

/** What those do who make the attempts. */
function workOf (run: Scripts) {
  return {
    /**
     * Takes deliveries that are due, first those of the tenants that have the fewest attempts under
     * way and none of one that has `tenantSlots`; whoever notes nothing within the lease loses
     * them.
     */
    claim: async (
      { pace, most, leaseMs, tenantSlots }: ResendRequest
    ): Promise<readonly Claim[]> => {
      const token = randomUUID()
      const claimed = await run.claim([LEASES_KEY], [pace, most, leaseMs, token, tenantSlots])
      return (claimed as string[][]).map(fields => claimOf(fields, token))
    },

    /** Notes an attempt and what follows; false when the lease had gone to somebody else. */
    note: async (claim: Claim, note: AttemptRecord): Promise<boolean> => {
      const { state, dueAtMs, pace, attempt } = note
      const answer = await run.note([keyOf(claim.event)], [
        claim.event, claim.token, state, dueAtMs ?? '', pace, PACED_MS, REMEMBERED_MS,
        JSON.stringify(attempt),
      ])
      return answer === 'noted'
    },

    /** Gives back a claim that could not be tried yet. */
    release: async ({ event, token }: Claim, afterMs: number): Promise<void> => {
      await run.release([keyOf(event)], [event, token, afterMs])
    },
  }
}

/** Attempts that are not in the history yet: noted here along with the delivery's new state. */
function attemptsOf (redis: Redis) {
  return {
    /** Some of them, any, by the name to forget each by. */
    unshipped: async (most: number): Promise<ReadonlyMap<string, Attempt>> => {
      const found = await redis.hrandfield(ATTEMPTS_KEY, most, 'WITHVALUES') as string[]
      return new Map(Object.entries(fieldsOf(found))
        .map(([name, json]) => [name, JSON.parse(json ?? '') as Attempt]))
    },

    forget: async (names: readonly string[]): Promise<void> => {
      if (names.length > 0) await redis.hdel(ATTEMPTS_KEY, ...names)
    },
  }
}

function claimOf (fields: readonly string[], token: string): Claim {
  const [event = '', tenant = '', job = '', type, attempts, once, traceparent] = fields
  return {
    event,
    tenant,
    job,
    type: type as EventType,
    attempt: Number(attempts) + 1,
    once: once === '1',
    token,
    ...traceparent && { traceparent },
  }
}

/** The keys and first arguments of scripts that may make a delivery. */
function callOf (delivery: Delivery) {
  const { tenant, job, type } = delivery
  const event = eventIdOf(job, type)
  return [[keyOf(event)], [event, tenant, job, type, receiverOf(delivery)]] as const
}

/** Who is told apart from others: a host, for each tenant; a digest, so that it is not in clear. */
function receiverOf ({ tenant, webhookUrl }: Delivery): string {
  const { host } = new URL(webhookUrl)
  return createHash('sha256').update(`${tenant}\n${host}`).digest('base64url').slice(0, 22)
}
