import { hash, randomUUID } from 'node:crypto'
import { boundedCache } from '../../runtime/platform/limits.ts'
import type { Log } from '../../runtime/platform/log.ts'
import { createCachedReading, type Metrics } from '../../runtime/platform/metrics.ts'
import { joinLua, namedArguments, type RedisClient, script } from '../../runtime/platform/redis.ts'
import { type MailServer, ownerLabel, type OwnerPolicy } from './policies.ts'
import type { Mailbox } from './replies.ts'

/** One of our addresses at an owner of mail exchanges, which limits it. */
export type Party = { readonly policy: OwnerPolicy, readonly egress: string }

export type Granted = { readonly session: string, readonly recipients: number }

/**
 * `limited` and `blocked`: the party rests after a session that ended so. `no_memory`: it cannot be
 * reached, so nobody knows what other processes ask.
 */
export type Refused = {
  readonly why: 'sessions' | 'rate' | 'limited' | 'blocked' | 'no_memory'
  readonly waitMs: number
}

/** What came of a session. */
export type SessionReport = {
  /** Recipients that were taken and not asked. */
  readonly unused: number
  /** Recipients with a reply, and those whose reply is about the mailbox, or about us. */
  readonly asked: number
  readonly verdicts: number
  readonly blocked: number
  /**
   * `limited`: the owner says that we ask too fast, so the rate falls and rests for `restMs`.
   * `blocked`: it refuses our address, which rests there, longer each time.
   */
  readonly ending: 'well' | 'limited' | 'blocked' | 'failed'
  readonly restMs?: number | undefined
}

/** What is known of a mail exchange, as one egress sees it. */
type ExchangeState = {
  /** Recipients that it takes in a session, if fewer than its policy says. */
  readonly limit: number | undefined
  /** Milliseconds for which it is not asked, and what its rows get instead. */
  readonly restMs: number
  readonly why: Mailbox | undefined
  /** All of its domains so far accept any name: that one is accepted there says nothing. */
  readonly acceptsAny: boolean
  /** It has accepted a recipient of this egress, so it does not refuse everybody. */
  readonly hasAccepted: boolean
}

export type ExchangeRest = { readonly why: Mailbox, readonly restMs: number }

/** What a session learnt of an exchange. */
type ExchangeNotes = {
  readonly limit?: number
  /** The egress of which it has accepted a recipient. */
  readonly accepted?: string
}

/** For operators. Counts are those since the beginning of the last full hour. */
type OwnerState = {
  readonly owner: string
  readonly egress: string
  /** Recipients a minute. */
  readonly rate: number
  readonly sessions: number
  /** Milliseconds until the owner is asked again. */
  readonly restMs: number
  readonly asked: number
  readonly verdicts: number
  readonly blocked: number
}

/**
 * What all processes know of mail servers, and their shares of the owners' limits: ten processes
 * load a host as one does.
 */
export type HostMemory = {
  /** Takes a session and up to `wanted` recipients for it, or says when to ask again. */
  readonly begin: (party: Party, wanted: number) => Promise<Granted | Refused>
  /**
   * More recipients for a session, or after how many milliseconds there are some; undefined if it
   * must end.
   */
  readonly more: (party: Party, session: string, wanted: number) =>
  Promise<{ readonly recipients: number, readonly waitMs: number } | undefined>
  /** Ends a session; resolves to the milliseconds for which the party rests. */
  readonly end: (party: Party, session: string, report: SessionReport) => Promise<number>
  /** Undefined while the memory cannot be reached. */
  readonly exchange: (
    server: Pick<MailServer, 'name' | 'id'>, egress: string,
  ) => Promise<ExchangeState | undefined>
  readonly note: (name: string, notes: ExchangeNotes) => Promise<void>
  /** The server is not asked from an egress for a while; rows get `why` instead. */
  readonly rest: (
    server: Pick<MailServer, 'name' | 'id'>, egress: string, rest: ExchangeRest,
  ) => Promise<void>
  /** Whether a domain accepts any name at this exchange, known for a day. */
  readonly catchAll: (exchange: string, domain: string) => Promise<boolean | undefined>
  readonly rememberCatchAll: (
    exchange: string, domain: string, isCatchAll: boolean,
  ) => Promise<void>
  /** The parties of the last day. @throws while the memory cannot be reached. */
  readonly owners: () => Promise<readonly OwnerState[]>
}

const DAY_MS = 86_400_000
const MAX_REST_MS = 7_200_000
/** Without the memory nothing is asked. */
const NO_MEMORY = { why: 'no_memory', waitMs: 1_000 } as const
/** A state that is a little old costs a session at most. */
const STATE_KEPT_MS = 2_000
const MAX_KEPT = 50_000
const PARTIES = 'mail-parties'
/** Domains of an exchange that accept made-up names, and none that does not. */
const OPEN_DOMAINS = 20

