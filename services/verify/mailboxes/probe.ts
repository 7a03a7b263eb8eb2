import { createHmac } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { MailHost } from '../providers/mail-domains.ts'
import { ownerOf, type SessionLimiter } from './connections.ts'
import type { Connect } from './egress.ts'
import type { Meaning } from './replies.ts'
import {
  askServer, type ServerAnswer, type SmtpCaller, SmtpChannel, SmtpFault, type SmtpFaultKind,
} from './session.ts'

/** The result for a mailbox; `late`: its session did not start or end in time. */
export type Mailbox =
  | Exclude<Meaning, 'limited'> | 'unreachable' | 'no_answer' | 'late'

export type Probed = {
  readonly mailbox: Mailbox
  /** Only words of the reply say so, and no enhanced code. */
  readonly byWords?: true
  /** Whether the domain accepts mail for any name; undefined if unknown. */
  readonly catchAll?: boolean | undefined
  /** What acceptance means at a host whose ways are known, which is not tested for catch-all. */
  readonly acceptance?: 'truthful' | 'accepts_any'
  /** A probe some minutes later may have a better result. */
  readonly retry?: true
}

export type ProbeOptions = {
  readonly connect: Connect
  readonly limiter: SessionLimiter
  readonly caller: SmtpCaller
  /** Whether to use STARTTLS with servers that offer it. */
  readonly startTls: boolean
  /** Timeout of the greeting; that of a reply if left out. */
  readonly greetingTimeoutMs?: number
  readonly replyTimeoutMs: number
  /** Maximum duration of the sessions with one host; that of the row if left out. */
  readonly hostTimeoutMs?: number
  /** Maximum duration of all sessions of a row, from the start of the first one. */
  readonly rowTimeoutMs: number
  /** Wait before an address is probed again that is greylisted, or whose server did not answer. */
  readonly greylistMs: number
  /** Wait before a host that blocks us or is unreachable is used again. */
  readonly restMs: number
  readonly catchAllMs: number
}

type ProbeRequest = {
  readonly hosts: readonly MailHost[]
  /** Aborted at the end of the call. */
  readonly signal: AbortSignal
  readonly endsAtMs: number
}

export type Probe = (address: string, request: ProbeRequest) => Promise<Probed>

/** The minimum time for a session. */
const MIN_SESSION_MS = 1_000
const MAX_CACHED = 100_000
/** Further addresses of a host are not tried. */
const MAX_ADDRESSES = 4

type Caches = {
  /** Rows that are to wait, by address. */
  readonly waiting: LRUCache<string, Probed>
  /** Hosts that are not asked for a while. */
  readonly resting: LRUCache<string, Probed>
  /** Hosts that did not answer in time: one session at a time finds out whether they do again. */
  readonly silent: LRUCache<string, true>
  /** Silent hosts that have a session. */
  readonly asked: Set<string>
  readonly catchAll: LRUCache<string, boolean>
}

type Row = ProbeOptions & ProbeRequest & {
  readonly caches: Caches
  readonly address: string
  readonly domain: string
}

/** Asks the mail servers of an address whether its mailbox exists, without sending mail. */
export function createProbe (options: ProbeOptions): Probe {
  const caches: Caches = {
    waiting: cacheOf(options.greylistMs),
    resting: cacheOf(options.restMs),
    silent: cacheOf(options.restMs),
    asked: new Set(),
    catchAll: cacheOf(options.catchAllMs),
  }
  return async (address, request) => {
    const waiting = caches.waiting.get(address)
    if (waiting !== undefined) return waiting
    const domain = address.slice(address.lastIndexOf('@') + 1)
    const probed = await askHosts({ ...options, ...request, caches, address, domain })
    const waits = probed.mailbox !== 'late' && probed.retry === true
    if (waits) caches.waiting.set(address, probed)
    return probed
  }
}

function cacheOf<T extends NonNullable<unknown>> (ttlMs: number): LRUCache<string, T> {
  // Zero would mean no expiry.
  return new LRUCache<string, T>({ max: MAX_CACHED, ttl: Math.max(1, ttlMs) })
}

const LATE = { mailbox: 'late', retry: true } as const satisfies Probed
const NO_ANSWER = { mailbox: 'no_answer', retry: true } as const satisfies Probed

/**
 * Asks the hosts in their order until one answers, within the time of the row. The next host is
 * asked only if the previous one is unavailable, never after a refusal.
 */
async function askHosts (row: Row): Promise<Probed> {
  const { caches, limiter, domain, signal, endsAtMs } = row
  const startByMs = endsAtMs - MIN_SESSION_MS
  let time: AbortSignal | undefined
  let last: Probed = { mailbox: 'unreachable' }
  for (const host of row.hosts) {
    const resting = caches.resting.get(host.name)
    if (resting?.mailbox === 'blocked') return resting
    const keys = [`domain:${domain}`, `owner:${ownerOf(host.name)}`]
    const session = async () => {
      time ??= AbortSignal.timeout(row.rowTimeoutMs)
      return await askHost(row, host, time)
    }
    const answer = resting === undefined
      ? await limiter(keys, session, { signal, startByMs })
      : { probed: resting, tryNext: true }
    if (answer === undefined) return LATE
    if (!answer.tryNext) return answer.probed
    // A host that may answer later counts more than one that cannot be reached.
    if (last.retry !== true) last = answer.probed
    if (signal.aborted || time?.aborted === true) break
  }
  return last
}

