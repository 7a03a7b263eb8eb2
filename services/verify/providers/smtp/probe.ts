import { randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { MailHost } from '../mail-domains.ts'
import { createChannel, SmtpFault, type SmtpFaultKind } from './channel.ts'
import { ownerOf, type Connect, type SessionLimiter } from './connections.ts'
import { askServer, type SmtpCaller, type Meaning, type ServerAnswer } from './dialog.ts'

/** The result for a mailbox; `late`: its session did not start or end in time. */
export type Mailbox =
  | Exclude<Meaning, 'limited'> | 'unreachable' | 'no_answer' | 'late'

export type Probed = {
  readonly mailbox: Mailbox
  /** Whether the domain accepts mail for any name; undefined if unknown. */
  readonly catchAll?: boolean | undefined
  /** The domain is known to refuse unknown names, so it was not tested for catch-all. */
  readonly trusted?: true
  /** A probe some minutes later may have a better result. */
  readonly retry?: true
}

export type ProbeOptions = {
  readonly connect: Connect
  readonly limiter: SessionLimiter
  readonly caller: SmtpCaller
  /** Whether to use STARTTLS with servers that offer it. */
  readonly startTls: boolean
  readonly replyTimeoutMs: number
  /** Maximum duration of the session with one host. */
  readonly rowTimeoutMs: number
  /** Wait before a greylisted address is probed again. */
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

/** Further hosts of a domain do not make the result more certain. */
export const MAX_HOSTS = 2
/** The minimum time for a session. */
const MIN_SESSION_MS = 1_000
const MAX_CACHED = 100_000

type Caches = {
  readonly greylisted: LRUCache<string, true>
  readonly resting: LRUCache<string, Mailbox>
  readonly catchAll: LRUCache<string, boolean>
}

type Row = ProbeOptions & ProbeRequest & {
  readonly caches: Caches
  readonly address: string
  readonly domain: string
  readonly onReady?: () => void
}

/** Asks the mail servers of an address whether its mailbox exists, without sending mail. */
export function createProbe (options: ProbeOptions): Probe {
  const caches: Caches = {
    greylisted: cacheOf(options.greylistMs),
    resting: cacheOf(options.restMs),
    catchAll: cacheOf(options.catchAllMs),
  }
  return async (address, request) => {
    if (caches.greylisted.has(address)) return { mailbox: 'greylisted', retry: true }
    const domain = address.slice(address.lastIndexOf('@') + 1)
    const probed = await askHosts({ ...options, ...request, caches, address, domain })
    if (probed.mailbox !== 'greylisted') return probed
    caches.greylisted.set(address, true)
    return { ...probed, retry: true }
  }
}

function cacheOf<T extends NonNullable<unknown>> (ttlMs: number): LRUCache<string, T> {
  // Zero would mean no expiry.
  return new LRUCache<string, T>({ max: MAX_CACHED, ttl: Math.max(1, ttlMs) })
}

/** Tries the next host only if the previous one is unavailable, never after a refusal. */
async function askHosts (row: Row): Promise<Probed> {
  const { caches, limiter, domain, signal, endsAtMs } = row
  const startByMs = endsAtMs - MIN_SESSION_MS
  let last: Probed = { mailbox: 'unreachable' }
  for (const host of row.hosts.slice(0, MAX_HOSTS)) {
    const resting = caches.resting.get(host.name)
    if (resting !== undefined) last = { mailbox: resting }
    if (resting === 'blocked') return last
    if (resting !== undefined) continue
    const keys = [`domain:${domain}`, `owner:${ownerOf(host.name)}`]
    const answer = await limiter(keys, () => askHost(row, host), { signal, startByMs })
    if (answer === undefined) return { mailbox: 'late', retry: true }
    last = answer.probed
    if (!answer.tryNext || signal.aborted) break
  }
  return last
}

type HostAnswer = {
  readonly probed: Probed
  /** Whether the next host may have a better result. */
  readonly tryNext: boolean
}

const BY_FAULT: Readonly<Record<SmtpFaultKind, Mailbox>> = {
  unreachable: 'unreachable',
  dropped: 'unreachable',
  timeout: 'no_answer',
  garbage: 'unclear',
  no_tls: 'unclear',
}

async function askHost (row: Row, host: MailHost): Promise<HostAnswer> {
  const { signal, caches } = row
  const own = AbortSignal.timeout(row.rowTimeoutMs)
  let ready = false
  const onReady = () => { ready = true }
  try {
    return await probeHost({ ...row, signal: AbortSignal.any([signal, own]), onReady }, host)
  } catch (error) {
    if (!(error instanceof SmtpFault)) throw error
    // The call ended, but this session did not exceed its own time.
    if (signal.aborted && !own.aborted) {
      return { probed: { mailbox: 'late', retry: true }, tryNext: false }
    }
    const mailbox = BY_FAULT[error.kind]
    // A failure at the recipient says nothing about the recipients of other rows.
    if (!ready) caches.resting.set(host.name, mailbox)
    return { probed: { mailbox }, tryNext: !ready }
  }
}

async function probeHost (row: Row, host: MailHost): Promise<HostAnswer> {
  const { address, domain, caches } = row
  const cacheKey = `${host.name} ${domain}`
  const known = isKnownCatchAll(domain) ? true : caches.catchAll.get(cacheKey)
  const trusted = known === undefined && refusesUnknownNames(domain)
  const tests = known === undefined && !trusted
  const madeUp = `${randomBytes(12).toString('hex')}@${domain}`
  const answer = await runSession(row, host, tests ? [address, madeUp] : [address])
  const { meaning, step } = answer
  if (meaning === 'accepted') {
    const catchAll = tests ? await catchAllOf(row, host, { answer, madeUp }) : known
    if (tests && catchAll !== undefined) caches.catchAll.set(cacheKey, catchAll)
    const probed = { mailbox: 'accepted', catchAll, ...(trusted ? { trusted } : {}) } as const
    return { probed, tryNext: false }
  }
  const mailbox = meaning === 'limited' ? 'greylisted' : meaning
  if (step !== 'recipient' && mailbox === 'blocked') caches.resting.set(host.name, mailbox)
  return { probed: { mailbox }, tryNext: step === 'greeting' && mailbox === 'greylisted' }
}

type CatchAllTest = { readonly answer: ServerAnswer, readonly madeUp: string }

/** A server that accepts only one recipient per session gets the second one in a new session. */
async function catchAllOf (row: Row, host: MailHost, { answer, madeUp }: CatchAllTest):
Promise<boolean | undefined> {
  if (answer.second !== 'limited') return acceptance(answer.second)
  try {
    const { step, meaning } = await runSession(row, host, [madeUp])
    return step === 'recipient' ? acceptance(meaning) : undefined
  } catch (error) {
    if (error instanceof SmtpFault) return undefined
    throw error
  }
}

function acceptance (meaning: Meaning | undefined): boolean | undefined {
  if (meaning === 'accepted') return true
  return meaning === 'no_mailbox' || meaning === 'refused' ? false : undefined
}

/** Runs a session; if TLS fails, a second one without TLS. */
async function runSession (row: Row, host: MailHost, recipients: readonly string[]):
Promise<ServerAnswer> {
  const once = async (tlsName: string | undefined) => {
    const { signal, replyTimeoutMs, caller, onReady = () => {} } = row
    const socket = await row.connect(host.addresses[0] ?? '', signal)
    const channel = createChannel(socket, { signal, replyTimeoutMs })
    try {
      return await askServer(channel, caller, { recipients, tlsName, onReady })
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

/** The endings of the country domains of large hosts. */
const ANY_COUNTRY = String.raw`(?:com|[a-z]{2}|com?\.[a-z]{2})`

/** Free hosts that refuse unknown names and may block clients that test made-up ones. */
const REFUSES_UNKNOWN = new RegExp(`^(?:${[
  'gmail\\.com', 'googlemail\\.com', `hotmail\\.${ANY_COUNTRY}`, `outlook\\.${ANY_COUNTRY}`,
  `live\\.${ANY_COUNTRY}`, 'windowslive\\.com', 'msn\\.com', `yahoo\\.${ANY_COUNTRY}`,
  'ymail\\.com',
  'rocketmail\\.com',
].join('|')})$`)

/** Hosts that accept mail for any name and bounce it later. */
const CATCH_ALL: ReadonlySet<string> = new Set([
  'mail.ru', 'bk.ru', 'inbox.ru', 'internet.ru', 'list.ru',
])

/** Whether the servers of a domain refuse unknown names, so that they need no catch-all test. */
export function refusesUnknownNames (domain: string): boolean {
  return REFUSES_UNKNOWN.test(domain)
}

/** Whether the servers of a domain are known to accept mail for any name. */
export function isKnownCatchAll (domain: string): boolean {
  return CATCH_ALL.has(domain)
}
