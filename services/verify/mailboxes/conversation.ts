import type { LRUCache } from 'lru-cache'
import { createHmac } from 'node:crypto'
import { boundedCache } from '../../runtime/platform/limits.ts'
import { sleep } from '../../runtime/platform/retry.ts'
import type { Connect, Egress } from './egress.ts'
import type { ExchangeRest, Granted, HostMemory, Party, SessionReport } from './memory.ts'
import { isOwnDomain, type MailServer, type Place } from './policies.ts'
import { type Mailbox, type Meaning, readReply, type ReplyReading } from './replies.ts'
import {
  CLOSING, greet, requiresUtf8, SmtpChannel, SmtpFault, type SmtpFaultKind, SmtpRefusal,
  throwIfRefused,
} from './session.ts'
import type { RetryTime } from '../provider.ts'

export type SessionSettings = {
  /** Whether to use STARTTLS with servers that offer it. */
  readonly startTls: boolean
  readonly greetingTimeoutMs: number
  readonly replyTimeoutMs: number
  /** Maximum duration of a session. */
  readonly sessionTimeoutMs: number
  /** How long an open session waits for a further row, or for its turn. */
  readonly idleMs: number
  /** How long a server rests that cannot be used, and an egress that is refused. */
  readonly restMs: number
}

/** What all sessions of a process share. */
export type ConversationOptions = SessionSettings & {
  readonly memory: HostMemory
  readonly catchAlls: CatchAllTests
  /** Aborted when the process stops: sessions end as soon as they can. */
  readonly stopping: AbortSignal
  /** Domains, by exchange, whose postmaster is refused. */
  readonly noPostmaster: LRUCache<string, true>
  /** Exchanges whose TLS failed just now. */
  readonly unencrypted: LRUCache<string, true>
  /** After how many recipients exchanges have dropped their last session. */
  readonly drops: LRUCache<string, number>
}

/** The host answers the same to everything. */
export const UNTRUTHFUL = { mailbox: 'accepted', acceptance: 'accepts_any' } as const

export type Probed = {
  readonly mailbox: Mailbox
  /** Only words of the reply say so, and no enhanced code. */
  readonly byWords?: true
  /** Whether the domain accepts mail for any name; undefined if unknown. */
  readonly catchAll?: boolean | undefined
  /** What acceptance means at a host whose ways are known, which is not tested for catch-all. */
  readonly acceptance?: 'truthful' | 'accepts_any'
  /** Another question may have a better result. */
  readonly retry?: true | RetryTime
}

/** An address in question. */
export class MailboxRow {
  readonly address: string
  readonly domain: string
  readonly tenant: string
  readonly places: readonly Place[]
  readonly answer: Promise<Probed>
  readonly settle: (probed: Probed) => void
  /** The place that it waits for, or is asked at. */
  at = 0
  /** What earlier places say of it. */
  last: Probed = { mailbox: 'unreachable', retry: true }
  /** Sessions that were lost with it. */
  losses = 0
  /** How often it was put into a queue. */
  rounds = 0
  /** A session has taken it. */
  isBegun = false
  /** Nobody waits for it any more. */
  isWithdrawn = false
  /** Where it waits. */
  queue: { readonly withdraw: () => void } | undefined

  constructor (
    address: string, { tenant, domain, places }: Pick<MailboxRow, 'tenant' | 'domain' | 'places'>
  ) {
    this.address = address
    this.domain = domain
    this.tenant = tenant
    this.places = places
    const { promise, resolve } = Promise.withResolvers<Probed>()
    this.answer = promise
    this.settle = resolve
  }
}

/** Where a session takes its rows from. */
type RowSource = {
  readonly size: number
  readonly take: () => MailboxRow | undefined
  /** Resolves when there is a row, or after this time. */
  readonly untilRow: (ms: number) => Promise<void>
}

type Parts = {
  readonly host: MailServer
  readonly egress: Egress
  readonly party: Party
  readonly granted: Granted
  readonly rows: RowSource
}

/** A row whose answer waits for those of others. */
type Answered = { readonly row: MailboxRow, readonly probed: Probed }

/** How a session ended. */
type Ending = {
  readonly report: SessionReport
  /** The exchange is not to be asked for a while. */
  readonly exchange: ExchangeRest | undefined
  /** Domains of customers that refuse us, and for how long they are not to be asked for. */
  readonly refusing: ReadonlyMap<string, number>
  /** Rows that the session took and did not ask. */
  readonly unasked: readonly MailboxRow[]
}

/** Whether a domain accepts any name, and whether another test may say so. */
type Tested = {
  readonly isCatchAll?: boolean | undefined
  readonly retry?: true | RetryTime
}