const file = (name: string) => new URL(`./${name}.lua`, import.meta.url)

type HostMemoryOptions = {
  /**
   * After so long without a word the process of a session counts as dead. Longer than a session may
   * last: a slow one that lost its lease would let a further one begin.
   */
  readonly leaseMs: number
  /** Gets the errors of Redis, for logs. */
  readonly onFault: (error: unknown) => void
}

/** The memory in the cache Redis. */
export function redisHostMemory (redis: RedisClient, options: HostMemoryOptions): HostMemory {
  const attempt: Attempt = async (action, fallback) => {
    try {
      return await action()
    } catch (error) {
      options.onFault(error)
      return fallback
    }
  }
  return { ...partiesIn(redis, options, attempt), ...exchangesIn(redis, attempt) }
}

type Attempt = <T, F>(action: () => Promise<T>, fallback: F) => Promise<T | F>

function partiesIn (
  redis: RedisClient, { leaseMs }: HostMemoryOptions, attempt: Attempt
): Pick<HostMemory, 'begin' | 'more' | 'end' | 'owners'> {
  const partyScript = (name: string) => {
    const source = joinLua(file('party'), file(name))
    const run = script(redis, { name, source, numberOfKeys: 1 })
    return async ({ policy, egress }: Party, more: object) => {
      const { sessions, sessionsAMinute: startsAMinute, recipientsAMinute } = policy
      const args = { sessions, startsAMinute, ...recipientsAMinute, leaseMs, ...more }
      return await run([partyKey(policy.owner, egress)], [namedArguments(args)])
    }
  }
  const begin = partyScript('begin')
  const more = partyScript('more')
  const end = partyScript('end')
  const listed = boundedCache<true>({ entries: MAX_KEPT, ttl: DAY_MS / 24 })
  const list = async (owner: string, egress: string) => {
    const name = `${owner} ${egress}`
    if (listed.has(name)) return
    const nowMs = Date.now()
    await redis.zadd(PARTIES, nowMs, name)
    await redis.zremrangebyscore(PARTIES, 0, nowMs - DAY_MS)
    listed.set(name, true)
  }
  return {
    begin: (party, wanted) => attempt(async () => {
      const session = randomUUID()
      await list(party.policy.owner, party.egress)
      const [answer, count, ending] = await begin(party, { session, wanted }) as
        [string, number, string?]
      return answer === 'granted'
        ? { session, recipients: count }
        : { why: (ending ?? answer) as Refused['why'], waitMs: count }
    }, NO_MEMORY),
    more: (party, session, wanted) => attempt(async () => {
      const [recipients, waitMs] = await more(party, { session, wanted }) as [number, number]
      return recipients < 0 ? undefined : { recipients, waitMs }
    }, undefined),
    end: (party, session, { restMs = 0, ...report }) => attempt(async () => Number(
      await end(party, { session, restMs, maxRestMs: MAX_REST_MS, ...report })), restMs),
    owners: async () => {
      const names = await redis.zrangebyscore(PARTIES, '-inf', '+inf')
      const [seconds] = await redis.time()
      return await Promise.all(names.map(async name => {
        const [owner = '', egress = ''] = name.split(' ')
        const fields = await redis.hgetall(partyKey(owner, egress))
        return ownerState({ owner, egress }, fields, Number(seconds) * 1_000)
      }))
    },
  }
}

function exchangesIn (
  redis: RedisClient, attempt: Attempt
): Pick<HostMemory, 'exchange' | 'note' | 'rest' | 'catchAll' | 'rememberCatchAll'> {
  const note = script(redis, { name: 'note', source: joinLua(file('note')), numberOfKeys: 1 })
  /** By exchange, and by server and egress. */
  const states =
    boundedCache<Map<string, ExchangeState>>({ entries: MAX_KEPT, ttl: STATE_KEPT_MS })
  return {
    exchange: async ({ name, id }, egress) => await attempt(async () => {
      const key = restKey(id, egress)
      const kept = states.get(name)?.get(key)
      if (kept !== undefined) return kept
      const [fields, rest, restMs] = await Promise.all([
        redis.hgetall(exchangeKey(name)), redis.get(key), redis.pttl(key),
      ])
      const state = parseState(fields, egress, rest === null ? undefined : restIn(rest, restMs))
      const ofName = states.get(name) ?? new Map<string, ExchangeState>()
      ofName.set(key, state)
      if (ofName.size === 1) states.set(name, ofName)
      return state
    }, undefined),
    note: async (name, notes) => {
      states.delete(name)
      await attempt(() => note([exchangeKey(name)], [namedArguments(notes)]), undefined)
    },
    rest: async ({ name, id }, egress, { why, restMs }) => {
      states.delete(name)
      const rest = `${why} ${restMs}`
      await attempt(() => redis.set(restKey(id, egress), rest, 'PX', restMs), undefined)
    },
    catchAll: (exchange, domain) => attempt(async () => {
      const text = await redis.get(catchAllKey(exchange, domain))
      return text === null ? undefined : text === '1'
    }, undefined),
    rememberCatchAll: async (exchange, domain, isCatchAll) => {
      const key = catchAllKey(exchange, domain)
      await attempt(async () => {
        const isNew = await redis.set(key, isCatchAll ? '1' : '0', 'PX', DAY_MS, 'NX')
        if (isNew === null) return
        states.delete(exchange)
        await note([exchangeKey(exchange)], [
          namedArguments(isCatchAll ? { open: 1 } : { closed: 1 }),
        ])
      }, undefined)
    },
  }
}

