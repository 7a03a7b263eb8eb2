import type { FastifyInstance, FastifyRequest } from 'fastify'
import { randomUUID } from 'node:crypto'
import type { AccessEntry } from '../../../schemas/types.ts'
import type { OutgoingMessage, Producer } from '../../runtime/kafka/bus.ts'
import type { Codec } from '../../runtime/kafka/registry.ts'
import { failpoint } from '../../runtime/platform/failpoint.ts'
import { createLogThrottle, type Log } from '../../runtime/platform/log.ts'
import { globalKey, type RedisClient } from '../../runtime/platform/redis.ts'
import { type Clock, startRepeating } from '../../runtime/platform/retry.ts'
import { messageKey, topicName } from '../../runtime/platform/topics.ts'

/** The organization of entries that concern the whole installation. */
export const INSTALLATION = 'installation'

/**
 * Who acts: an API key, a person who signed in, a browser that signed in by a link, or an operator
 * at the command line. `id` is that of the key, the person or the session, or the name of the
 * account on the machine.
 */
export type AccessActor = {
  readonly kind: 'key' | 'person' | 'link' | 'operator'
  readonly id: string
}

/** What concerns an organization. Entries are kept for ever, so names are only added. */
export const ORGANIZATION_ACTIONS = [
  'organization.created', 'organization.erased', 'policy.changed',
  'person.added', 'person.changed', 'person.signed_out', 'person.removed',
  'sign_in_link.created', 'session.started', 'session.ended',
  'key.created', 'key.rolled', 'key.revoked',
  'webhook_secret.shown', 'webhook_secret.rotated', 'webhook_key.rotated',
  'webhook_endpoint.created', 'webhook_endpoint.changed', 'webhook_endpoint.deleted',
  'webhook_endpoint.secret_rotated',
  'job.cancelled', 'job.erased', 'results.previewed', 'results.downloaded', 'usage.downloaded',
  'delivery.resent', 'contact_lists.changed',
  'balance.topped_up', 'balance.adjusted', 'balance.thawed',
  'partner.created', 'partner.rotated', 'partner.changed', 'partner.revoked',
  'keys.rotated', 'access_log.exported',
] as const

/** What operators do to the installation; organizations need no filter for it. */
type InstallationAction =
  | 'keys.rewrapped'
  | 'stage.paused' | 'stage.resumed' | 'stage.replayed' | 'journal.restored'
  | 'letters.opened' | 'letters.replayed' | 'letters.discarded'

/** Everything that is recorded. */
export type AccessAction = typeof ORGANIZATION_ACTIONS[number] | InstallationAction

/**
 * An action has two entries: `attempted` before it, and its result after it. `refused` is an action
 * that was not done: the actor lacks the right, or asks for something invalid. `incomplete` is a
 * command that met no error, but left something undone or found something wrong. `failed` is an
 * action that met an error, and may be done in part. Without a second entry the result is not
 * known.
 */
type AccessOutcome = 'attempted' | AccessResult
export type AccessResult = 'done' | 'refused' | 'incomplete' | 'failed'

/** A privileged action, as its writer describes it. */
export type AccessEvent = {
  /** Its id, or INSTALLATION. */
  readonly organization: string
  readonly actor: AccessActor
  readonly action: AccessAction
  /** The id of what it is done to, such as a key or a job; '' for the organization itself. */
  readonly target?: string
  /** The IP address of the request, or the name of the machine of a command. */
  readonly address?: string
  /** `done` by default. */
  readonly outcome?: AccessOutcome
  /** A few short values, without contacts and secrets. */
  readonly details?: Readonly<Record<string, string>>
  /** A new one by default. */
  readonly entryId?: string
}

/** What is known of an action only while it is done, such as the id of a new key. */
export type AccessDescription = Pick<AccessEvent, 'target' | 'details'> & {
  /** Set by an action that ends well without doing anything. */
  readonly outcome?: 'refused'
}

/** Stream: entries that the topic `access.log` has not acknowledged yet. */
const ACCESS_OUTBOX_KEY = globalKey('access-log:outbox')

/** Sorted set with one member: the highest number that was copied to ClickHouse. */
const ACCESS_HEAD_KEY = globalKey('access-log:head')