const BY_FAULT: Readonly<Record<SmtpFaultKind, Mailbox>> = {
  unreachable: 'unreachable',
  dropped: 'unreachable',
  timeout: 'no_answer',
  garbage: 'unclear',
  no_tls: 'unclear',
  no_egress: 'late',
}
const VERDICTS: ReadonlySet<Meaning> = new Set(['accepted', 'no_mailbox', 'no_mail', 'full'])
/** What the reply to a made-up name says of the domain. */
const CATCH_ALL: Readonly<Partial<Record<Meaning, boolean>>> = {
  accepted: true, no_mailbox: false,
}
/** The session ended before the test, so the row is asked once more. */
const UNTESTED: Tested = { retry: { afterMs: 0 } }

/** Recipients that are sent at once to a server that offers PIPELINING. */
const GROUP = 10
/** Replies in a row that are about us, until the session ends: of 5xx, and of 4xx. */
const MAX_BLOCKS = 3
const MAX_SLOW_DOWNS = 2
/** A server that ends sessions after so many recipients or more has a limit. */
const MIN_LIMIT = 3
/** Sessions that took others before they were lost with a row, until it counts as unanswered. */
const MAX_LOSSES = 3
/** A name at every domain (RFC 5321, 4.5.1). */
const POSTMASTER = 'postmaster'
const BAD_SEQUENCE = 503
/** How long an open session waits for its turn: longer than servers need for a greeting. */
const MAX_TURN_MS = 30_000
/** A session holds its lease, whose time is longer, however slow the server is. */
const RENEW_MS = 60_000
/** How long we rest when a server says that we are too fast, or not now, without a time. */
const SLOWER_MS = 60_000
/** How long a server rests that takes no session now, without a time. */
const GREETING_MS = 10_000
/** How long a session has for its last reply when the process stops. */
const LAST_REPLY_MS = 5_000

/**
 * One session with an exchange: greeting, EHLO, STARTTLS, MAIL, and RCPT for row after row, until
 * there are none, a limit is reached or the server ends it. It never sends DATA or VRFY.
 *
 * The methods are in the order of a session: it opens, takes rows, asks for them, judges the
 * replies, tests the domains of accepted rows, asks for postmasters where nobody is accepted, and
 * ends.
 */
export class Conversation {
  readonly #options: ConversationOptions
  readonly #host: MailServer
  readonly #egress: Egress
  readonly #party: Party
  readonly #granted: Granted
  readonly #rows: RowSource
  /** Rows that were taken and are to be asked again, here or in another session. */
  #unasked: MailboxRow[] = []
  /** Rows of domains that refuse us here, and these domains. */
  readonly #elsewhere: MailboxRow[] = []
  readonly #refusing = new Map<string, number>()
  /** Rows in a row whose reply is about us: a later one shows whether that is so. */
  readonly #blocked: Answered[] = []
  /** Rows that a server refuses that has not accepted anybody yet. */
  readonly #doubtful: Answered[] = []
  /** Domains whose postmaster was asked for, and when to ask again where he was greylisted. */
  readonly #postmasters = new Map<string, true | RetryTime>()
  readonly #counts = { asked: 0, verdicts: 0, blocked: 0 }
  /** Aborted when the time of the session is over, or soon after the process stops. */
  #signal = new AbortController().signal
  #channel: SmtpChannel | undefined
  #extensions: ReadonlySet<string> = new Set()
  /** Once the server has accepted MAIL. */
  #isReady = false
  #hasUtf8 = false
  /** Recipients that the memory allows and that were not asked yet. */
  #left: number
  /** The most recipients of this session, and those that it took since MAIL. */
  #limit: number
  #sinceMail = 0
  #isFull = false
  /** The server has said that it closes the session. */
  #isClosing = false
  /** The server is not one that refuses everybody, so its refusals count. */
  #isTrusted: boolean
  #acceptsAny = false
  #ending: SessionReport['ending'] = 'well'
  #restMs: number | undefined
  #exchange: Ending['exchange']

  constructor (options: ConversationOptions, { host, egress, party, granted, rows }: Parts) {
    this.#options = options
    this.#host = host
    this.#egress = egress
    this.#party = party
    this.#granted = granted
    this.#rows = rows
    this.#left = granted.recipients
    this.#limit = party.policy.recipientsASession
    // How listed owners refuse us is known, and many of their customers have no postmaster.
    this.#isTrusted = party.policy.exchanges.length > 0
  }