type HostAnswer = {
  readonly probed: Probed
  /** Whether the next host may have a better result. */
  readonly tryNext: boolean
}

const BY_FAULT: Readonly<Record<SmtpFaultKind, Probed>> = {
  unreachable: { mailbox: 'unreachable' },
  dropped: { mailbox: 'unreachable' },
  timeout: NO_ANSWER,
  garbage: { mailbox: 'unclear' },
  no_tls: { mailbox: 'unclear' },
  no_egress: LATE,
}

/** `time` ends all sessions of the row. */
async function askHost (row: Row, host: MailHost, time: AbortSignal): Promise<HostAnswer> {
  const { signal, caches: { silent, asked, resting } } = row
  const isSilent = silent.has(host.name)
  if (isSilent && asked.has(host.name)) return { probed: NO_ANSWER, tryNext: true }
  if (isSilent) asked.add(host.name)
  const ends = [time]
  if (row.hostTimeoutMs !== undefined) ends.push(AbortSignal.timeout(row.hostTimeoutMs))
  const progress = { isReady: false }
  try {
    const answer = await probeHost(row, host, {
      signal: AbortSignal.any([signal, ...ends]), onReady: () => { progress.isReady = true },
    })
    silent.delete(host.name)
    return answer
  } catch (error) {
    if (!(error instanceof SmtpFault)) throw error
    // The call ended, but this session did not exceed its own time.
    if (signal.aborted && !ends.some((end) => end.aborted)) return { probed: LATE, tryNext: false }
    const probed = BY_FAULT[error.kind]
    // A failure at the recipient says nothing about the recipients of other rows.
    if (error.kind === 'no_egress') return { probed, tryNext: false }
    if (!progress.isReady && error.kind === 'timeout') silent.set(host.name, true)
    else if (!progress.isReady) resting.set(host.name, probed)
    return { probed, tryNext: !progress.isReady }
  } finally {
    if (isSilent) asked.delete(host.name)
  }
}

type Session = { readonly signal: AbortSignal, readonly onReady: () => void }

async function probeHost (row: Row, host: MailHost, session: Session): Promise<HostAnswer> {
  const { address, domain, caches, caller } = row
  const acceptance = findPolicy(domain, host.name)?.acceptance
  const cacheKey = `${host.name} ${domain}`
  const cached = acceptance === undefined ? caches.catchAll.get(cacheKey) : undefined
  const tests = acceptance === undefined && cached === undefined
  const madeUp = madeUpName(domain, { key: caller.helo, atMs: Date.now() })
  const recipients = tests ? [address, madeUp] : [address]
  const answer = await runSession(row, host, { ...session, recipients })
  const { meaning, step, by } = answer
  let second = answer.second
  // A server that accepts only one recipient per session gets the second one in a new session.
  if (second === 'limited') second = await askAlone(row, host, { ...session, recipients: [madeUp] })
  const catchAll = tests ? CATCH_ALL[second ?? 'unclear'] : cached
  if (tests && catchAll !== undefined) caches.catchAll.set(cacheKey, catchAll)
  if (meaning === 'accepted') {
    if (acceptance !== undefined) return ends({ mailbox: 'accepted', acceptance })
    const waits = tests && second === 'greylisted'
    return ends({ mailbox: 'accepted', catchAll, ...(waits ? { retry: true } : {}) })
  }
  if (meaning === 'greylisted' || meaning === 'limited') {
    return { probed: { mailbox: 'greylisted', retry: true }, tryNext: step === 'greeting' }
  }
  const probed: Probed = { mailbox: meaning, ...(by === 'words' ? { byWords: true } : {}) }
  if (step !== 'recipient' && meaning === 'blocked') caches.resting.set(host.name, probed)
  return ends(probed)
}

const ends = (probed: Probed): HostAnswer => ({ probed, tryNext: false })

/** What the reply to a made-up name says of the domain. */
const CATCH_ALL: Readonly<Partial<Record<Meaning, boolean>>> = {
  accepted: true, no_mailbox: false,
}

/** The time after which a domain gets another made-up name. */
const MADE_UP_MS = 7 * 24 * 3_600_000
const CONSONANTS = 'bdfgklmnprstvz'
const VOWELS = 'aeiou'

/**
 * A name that no person has, at a domain. It stays the same for a week, in every process, as
 * servers that greylist remember recipients; and it reads like a name, as some servers answer
 * random letters differently. The weeks of domains begin at different times.
 */