export type AccessLog = ReturnType<typeof createAccessLog>

/** The access log. An entry is in Redis first; `ledger` ships it to the topic `access.log`. */
export function createAccessLog (redis: RedisClient) {
  return {
    /**
     * Adds an entry; resolves with its id in the outbox. Of an action whose result is not known
     * yet, use `recordAttempt`.
     * @throws InfrastructureError, or an error of Redis, when the entry is not stored.
     */
    append: async (event: AccessEvent): Promise<string> => {
      // Redis adds the time.
      const { at: _at, ...entry } = entryOfEvent({ entryId: randomUUID(), ...event }, 0)
      return await redis.xadd(ACCESS_OUTBOX_KEY, '*', 'entry', JSON.stringify(entry)) ?? ''
    },

    /** Removes an entry from the outbox; false if it was shipped before. */
    withdraw: async (id: string): Promise<boolean> => await redis.xdel(ACCESS_OUTBOX_KEY, id) === 1,
  }
}

export type AccessAttempt = {
  /** Adds the entry with its result; repeating it adds nothing to lists. */
  readonly record: (result: AccessResult, about?: AccessDescription) => Promise<void>
  /** Removes the attempt of an action that did nothing; false if it was shipped before. */
  readonly withdraw: () => Promise<boolean>
}

/**
 * Records that a privileged action is attempted. Call it before the action, and do not act if it
 * throws: so a crash may leave an attempt without a result, and never an action without an entry.
 * @throws InfrastructureError, or an error of Redis, when the entry is not stored.
 */
export async function recordAttempt (log: AccessLog, event: AccessEvent): Promise<AccessAttempt> {
  const entryId = randomUUID()
  const id = await log.append({ ...event, entryId, outcome: 'attempted' })
  return {
    record: async (result, { target = event.target, details, outcome = result } = {}) => {
      await log.append({
        ...event,
        entryId: `${entryId}${RESULT_SUFFIX}`,
        outcome: result === 'done' ? outcome : result,
        ...target !== undefined && { target },
        ...details !== undefined && { details: { ...event.details, ...details } },
      })
    },
    withdraw: async () => await log.withdraw(id),
  }
}

/** An entry in the outbox; `id` is that of the stream. */
type PendingEntry = { readonly id: string, readonly entry: AccessEntry }

/** The entries that are not in the topic yet. */
export function createAccessOutbox (redis: RedisClient) {
  return {
    /** Up to `limit` entries, oldest first; only those added until `untilMs`, by Redis time. */
    oldest: async (limit: number, untilMs?: number): Promise<readonly PendingEntry[]> => {
      const last = untilMs === undefined ? '+' : String(Math.max(0, Math.floor(untilMs)))
      const entries = await redis.xrange(ACCESS_OUTBOX_KEY, '-', last, 'COUNT', limit)
      return entries.map(([id, [, json = '{}']]) =>
        ({ id, entry: { ...JSON.parse(json) as AccessEntry, at: Number(id.split('-')[0]) } }))
    },

    /** Removes entries that the topic has acknowledged. Idempotent. */
    remove: async (entries: readonly PendingEntry[]): Promise<void> => {
      if (entries.length === 0) return
      await redis.xdel(ACCESS_OUTBOX_KEY, ...entries.map(({ id }) => id))
    },
  }
}

/** The highest number that was copied to ClickHouse; a loss of Redis resets it to a lower one. */
export function createAccessHead (redis: RedisClient) {
  return {
    /** Ignores a number below the current one. */
    advance: async (seq: number): Promise<void> => {
      await redis.zadd(ACCESS_HEAD_KEY, 'GT', seq, 'copied')
    },
    /** 0 if nothing is known to be copied. */
    read: async (): Promise<number> => Number(await redis.zscore(ACCESS_HEAD_KEY, 'copied') ?? 0),
  }
}

type AccessShippingDeps = {
  readonly outbox: ReturnType<typeof createAccessOutbox>
  readonly codec: Codec
  readonly producer: Pick<Producer, 'send'>
  /** Redis time. */
  readonly clock: Clock
  readonly log: Pick<Log, 'warn'>
}

const BATCH_ENTRIES = 200
const POLL_MS = 1_000
/** An attempt that is refused at once can be withdrawn until then (`recordRequests`). */
const HOLD_MS = 500