const partyKey = (owner: string, egress: string) => `mail-party:${owner} ${egress}`
const restKey = (server: string, egress: string) => `mail-rest:${server} ${egress}`
const exchangeKey = (name: string) => `mail-exchange:${name}`
/** A digest, so that Redis has no part of a contact in clear. */
const catchAllKey = (exchange: string, domain: string) =>
  `mail-catch-all:${hash('sha256', `${exchange} ${domain}`, 'base64url')}`

type Fields = Readonly<Record<string, string>>

/** None if it would last longer than it was set for: the clock of Redis was set back. */
function restIn (text: string, restMs: number): ExchangeRest | undefined {
  const [why, setForMs] = text.split(' ')
  return restMs > Number(setForMs) ? undefined : { why: why as Mailbox, restMs }
}

function parseState (
  fields: Fields, egress: string, rest: ExchangeRest | undefined
): ExchangeState {
  const count = (name: string) => Number(fields[name] ?? 0)
  return {
    limit: fields['limit'] === undefined ? undefined : count('limit'),
    restMs: Math.max(0, rest?.restMs ?? 0),
    why: rest?.why,
    acceptsAny: count('open') >= OPEN_DOMAINS && count('closed') === 0,
    hasAccepted: fields[`accepted:${egress}`] !== undefined,
  }
}

function ownerState (
  party: Pick<OwnerState, 'owner' | 'egress'>, fields: Fields, nowMs: number
): OwnerState {
  const sum = (name: string) => Object.entries(fields)
    .filter(([field]) => field.startsWith(`${name}:`))
    .reduce((total, [, count]) => total + Number(count), 0)
  return {
    ...party,
    rate: Math.round(Number(fields['rate'] ?? 0)),
    sessions: Object.entries(fields)
      .filter(([field, endsAt]) => field.startsWith('s:') && Number(endsAt) > nowMs).length,
    restMs: Math.max(0, Number(fields['rest'] ?? 0) - nowMs),
    asked: sum('asked'),
    verdicts: sum('verdicts'),
    blocked: sum('blocked'),
  }
}

/** Of owners without a policy of their own, those are reported that were asked most. */
const MAX_OTHER_OWNERS = 10

type Reporting = { readonly metrics: Metrics, readonly log: Pick<Log, 'warn'> }

/** Reports what all processes know of our egresses at the owners of mail servers. */
export function reportOwners (
  memory: Pick<HostMemory, 'owners'>, { metrics, log }: Reporting
): void {
  const states = createCachedReading(
    async () => selectOwners(await memory.owners()), { name: 'mail servers', log })
  const report = (
    name: `mailbox_egress_${'recipients_per_minute' | 'sessions' | 'resting_seconds'}`,
    read: (state: OwnerState) => number
  ) => metrics.watchAll(name, async () => (await states()).map(state =>
    ({ labels: { owner: state.owner, egress: state.egress }, value: read(state) })))
  report('mailbox_egress_recipients_per_minute', ({ rate }) => rate)
  report('mailbox_egress_sessions', ({ sessions }) => sessions)
  report('mailbox_egress_resting_seconds', ({ restMs }) => Math.ceil(restMs / 1_000))
  metrics.watchAll('mailbox_egress_recent_recipients', async () =>
    (await states()).flatMap(({ owner, egress, asked, verdicts, blocked }) => [
      { labels: { owner, egress, outcome: 'verdict' }, value: verdicts },
      { labels: { owner, egress, outcome: 'block' }, value: blocked },
      { labels: { owner, egress, outcome: 'other' }, value: asked - verdicts - blocked },
    ]))
}

/** Metrics must not have a series for each mail server of the world. */
function selectOwners (states: readonly OwnerState[]): readonly OwnerState[] {
  const hasPolicy = (owner: string) => ownerLabel(owner) === owner
  const asked = new Map<string, number>()
  for (const { owner, asked: more } of states) {
    if (!hasPolicy(owner)) asked.set(owner, (asked.get(owner) ?? 0) + more)
  }
  const others = new Set([...asked].toSorted(([, one], [, other]) => other - one)
    .slice(0, MAX_OTHER_OWNERS).map(([owner]) => owner))
  return states.filter(({ owner }) => hasPolicy(owner) || others.has(owner))
}