  /** Runs the session; never rejects for what a server does. */
  async run (): Promise<Ending> {
    const { memory, sessionTimeoutMs, stopping, idleMs } = this.#options
    const stop = new AbortController()
    this.#signal = AbortSignal.any([AbortSignal.timeout(sessionTimeoutMs), stop.signal])
    const endSoon = () => setTimeout(() => stop.abort(), LAST_REPLY_MS).unref()
    stopping.addEventListener('abort', endSoon, { once: true })
    const state = await memory.exchange(this.#host, this.#egress.name)
    this.#limit = Math.min(this.#limit, state?.limit ?? this.#limit)
    this.#isTrusted ||= state?.hasAccepted === true
    this.#acceptsAny = state?.acceptsAny === true
    const renewal = setInterval(() => { this.#renew().catch(failLoudly) }, RENEW_MS)
    try {
      if (!stopping.aborted) await this.#open()
      while (this.#goesOn()) {
        const isIdle = this.#rows.size + this.#unasked.length === 0
        if (isIdle || this.#doubtful.length >= GROUP) await this.#askPostmasters()
        if (isIdle) await this.#rows.untilRow(idleMs)
        const group = this.#goesOn() ? await this.#takeGroup() : []
        if (group.length === 0) break
        await this.#ask(group)
      }
      await this.#askPostmasters()
    } catch (error) {
      if (error instanceof SmtpRefusal) await this.#refused(error.reading)
      else if (error instanceof SmtpFault) this.#failed(error.kind)
      else throw error
    } finally {
      clearInterval(renewal)
      stopping.removeEventListener('abort', endSoon)
      await this.#channel?.close()
    }
    this.#settleBlocked()
    this.#settleDoubtful()
    return {
      report: {
        unused: Math.max(0, this.#left),
        ...this.#counts,
        ending: this.#ending,
        restMs: this.#restMs,
      },
      exchange: stopping.aborted ? undefined : this.#exchange,
      refusing: this.#refusing,
      unasked: [...this.#unasked, ...this.#elsewhere],
    }
  }

  #goesOn (): boolean {
    return !this.#isFull && this.#counts.asked < this.#limit &&
      !this.#signal.aborted && !this.#options.stopping.aborted
  }

  async #renew (): Promise<void> {
    const more = await this.#options.memory.more(this.#party, this.#granted.session, 0)
    if (more === undefined) this.#isFull = true
  }

  /** Opens the session; if TLS fails, another one without it. */
  async #open (): Promise<void> {
    const { startTls, unencrypted } = this.#options
    const usesTls = startTls && !unencrypted.has(this.#host.name)
    try {
      await this.#connect(usesTls)
    } catch (error) {
      if (!usesTls || !(error instanceof SmtpFault) || error.kind !== 'no_tls') throw error
      unencrypted.set(this.#host.name, true)
      await this.#channel?.close()
      await this.#connect(false)
    }
  }

  async #connect (startTls: boolean): Promise<void> {
    const { replyTimeoutMs, greetingTimeoutMs } = this.#options
    const socket = await connectToHost(this.#egress.connect, this.#host, this.#signal)
    this.#channel = new SmtpChannel(socket, {
      signal: this.#signal, replyTimeoutMs, greetingTimeoutMs,
    })
    const { caller: { helo } } = this.#egress
    this.#extensions = await greet(this.#channel, { helo, host: this.#host.name, startTls })
  }

  get #openChannel (): SmtpChannel {
    if (this.#channel === undefined) throw new SmtpFault('dropped')
    return this.#channel
  }

  async #mail (utf8: boolean): Promise<void> {
    const from = `MAIL FROM:<${this.#egress.caller.sender}>${utf8 ? ' SMTPUTF8' : ''}`
    const reply = await this.#openChannel.send(from)
    throwIfRefused(reply, { step: 'sender', host: this.#host.name })
    this.#isReady = true
    this.#hasUtf8 = utf8
    this.#sinceMail = 0
  }

  async #restartMail (utf8 = this.#hasUtf8): Promise<void> {
    await this.#openChannel.send('RSET')
    await this.#mail(utf8)
  }

  /**
   * Rows that may be asked at once, with room for the tests of their domains; none if it is not our
   * turn for a while.
   */
  async #takeGroup (): Promise<readonly MailboxRow[]> {
    const size = this.#extensions.has('PIPELINING') ? GROUP : 1
    const group: MailboxRow[] = []
    let tests = 0
    // A place is left for a postmaster.
    const most = this.#limit - this.#counts.asked - (this.#isTrusted || this.#limit === 1 ? 0 : 1)
    while (group.length < Math.min(size, most - tests)) {
      const row = this.#unasked.shift() ?? this.#rows.take()
      if (row === undefined) break
      if (this.#refusing.has(row.domain)) {
        this.#elsewhere.push(row)
        continue
      }
      // A row that a session was lost with is asked alone, so that it costs no other its answer.
      const isAlone = row.losses > 0
      if (isAlone && group.length > 0) {
        this.#unasked.unshift(row)
        break
      }
      const needed = await this.#needsTest(row, group) ? 1 : 0
      if (!await this.#hasTurns(group.length + tests + 1 + needed, group.length === 0)) {
        this.#unasked.unshift(row)
        break
      }
      group.push(row)
      tests += needed
      if (isAlone) break
    }
    return group
  }

  async #needsTest (row: MailboxRow, group: readonly MailboxRow[]): Promise<boolean> {
    if (this.#party.policy.acceptance !== undefined) return false
    if (group.some(({ domain }) => domain === row.domain)) return false
    return await this.#options.catchAlls.find(this.#host.name, row.domain) === undefined
  }

  /** Takes further recipients until there are `count`; false if they would take too long. */
  async #hasTurns (count: number, mayWait: boolean): Promise<boolean> {
    const { memory, stopping } = this.#options
    const within = AbortSignal.any([this.#signal, stopping])
    while (this.#left < count) {
      const wanted = Math.max(count - this.#left, Math.min(this.#rows.size, GROUP))
      const more = await memory.more(this.#party, this.#granted.session, wanted)
      if (more === undefined) this.#isFull = true
      else this.#left += more.recipients
      if (this.#left >= count) return true
      if (more === undefined || within.aborted) return false
      if (!mayWait || more.waitMs > MAX_TURN_MS) return false
      await sleep(more.waitMs, within).catch(() => {})
    }
    return true
  }

  /** Asks for rows, then for a made-up name at each of their domains that is not known yet. */
  async #ask (group: readonly MailboxRow[]): Promise<void> {
    const rows = await this.#sendable(group)
    if (rows.length === 0) return
    if (!await this.#testFirst(rows)) {
      // A server that takes not even one recipient now is left alone for a while.
      if (this.#counts.asked > 0) this.#unasked.push(...rows)
      else for (const row of rows) row.settle({ mailbox: 'greylisted', retry: true })
      return
    }
    const readings: ReplyReading[] = []
    let fault: SmtpFault | undefined
    try {
      await this.#recipients(rows.map(({ address }) => address), readings)
    } catch (error) {
      if (!(error instanceof SmtpFault)) throw error
      fault = error
      this.#lose(rows.slice(readings.length), error.kind)
    }
    const accepted: MailboxRow[] = []
    const started = new Set<string>()
    for (const [index, reading] of readings.entries()) {
      const row = rows[index] as MailboxRow
      if (reading.meaning === 'accepted') accepted.push(row)
      // Servers that greylist start to count with the first question.
      if (reading.meaning === 'greylisted') started.add(row.domain)
      await this.#judge(row, reading)
    }
    const canTest = fault === undefined && !this.#isFull
    await this.#judgeAccepted(accepted, canTest ? started : new Set(), canTest)
    if (fault !== undefined) throw fault
    await this.#afterLimit(readings)
  }

  /**
   * The rows that can be sent, once the server has accepted MAIL: an address beyond ASCII needs
   * SMTPUTF8 (RFC 6531, 3.2).
   */
  async #sendable (group: readonly MailboxRow[]): Promise<readonly MailboxRow[]> {
    const offersUtf8 = this.#extensions.has('SMTPUTF8')
    const rows = group.filter(row => {
      if (offersUtf8 || !requiresUtf8(row.address)) return true
      row.settle({ mailbox: 'unclear' })
      return false
    })
    const needsUtf8 = rows.some(({ address }) => requiresUtf8(address))
    try {
      if (!this.#isReady && rows.length > 0) await this.#mail(needsUtf8)
      else if (needsUtf8 && !this.#hasUtf8) await this.#restartMail(true)
    } catch (error) {
      if (needsUtf8 && error instanceof SmtpRefusal && isOfUtf8(error.reading)) {
        this.#isReady = false
        return await this.#sendable(withoutUtf8(rows, error.reading))
      }
      this.#unasked.push(...rows)
      throw error
    }
    return rows
  }

  /** Sends recipients at once, and adds the reading of each reply. */
  async #recipients (addresses: readonly string[], readings: ReplyReading[]): Promise<void> {
    const channel = this.#openChannel
    const { caller: { sender } } = this.#egress
    this.#left -= addresses.length
    const commands = addresses.map(address => `RCPT TO:<${address}>`)
    await channel.sendAll(commands, (reply, index) => {
      const recipient = addresses[index] ?? ''
      const reading =
        readReply(reply, { step: 'recipient', host: this.#host.name, sender, recipient })
      readings.push(reading)
      if (reading.meaning === 'limited') return
      this.#counts.asked += 1
      this.#sinceMail += 1
    })
  }

  /** What becomes of a row by the reply to it; those that are accepted are judged later. */
  async #judge (row: MailboxRow, reading: ReplyReading): Promise<void> {
    const { meaning, code, waitMs, isTooFast, isOfDomain, isOfServer } = reading
    const counts = this.#counts
    if (code === CLOSING) this.#isFull = this.#isClosing = true
    if (VERDICTS.has(meaning)) counts.verdicts += 1
    if (meaning === 'blocked' && isOfDomain) {
      this.#refusing.set(row.domain, this.#options.restMs)
      return row.settle({ mailbox: 'blocked', retry: true })
    }
    if (meaning === 'blocked' || (meaning === 'greylisted' && isTooFast)) {
      counts.blocked += 1
      this.#blocked.push({ row, probed: { mailbox: meaning, retry: retryAfter(waitMs) } })
      return this.#endIfBlocked(row.domain, reading)
    }
    // Another row has an answer, so the replies before were not about us alone.
    this.#settleBlocked()
    if (meaning === 'accepted') {
      await this.#trust()
    } else if (meaning === 'limited' && (code !== CLOSING || counts.asked > 0)) {
      this.#unasked.push(row)
    } else if (code === CLOSING && counts.asked > 1 && row.losses++ < MAX_LOSSES) {
      // The reply is about the session, which has taken others before.
      if (counts.asked > MIN_LIMIT) await this.#noteDrop(counts.asked - 1)
      this.#unasked.push(row)
    } else if (meaning === 'greylisted' || meaning === 'limited') {
      row.settle({ mailbox: 'greylisted', retry: retryAfter(waitMs) })
    } else {
      const probed = probedBy(meaning, reading)
      const mayBeUntrue = meaning === 'no_mailbox' || (meaning === 'no_mail' && !isOfServer)
      if (mayBeUntrue && !this.#isTrusted) this.#doubtful.push({ row, probed })
      else row.settle(probed)
    }
  }

  /**
   * Ends the session once replies that are about us do not stop. A customer of the owner may refuse
   * us for himself alone, so his domain rests, and not the owner before there are several.
   */
  #endIfBlocked (domain: string, { code, waitMs }: ReplyReading): void {
    const isRefused = code >= 500
    if (isRefused) {
      const domains = this.#blocked.map(({ row }) => row.domain)
      const isOwn = isOwnDomain(domain, this.#host.name, this.#party.policy)
      const isEnough = domains.filter(it => it === domain).length >= MAX_BLOCKS
      if (isEnough && !isOwn) this.#refusing.set(domain, this.#options.restMs)
      if (!(isEnough && isOwn) && new Set(domains).size < MAX_BLOCKS) return
    } else if (this.#blocked.length < MAX_SLOW_DOWNS && code !== CLOSING) return
    this.#isFull = true
    this.#restAs(isRefused ? 'blocked' : 'limited', waitMs)
  }

  #restAs (ending: 'blocked' | 'limited', waitMs: number | undefined): void {
    this.#ending = ending
    this.#restMs = waitMs ?? (ending === 'blocked' ? this.#options.restMs : SLOWER_MS)
  }

  /** What servers say of us says nothing of rows that others can be asked for. */
  #settleBlocked (): void {
    const hasEnded = this.#ending === 'limited' || this.#ending === 'blocked'
    for (const { row, probed } of this.#blocked.splice(0)) {
      if (hasEnded) this.#unasked.push(row)
      else if (this.#refusing.has(row.domain)) this.#elsewhere.push(row)
      else row.settle(probed)
    }
  }

  /** The server has accepted a recipient, so those that it refused do not exist. */
  async #trust (): Promise<void> {
    if (this.#isTrusted) return
    this.#isTrusted = true
    for (const { row, probed } of this.#doubtful.splice(0)) row.settle(probed)
    await this.#options.memory.note(this.#host.name, { accepted: this.#egress.name })
  }

  /** Accepted rows are answered once it is known whether their domain accepts any name. */
  async #judgeAccepted (
    rows: readonly MailboxRow[], started: ReadonlySet<string>, canTest: boolean
  ): Promise<void> {
    const { acceptance } = this.#party.policy
    if (acceptance !== undefined) {
      for (const row of rows) row.settle({ mailbox: 'accepted', acceptance })
      return
    }
    const domains = new Set([...rows.map(({ domain }) => domain), ...started])
    const results = await this.#testDomains([...domains], canTest)
    for (const row of rows) {
      const { isCatchAll, retry } = results.get(row.domain) ?? UNTESTED
      row.settle(isCatchAll === true && this.#acceptsAny
        ? UNTRUTHFUL
        : { mailbox: 'accepted', catchAll: isCatchAll, ...(retry && { retry }) })
    }
  }

  /**
   * Tests domains before their rows whose test after a row was not possible; false if that has used
   * up the session.
   */
  async #testFirst (rows: readonly MailboxRow[]): Promise<boolean> {
    if (this.#party.policy.acceptance !== undefined) return true
    const domains = [...new Set(rows.map(({ domain }) => domain))]
      .filter(domain => this.#options.catchAlls.takeUrgent(this.#host.name, domain))
    if (domains.length === 0) return true
    const isLast = this.#isFull
    await this.#testDomains(domains, true)
    return this.#isFull === isLast && this.#left >= rows.length
  }

  /**
   * Whether domains accept any name: as it is known, or by a made-up one. What could not be tested
   * is not known to be deliverable, so its rows come back, and its test goes first then.
   */
  async #testDomains (
    domains: readonly string[], canTest: boolean
  ): Promise<ReadonlyMap<string, Tested>> {
    const { catchAlls } = this.#options
    const results = new Map<string, Tested>()
    const leaveUntested = (domain: string) => {
      results.set(domain, UNTESTED)
      catchAlls.setUrgent(this.#host.name, domain)
    }
    const mine: { readonly domain: string, readonly finish: (result?: boolean) => void }[] = []
    const others: { readonly domain: string, readonly result: Promise<boolean | undefined> }[] = []
    for (const domain of domains) {
      const isCatchAll = await catchAlls.find(this.#host.name, domain)
      if (isCatchAll !== undefined) results.set(domain, { isCatchAll })
      else if (!canTest) leaveUntested(domain)
      else {
        const claim = catchAlls.claim(this.#host.name, domain)
        if ('finish' in claim) mine.push({ domain, finish: claim.finish })
        else others.push({ domain, result: claim.result })
      }
    }
    const tested = mine.slice(0, Math.max(0, this.#left))
    const readings: ReplyReading[] = []
    // A server that ends the session at its second recipient has no limit: it is the name.
    let isOfName = false
    try {
      if (tested.length > 0) await this.#askMadeUp(tested.map(({ domain }) => domain), readings)
    } catch (error) {
      // A failure of the made-up name does not change the answer for the rows.
      if (!(error instanceof SmtpFault) && !(error instanceof SmtpRefusal)) throw error
      isOfName = this.#counts.asked < MIN_LIMIT && tested.length === 1
      this.#isFull = true
    } finally {
      for (const [index, { domain, finish }] of mine.entries()) {
        const result = testedBy(readings[index])
        if (result !== UNTESTED) results.set(domain, result)
        else if (isOfName) results.set(domain, {})
        else leaveUntested(domain)
        finish(result.isCatchAll)
      }
    }
    // Only now: another session may wait for ours.
    for (const { domain, result } of others) {
      const isCatchAll = await result
      results.set(domain, isCatchAll === undefined ? UNTESTED : { isCatchAll })
    }
    return results
  }

  /** Asks for a made-up name at each domain; the first that is one too many, alone again. */
  async #askMadeUp (domains: readonly string[], readings: ReplyReading[]): Promise<void> {
    const names = domains.map(domain => madeUpAddress(domain, this.#egress.caller.helo))
    await this.#recipients(names, readings)
    const limited = readings.findIndex(({ meaning }) => meaning === 'limited')
    if (limited < 0) return
    await this.#restartMail()
    const again: ReplyReading[] = []
    if (this.#left > 0) await this.#recipients(names.slice(limited, limited + 1), again)
    readings.splice(limited, 1, ...again)
    if (again.some(({ meaning }) => meaning === 'limited')) await this.#learnLimit()
  }

  /**
   * Asks a server that has accepted nobody for the postmasters of those domains whose rows it has
   * refused, until it accepts one.
   */
  async #askPostmasters (): Promise<void> {
    // A server that refuses us, or wants less of us, is asked for nobody any more.
    if (this.#ending !== 'well' || this.#isClosing) return
    for (const domain of new Set(this.#doubtful.map(({ row }) => row.domain))) {
      const key = `${this.#host.name} ${domain}`
      if (this.#isTrusted || this.#options.stopping.aborted) return
      if (this.#counts.asked >= Math.max(2, this.#limit)) return
      if (this.#postmasters.has(domain) || this.#options.noPostmaster.has(key)) continue
      if (!await this.#hasTurns(1, true)) return
      this.#postmasters.set(domain, true)
      const reading = await this.#askPostmaster(`${POSTMASTER}@${domain}`)
      this.#postmasters.set(domain, retryAfter(reading?.waitMs))
      if (reading?.meaning === 'accepted') await this.#trust()
      else if (reading !== undefined && reading.code >= 500) {
        this.#options.noPostmaster.set(key, true)
      }
    }
  }

  async #askPostmaster (address: string): Promise<ReplyReading | undefined> {
    const readings: ReplyReading[] = []
    await this.#recipients([address], readings)
    if (readings[0]?.meaning === 'limited' && await this.#hasTurns(1, true)) {
      await this.#restartMail()
      await this.#recipients([address], readings)
    }
    return readings.at(-1)
  }

  /**
   * Nobody was accepted in the whole session: as far as we can see the server refuses everybody,
   * which may be its way to refuse us. Where its postmaster gave no answer, a later session asks;
   * the next one, if this one ended before he could be asked for.
   */
  #settleDoubtful (): void {
    const { noPostmaster, stopping } = this.#options
    for (const { row } of this.#doubtful.splice(0)) {
      const asked = this.#postmasters.get(row.domain)
      if (stopping.aborted) this.#unasked.push(row)
      else if (noPostmaster.has(`${this.#host.name} ${row.domain}`)) row.settle(UNTRUTHFUL)
      else if (asked === undefined && row.losses++ < MAX_LOSSES) this.#unasked.push(row)
      else row.settle({ ...UNTRUTHFUL, retry: asked ?? true })
    }
  }

  /** A server that takes no more recipients gets a new MAIL, or has its limit reached. */
  async #afterLimit (readings: readonly ReplyReading[]): Promise<void> {
    if (this.#isFull || readings.every(({ meaning }) => meaning !== 'limited')) return
    if (this.#sinceMail > 0) return await this.#restartMail()
    await this.#learnLimit()
    if (this.#counts.asked > 0) return
    for (const row of this.#unasked.splice(0)) row.settle({ mailbox: 'greylisted', retry: true })
  }

  /** The server has taken all that it takes in a session. */
  async #learnLimit (): Promise<void> {
    this.#isFull = true
    const { asked } = this.#counts
    if (asked > 0) await this.#options.memory.note(this.#host.name, { limit: asked })
  }

  /** One drop may be an accident: a limit ends two sessions in a row at the same recipient. */
  async #noteDrop (taken: number): Promise<void> {
    const { drops, memory } = this.#options
    const { name } = this.#host
    if (drops.get(name) === taken) await memory.note(name, { limit: taken })
    drops.set(name, taken)
  }

  /** Rows whose reply did not come. */
  #lose (rows: readonly MailboxRow[], kind: SmtpFaultKind): void {
    const { asked } = this.#counts
    const isLimit = kind === 'dropped' && asked >= MIN_LIMIT
    if (isLimit) this.#noteDrop(asked).catch(failLoudly)
    // We ended the session, which the server had no time to answer.
    const isOurs = this.#signal.aborted && (asked > 0 || this.#options.stopping.aborted)
    for (const row of rows) {
      // The server took others before, or ended the session for another one of the group, so that
      // another session may be all that this row needs.
      const isAnothers = isOurs || (kind === 'dropped' && (asked > 0 || rows.length > 1))
      if (this.#isFull || (isAnothers && row.losses++ < MAX_LOSSES)) this.#unasked.push(row)
      else row.settle({ mailbox: BY_FAULT[kind], retry: true })
    }
  }

  /** The server did not accept a step before the recipients. */
  async #refused (reading: ReplyReading): Promise<void> {
    const { meaning, code, waitMs, isTooFast } = reading
    // A server that has taken recipients takes no further MAIL in this session.
    if (code === BAD_SEQUENCE && this.#counts.asked > 0) return await this.#learnLimit()
    this.#ending = 'failed'
    if (meaning === 'blocked' || isTooFast) {
      return this.#restAs(code >= 500 ? 'blocked' : 'limited', waitMs)
    }
    if (meaning === 'greylisted' || meaning === 'limited') {
      this.#exchange = { why: 'greylisted', restMs: waitMs ?? GREETING_MS }
      return
    }
    // What it says of itself is true of all of its rows.
    const probed = probedBy(meaning, reading)
    for (const row of this.#unasked.splice(0)) row.settle(probed)
    for (let row = this.#rows.take(); row !== undefined; row = this.#rows.take()) {
      row.settle(probed)
    }
  }

  #failed (kind: SmtpFaultKind): void {
    this.#ending = 'failed'
    if (this.#isReady || kind === 'no_egress') return
    this.#exchange = { why: BY_FAULT[kind], restMs: this.#options.restMs }
  }
}

const retryAfter = (waitMs: number | undefined) =>
  waitMs === undefined ? true : { afterMs: waitMs }

const probedBy = (mailbox: Mailbox, { by }: ReplyReading): Probed =>
  ({ mailbox, ...by === 'words' && { byWords: true } })

/** What the reply to a made-up name says of its domain. */
function testedBy (reading: ReplyReading | undefined): Tested {
  if (reading === undefined || reading.meaning === 'limited') return UNTESTED
  return reading.meaning === 'greylisted'
    ? { retry: retryAfter(reading.waitMs) }
    : { isCatchAll: CATCH_ALL[reading.meaning] }
}

/** Whether a MAIL with SMTPUTF8 may be refused for that: if not, one without it is refused too. */
const isOfUtf8 = ({ code, meaning, isTooFast }: ReplyReading): boolean =>
  code >= 500 || (meaning === 'greylisted' && code !== CLOSING && isTooFast !== true)

/** Answers the rows that need SMTPUTF8 by its refusal, and returns the others. */
function withoutUtf8 (
  rows: readonly MailboxRow[], { code, waitMs }: ReplyReading
): readonly MailboxRow[] {
  return rows.filter(row => {
    if (!requiresUtf8(row.address)) return true
    row.settle(code < 500
      ? { mailbox: 'greylisted', retry: retryAfter(waitMs) }
      : { mailbox: 'unclear' })
    return false
  })
}

/** Connects to the first address of a host that can be reached (RFC 5321, 5.1). */
async function connectToHost (connect: Connect, host: MailServer, signal: AbortSignal) {
  const [first = '', ...others] = host.addresses
  let attempt = connect(first, signal)
  for (const address of others) {
    attempt = attempt.catch((error: unknown) => {
      if (!(error instanceof SmtpFault) || error.kind !== 'unreachable') throw error
      return connect(address, signal)
    })
  }
  return await attempt
}

const MAX_TESTED = 100_000
/** How long a process uses a result without asking the memory, which keeps it for a day. */
const TEST_USED_MS = 3_600_000

/** The tests of domains with made-up names: one for each exchange, domain and day. */
export class CatchAllTests {
  readonly #memory: HostMemory
  readonly #known = boundedCache<boolean>({ entries: MAX_TESTED, ttl: TEST_USED_MS })
  /** Domains whose test was not possible after a row. */
  readonly #urgent = boundedCache<true>({ entries: MAX_TESTED, ttl: TEST_USED_MS })
  readonly #running = new Map<string, Promise<boolean | undefined>>()

  constructor (memory: HostMemory) {
    this.#memory = memory
  }

  async find (exchange: string, domain: string): Promise<boolean | undefined> {
    const key = `${exchange} ${domain}`
    const answer = this.#known.get(key) ?? await this.#memory.catchAll(exchange, domain)
    if (answer !== undefined) this.#known.set(key, answer)
    return answer
  }

  setUrgent (exchange: string, domain: string): void {
    this.#urgent.set(`${exchange} ${domain}`, true)
  }

  /** Whether a domain is to be tested before its rows are asked; once. */
  takeUrgent (exchange: string, domain: string): boolean {
    return this.#urgent.delete(`${exchange} ${domain}`)
  }

  /** A test to make, and its `finish`, or the result of the session that is making it. */
  claim (exchange: string, domain: string):
    | { readonly finish: (isCatchAll?: boolean) => void }
    | { readonly result: Promise<boolean | undefined> } {
    const key = `${exchange} ${domain}`
    const running = this.#running.get(key)
    if (running !== undefined) return { result: running }
    const { promise, resolve } = Promise.withResolvers<boolean | undefined>()
    this.#running.set(key, promise)
    const finish = async (isCatchAll?: boolean) => {
      if (isCatchAll !== undefined) {
        await this.#memory.rememberCatchAll(exchange, domain, isCatchAll)
      }
      this.#running.delete(key)
      resolve(isCatchAll)
    }
    return { finish: isCatchAll => { finish(isCatchAll).catch(failLoudly) } }
  }
}

/** The time after which a domain gets another made-up name. */
const MADE_UP_MS = 7 * 24 * 3_600_000
const CONSONANTS = 'bdfgklmnprstvz'
const VOWELS = 'aeiou'

/**
 * An address at a domain that no person has. It stays the same for a week, in every process with
 * this key, as servers that greylist remember recipients; and it reads like a name, as some servers
 * answer random letters differently. The weeks of domains begin at different times.
 */
function madeUpAddress (domain: string, key: string): string {
  const offset = createHmac('sha256', key).update(domain).digest().readUInt32BE()
  const epoch = Math.floor((Date.now() + offset % MADE_UP_MS) / MADE_UP_MS)
  const bytes = createHmac('sha256', key).update(`${domain} ${epoch}`).digest()
  const pick = (letters: string, index: number) => letters[(bytes[index] ?? 0) % letters.length]
  const syllables = Array.from({ length: 7 }, (_, index) =>
    `${pick(CONSONANTS, index * 2)}${pick(VOWELS, index * 2 + 1)}`)
  const name = `${syllables.slice(0, 3).join('')}.${syllables.slice(3).join('')}`
  return `${name}${100 + bytes.readUInt16BE(14) % 900}@${domain}`
}

/** A fault of ours in work that nobody awaits ends the process, as any other. */
export function failLoudly (error: unknown): never {
  throw error
}