/** Ships the entries of the access log to their topic. */
export class AccessShipper {
  readonly #deps: AccessShippingDeps

  constructor (deps: AccessShippingDeps) {
    this.#deps = deps
  }

  /** Ships in a loop while this ledger leads. A failure is logged and retried. */
  start (isLeader: () => boolean): { readonly stop: () => Promise<void> } {
    return startRepeating(POLL_MS, async signal => {
      if (isLeader()) await this.ship(signal)
    }, err => {
      this.#deps.log.warn({ err }, 'failed to send entries of the access log to topic ' +
        'access.log, retrying; do not restart Redis until this succeeds')
    })
  }

  /**
   * Ships the entries in the outbox, oldest first. A crash before they leave it, or a second
   * leader, ships them again: they then have two numbers, and one id.
   */
  async ship (signal: AbortSignal): Promise<void> {
    const { outbox, codec, producer, clock } = this.#deps
    for (;;) {
      const pending = await outbox.oldest(BATCH_ENTRIES, clock.now() - HOLD_MS)
      if (pending.length === 0) return
      const messages = await Promise.all(pending.map(({ entry }) => accessMessage(codec, entry)))
      await producer.send(messages, signal)
      failpoint('access.shipped')
      await outbox.remove(pending)
    }
  }
}

/** What the id of the entry with the result of an attempt ends with. */
export const RESULT_SUFFIX = ':result'

/** An entry with its number: its position in the topic `access.log`, from 1. */
export type NumberedEntry = AccessEntry & { readonly seq: number }

/** The text of an entry that is signed and chained; no two entries share a text. */
export function accessText (entry: NumberedEntry): string {
  return JSON.stringify([
    1, entry.seq, entry.entryId, entry.at, entry.organization, entry.actorKind, entry.actor,
    entry.action, entry.target, entry.address, entry.outcome, entry.details,
  ])
}

const MAX_CHARACTERS = 200
/** The ids of some hundred jobs; a path has at most a hundred characters. */
const MAX_TARGET_CHARACTERS = 10_000

/** The entry of an event. Longer texts are cut, so that no caller can make the log large. */
function entryOfEvent (
  event: AccessEvent & { readonly entryId: string }, at: number
): AccessEntry {
  const {
    entryId, organization, actor, action, target = '', address = '', outcome = 'done',
  } = event
  const details = Object.entries(event.details ?? {}).map(([name, text]) => [name, cut(text)])
  return {
    entryId,
    at,
    organization: cut(organization),
    actorKind: actor.kind,
    actor: cut(actor.id),
    action,
    target: cut(target, MAX_TARGET_CHARACTERS),
    address: cut(address),
    outcome,
    details: details.length === 0 ? '' : JSON.stringify(Object.fromEntries(details)),
  }
}

function cut (text: string, max = MAX_CHARACTERS): string {
  return text.toWellFormed().slice(0, max).toWellFormed()
}

/** The message of an entry to the topic `access.log`. */
export async function accessMessage (codec: Codec, entry: AccessEntry): Promise<OutgoingMessage> {
  return {
    topic: topicName('access.log'),
    key: messageKey('access.log', entry),
    value: await codec.encode('access.log-value', entry),
    headers: {},
  }
}

export const ACCESS_COLUMNS = [
  'number', 'time', 'action', 'outcome', 'actor_kind', 'actor', 'target', 'address', 'details',
  'id',
] as const

/** An entry of the access log as exports show it, by column. */
export function accessRecord (
  entry: NumberedEntry
): Readonly<Record<typeof ACCESS_COLUMNS[number], string>> {
  return {
    number: String(entry.seq),
    time: new Date(entry.at).toISOString(),
    action: entry.action,
    outcome: entry.outcome,
    actor_kind: entry.actorKind,
    actor: entry.actor,
    target: entry.target,
    address: entry.address,
    details: entry.details,
    id: entry.entryId,
  }
}

/** Who sent a request. */
export type Requester = Pick<AccessEvent, 'organization' | 'actor' | 'details'>