function madeUpName (
  domain: string, { key, atMs }: { readonly key: string, readonly atMs: number }
): string {
  const offset = createHmac('sha256', key).update(domain).digest().readUInt32BE()
  const epoch = Math.floor((atMs + offset % MADE_UP_MS) / MADE_UP_MS)
  const bytes = createHmac('sha256', key).update(`${domain} ${epoch}`).digest()
  const pick = (letters: string, index: number) => letters[(bytes[index] ?? 0) % letters.length]
  const syllables = Array.from({ length: 7 }, (_, index) =>
    `${pick(CONSONANTS, index * 2)}${pick(VOWELS, index * 2 + 1)}`)
  const name = `${syllables.slice(0, 3).join('')}.${syllables.slice(3).join('')}`
  return `${name}${100 + bytes.readUInt16BE(14) % 900}@${domain}`
}

type Question = Session & { readonly recipients: readonly string[] }

/** The meaning of the reply to a recipient; undefined if the session ended before. */
async function askAlone (row: Row, host: MailHost, question: Question):
Promise<Meaning | undefined> {
  try {
    const { step, meaning } = await runSession(row, host, question)
    return step === 'recipient' ? meaning : undefined
  } catch (error) {
    if (error instanceof SmtpFault) return undefined
    throw error
  }
}

/** Runs a session; if TLS fails, a second one without TLS. */
async function runSession (row: Row, host: MailHost, question: Question): Promise<ServerAnswer> {
  const { recipients, signal, onReady } = question
  const once = async (tlsName: string | undefined) => {
    const { replyTimeoutMs, greetingTimeoutMs, caller } = row
    const socket = await connectToHost(row.connect, host, signal)
    const channel = new SmtpChannel(socket, { signal, replyTimeoutMs, greetingTimeoutMs })
    try {
      return await askServer(channel, caller, { recipients, tlsName, host: host.name, onReady })
    } finally {
      await channel.close()
    }
  }
  try {
    return await once(row.startTls ? host.name : undefined)
  } catch (error) {
    if (!(error instanceof SmtpFault) || error.kind !== 'no_tls') throw error
    return await once(undefined)
  }
}

/** Connects to the first address of a host that can be reached (RFC 5321, 5.1). */
async function connectToHost (connect: Connect, host: MailHost, signal: AbortSignal) {
  const [first = '', ...others] = host.addresses.slice(0, MAX_ADDRESSES)
  let attempt = connect(first, signal)
  for (const address of others) {
    attempt = attempt.catch((error: unknown) => {
      if (!(error instanceof SmtpFault) || error.kind !== 'unreachable') throw error
      return connect(address, signal)
    })
  }
  return await attempt
}

/**
 * What an accepted recipient means at hosts whose ways are known. `truthful`: they refuse unknown
 * names, and may block clients that try made-up ones, so none is tried. `accepts_any`: they accept
 * every name and bounce the mail later, so only a refusal is an answer. All other domains are
 * tested with a made-up name.
 */
type ServerPolicy = {
  readonly name: string
  readonly acceptance: 'truthful' | 'accepts_any'
  /** Mail domains; `{country}` is any of `com`, `de`, `co.uk`, `com.br` and the like. */
  readonly domains: readonly string[]
  /** Domains of the mail exchanges, for customers' domains at the host. */
  readonly exchanges?: readonly string[]
}

/** A host moves to `truthful` when tests of real and of unknown names have shown that it is. */
const SERVER_POLICIES: readonly ServerPolicy[] = [
  { name: 'Gmail', acceptance: 'truthful', domains: ['gmail.com', 'googlemail.com'] },
  {
    name: 'Outlook.com',
    acceptance: 'truthful',
    domains: ['hotmail.{country}', 'outlook.{country}', 'live.{country}', 'windowslive.com',
      'msn.com'],
  },
  {
    name: 'Yahoo and AOL',
    acceptance: 'accepts_any',
    domains: ['yahoo.{country}', 'ymail.com', 'rocketmail.com', 'myyahoo.com', 'aol.{country}',
      'aim.com', 'netscape.net', 'verizon.net'],
    exchanges: ['yahoodns.net'],
  },
  {
    name: 'Mail.ru',
    acceptance: 'accepts_any',
    domains: ['mail.ru', 'bk.ru', 'inbox.ru', 'internet.ru', 'list.ru'],
  },
]

const COUNTRY = '{country}'
const ANY_COUNTRY = /^(?:com|[a-z]{2}|com?\.[a-z]{2})$/

/** The policy of the host that serves a mail domain by the given mail exchange. */
function findPolicy (domain: string, exchange: string): ServerPolicy | undefined {
  return SERVER_POLICIES.find(({ domains, exchanges = [] }) =>
    domains.some((pattern) => {
      if (!pattern.endsWith(COUNTRY)) return pattern === domain
      const name = pattern.slice(0, -COUNTRY.length)
      return domain.startsWith(name) && ANY_COUNTRY.test(domain.slice(name.length))
    }) || exchanges.some((owner) => exchange === owner || exchange.endsWith(`.${owner}`)))
}