type RequestRecording = {
  readonly log: AccessLog
  /** Undefined for a request that is not recorded. */
  readonly requesterOf: (request: FastifyRequest) => Requester | undefined
  /** Whether the actor lacks the right to what the request asks for. */
  readonly isRefusal: (error: Error) => boolean
  /** Requests whose event is not recorded, such as later pages of a list. */
  readonly isExempt?: (request: FastifyRequest, event: AccessEvent) => boolean
}

/**
 * Another site can make a signed-in browser send forms that are refused, and a key can ask for any
 * number of jobs that do not exist; entries are kept for ever.
 */
const REFUSALS_EVERY_MS = 60_000

/**
 * Records every request to the routes with `records`: the attempt before their handlers run, the
 * result before the response is sent. If Redis does not take the attempt, the request fails and
 * nothing is done; if it does not take the result, the attempt remains without one. Of requests
 * that are refused, by their handlers or before, the log keeps one a minute for each actor and
 * action: the attempts of others are withdrawn before they are shipped.
 */
export function recordRequests (app: FastifyInstance, recording: RequestRecording): void {
  const { log, isRefusal } = recording
  const isDue = createLogThrottle(REFUSALS_EVERY_MS)
  app.decorateRequest('accessRecorded', false)
  app.decorateRequest('accessAttempt', undefined)
  app.decorateRequest('accessDescription', undefined)
  app.addHook('preHandler', async request => {
    const event = toEvent(recording, request)
    if (event !== undefined) {
      const name = throttleName(event)
      request.accessAttempt = { ...await recordAttempt(log, event), name }
    }
    request.accessRecorded = true
  })
  app.addHook('onError', async (request, _reply, error) => {
    if (request.accessRecorded || !isRefusal(error)) return
    const event = toEvent(recording, request)
    // The request is refused in any case.
    if (event === undefined || !isDue(throttleName(event))) return
    await stored(request, log.append({ ...event, outcome: 'refused' }))
  })
  app.addHook('onSend', async (request, { statusCode }) => {
    const { accessAttempt: attempt, accessDescription } = request
    // The hook runs again if sending fails.
    request.accessAttempt = undefined
    if (attempt === undefined) return
    const result = statusCode < 400 ? 'done' : statusCode < 500 ? 'refused' : 'failed'
    const record = async () => {
      const isRepeated = result === 'refused' && !isDue(attempt.name)
      if (isRepeated && await attempt.withdraw()) return
      await attempt.record(result, accessDescription)
    }
    await stored(request, record())
  })
}

const throttleName = ({ actor, action }: AccessEvent) => `${actor.id} ${action}`

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * What the access log calls a request to the route. Null for one that changes something and
     * needs no entry, or whose handler records it; only routes that just read, and are no download,
     * go without.
     */
    readonly records?: AccessAction | null
  }
  interface FastifyRequest {
    /** Its attempt is in the access log, or it needs no entry. */
    accessRecorded: boolean
    /** Its entry, and the name by which refusals are throttled. */
    accessAttempt: AccessAttempt & { readonly name: string } | undefined
    accessDescription: AccessDescription | undefined
  }
}

/** Adds to the result of a request in the access log what its handler knows about it. */
export function describeAccess (request: FastifyRequest, about: AccessDescription): void {
  request.accessDescription = about
}

/** Waits for an entry whose request goes on in any case. */
async function stored ({ log }: FastifyRequest, entry: Promise<unknown>): Promise<void> {
  await entry.catch((err: unknown) => {
    log.warn({ err }, 'failed to record the result of a request in the access log')
  })
}

/** The event of a request; undefined if it is not recorded. */
function toEvent (
  { requesterOf, isExempt }: RequestRecording, request: FastifyRequest
): AccessEvent | undefined {
  // A request for the headers downloads nothing.
  const action = request.method === 'HEAD' ? undefined : request.routeOptions.config?.records
  if (action === undefined || action === null) return undefined
  const requester = requesterOf(request)
  if (requester === undefined) return undefined
  const ids = request.params as Readonly<Record<string, string>>
  const target = TARGETS.map(name => ids[name]).find(id => id !== undefined) ?? ''
  const event: AccessEvent = { ...requester, action, target, address: request.clientAddress }
  return isExempt?.(request, event) === true ? undefined : event
}

/** Ids in paths, the most specific first. */
const TARGETS = ['deliveryId', 'delivery', 'key', 'endpoint', 'person', 'id']
