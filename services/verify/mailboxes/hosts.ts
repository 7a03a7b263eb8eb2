import { setTimeout as delay } from 'node:timers/promises'
import { readDomain } from '../../mail/owners.ts'
import type { MailHost } from '../providers/mail-domains.ts'
import { boundedCache, FairQueue, FairShares } from '../../runtime/platform/limits.ts'
import type { Metrics } from '../../runtime/platform/metrics.ts'
import { unlessAborted } from '../../runtime/platform/retry.ts'
import {
  CatchAllTests, Conversation, type ConversationOptions, failLoudly, MailboxRow, type Probed,
  type SessionSettings, UNTRUTHFUL,
} from './conversation.ts'
import type { Egress, EgressPool } from './egress.ts'
import type { ExchangeRest, Granted, HostMemory, Party, Refused } from './memory.ts'
import {
  listPlaces, OTHER_OWNERS, ownerLabel, type OwnerPolicy, type MailServer, type Place,
  type PolicyLimits,
} from './policies.ts'

export type MailHostsOptions = SessionSettings & {
  readonly memory: HostMemory
  readonly pool: EgressPool
  readonly limits: PolicyLimits
  /** Maximum concurrent sessions of this process; see `takeConnection`. */
  readonly connections: number
  readonly metrics?: Pick<Metrics, 'count' | 'observe' | 'watchAll'> | undefined
}

type MailboxRequest = {
  readonly tenant: string
  readonly hosts: readonly MailHost[]
  /** Ends the wait for the answer. */
  readonly signal: AbortSignal
}

const LATE = { mailbox: 'late', retry: true } as const satisfies Probed
/** A row that sessions gave back so often at one place waits for the next check of its batch. */
const MAX_ROUNDS = 20
const CONTROL = /\p{Cc}/u
/** Answers that nobody waited for are kept for the next question. */
const ANSWERS_KEPT_MS = 600_000
const MAX_ANSWERS = 100_000
const DAY_MS = 24 * 3_600_000
/** Every session tries TLS again after that: a failure may be the work of somebody in between. */
const UNENCRYPTED_MS = 600_000
/** An exchange that cannot be reached from so many egresses is not tried from others. */
const MAX_UNREACHED = 2
/** A tenant gets a connection only while it has fewer than so many times those that are free. */
const SHARE_OF_FREE = 3

/**
 * Asks mail servers whether mailboxes exist, without sending mail. The rows of all batches wait in
 * one queue for each exchange and egress, from which sessions take them, fairly between tenants.
 * What a session may ask is decided by the memory that all processes share.
 */
export class MailHosts {
  readonly options: MailHostsOptions
  readonly conversation: ConversationOptions
  readonly #queues = new Map<string, ExchangeQueue>()
  /** Rows that wait or are asked. */
  readonly #rows = new Map<string, MailboxRow>()
  readonly #answers = boundedCache<Probed>({ entries: MAX_ANSWERS, ttl: ANSWERS_KEPT_MS })
  /** What rows get while an egress rests at an owner, or for a domain at an exchange. */
  readonly #resting = boundedCache<Probed>({ entries: MAX_ANSWERS })
  /** Queues that wait for a connection of this process, by tenant. */
  readonly #stalled = new Map<string, Set<ExchangeQueue>>()
  /** Turns at the parties that have no place for a session now. */
  readonly #turns = new Map<string, Turns>()
  /** Connections by the tenants that they were opened for. */
  readonly #connections = new Map<string, number>()
  #free: number
  readonly #stop = new AbortController()
  readonly #running = new Set<Promise<void>>()

  constructor (options: MailHostsOptions) {
    this.options = options
    this.#free = options.connections
    this.conversation = {
      ...options,
      catchAlls: new CatchAllTests(options.memory),
      stopping: this.#stop.signal,
      noPostmaster: boundedCache({ entries: MAX_ANSWERS, ttl: DAY_MS }),
      unencrypted: boundedCache({ entries: MAX_ANSWERS, ttl: UNENCRYPTED_MS }),
      drops: boundedCache({ entries: MAX_ANSWERS, ttl: 3_600_000 }),
    }
    options.metrics?.watchAll('mailbox_rows_waiting', async () => this.#waiting())
  }

  /**
   * Whether a mailbox exists. When the signal is aborted, it is `late`: a row that was not asked
   * yet is given back, and the answer to one in a session is kept for the next question.
   */
  async ask (address: string, request: MailboxRequest): Promise<Probed> {
    // A session has rows of many tenants, so it must not be the one to find this out.
    if (CONTROL.test(address)) {
      throw new RangeError('address has a control character; canonicalize addresses first')
    }
    const key = `${request.tenant} ${address}`
    const kept = this.#answers.get(key)
    if (kept !== undefined) {
      this.#answers.delete(key)
      return kept
    }
    const row = this.#rows.get(key) ?? this.#add(key, this.#rowOf(address, request))
    const probed = await unlessAborted(row.answer, request.signal)
    if (probed !== undefined) {
      this.#answers.delete(key)
      return probed
    }
    if (!row.isBegun && !row.isWithdrawn) {
      row.isWithdrawn = true
      row.queue?.withdraw()
      row.settle(LATE)
    }
    return LATE
  }

  #rowOf (address: string, { tenant, hosts }: MailboxRequest): MailboxRow {
    const domain = readDomain(address)
    const places = hosts.flatMap(host => listPlaces(domain, host, this.options.limits))
    return new MailboxRow(address, { tenant, domain, places })
  }

  #add (key: string, row: MailboxRow): MailboxRow {
    this.#rows.set(key, row)
    row.answer.then(probed => {
      this.#rows.delete(key)
      if (!row.isWithdrawn) this.#answers.set(key, probed)
    }).catch(failLoudly)
    this.place(row).catch(failLoudly)
    return row
  }

  /** Ends all sessions politely: resolves once the memory has none of them any more. */
  async stop (): Promise<void> {
    this.#stop.abort()
    for (const queue of this.#queues.values()) queue.stop()
    while (this.#running.size > 0) await Promise.all(this.#running)
  }

  get isStopped (): boolean {
    return this.#stop.signal.aborted
  }

  /** Puts a row into the queue of the first of its places that can be asked now. */
  async place (row: MailboxRow): Promise<void> {
    row.isBegun = false
    row.rounds += 1
    if (row.rounds > MAX_ROUNDS + row.at || this.isStopped) return row.settle(LATE)
    for (; row.at < row.places.length; row.at++) {
      const place = row.places[row.at] as Place
      const route = await this.#findEgress(row, place)
      if (row.isWithdrawn) return
      if ('mailbox' in route) return row.settle(route)
      if ('egress' in route) {
        if (this.isStopped) return row.settle(LATE)
        return this.#queueOf(place, route.egress).add(row)
      }
      // A server that may answer later counts more than one that cannot be reached.
      if (row.last.mailbox === 'unreachable') {
        const isSoon = route.why === 'greylisted'
        row.last = { mailbox: route.why, retry: isSoon ? { afterMs: route.restMs } : true }
      }
    }
    row.settle(row.last)
  }

  /** The egress to ask from, the answer without asking, or why the exchange cannot be asked. */
  async #findEgress (
    row: MailboxRow, { host, policy, party }: Place
  ): Promise<{ readonly egress: Egress } | ExchangeRest | Probed> {
    const { pool, memory } = this.options
    const listKeys = (egress: string) =>
      [`${party} ${egress}`, domainKey(host.name, row.domain, egress)]
    const unreached = new Map<string, ExchangeRest>()
    while (unreached.size < MAX_UNREACHED) {
      const egress = pool.choose(policy.owner, row.address, name =>
        unreached.has(name) || listKeys(name).some(key => this.#resting.has(key)))
      if (egress === undefined) break
      // Ours does not work, which says nothing about the host.
      const isDown = egress.isDown()
      if (isDown && unreached.size > 0) break
      if (isDown) return LATE
      const state = await memory.exchange(host, egress.name)
      if (state === undefined) return LATE
      const { acceptsAny, why, restMs } = state
      // A domain that was not tested yet may show that the host does not accept any name.
      const isOpen =
        acceptsAny && await this.conversation.catchAlls.find(host.name, row.domain) === true
      if (isOpen) return UNTRUTHFUL
      if (why === undefined) return { egress }
      unreached.set(egress.name, { why, restMs })
    }
    const [rest] = unreached.values()
    return rest ?? this.#afterRest(pool.all.flatMap(({ name }) => listKeys(name)))
  }

  /** An egress is not used at an owner for a while. */
  rest ({ policy: { owner }, egress }: Party, why: 'limited' | 'blocked', restMs: number): void {
    const probed: Probed = { mailbox: why === 'blocked' ? why : 'greylisted', retry: true }
    this.#resting.set(`${owner} ${egress}`, probed, { ttl: Math.max(1, restMs) })
  }

  /** An egress is not used for a domain at an exchange, at which other domains may be asked for. */
  restDomain (exchange: string, domain: string, egress: string, restMs: number): void {
    const probed: Probed = { mailbox: 'blocked', retry: true }
    this.#resting.set(domainKey(exchange, domain, egress), probed, { ttl: restMs })
  }

  /** What a row gets while every egress rests for it. */
  #afterRest (keys: readonly string[]): Probed {
    const rests = keys.flatMap(key => {
      const why = this.#resting.get(key)
      return why === undefined ? [] : [{ why, afterMs: this.#resting.getRemainingTTL(key) }]
    })
    const [first] = rests.sort((a, b) => a.afterMs - b.afterMs)
    if (first === undefined) return { mailbox: 'blocked', retry: true }
    const afterMs = Math.round(first.afterMs)
    return {
      ...first.why,
      retry: first.why.mailbox === 'blocked' ? { afterMs } : { afterMs, isForTurn: true },
    }
  }

  /**
   * A connection of this process for one of the tenants with rows in the queue: their name; without
   * one, the queue is called once there is one. Each tenant leaves a part of what is free to others
   * (dynamic thresholds, Choudhury and Hahne 1998), so that a list of hosts that hold connections
   * for minutes does not hold all of them.
   */
  takeConnection (queue: ExchangeQueue): string | undefined {
    const [tenant] = queue.tenants.toSorted((a, b) => this.#usedBy(a) - this.#usedBy(b))
    if (tenant === undefined) return undefined
    if (!this.#canConnect(tenant)) {
      const stalled = this.#stalled.get(tenant) ?? new Set()
      this.#stalled.set(tenant, stalled.add(queue))
      return undefined
    }
    this.#connections.set(tenant, this.#usedBy(tenant) + 1)
    this.#free -= 1
    return tenant
  }

  releaseConnection (tenant: string): void {
    const used = this.#usedBy(tenant)
    if (used > 1) this.#connections.set(tenant, used - 1)
    else this.#connections.delete(tenant)
    this.#free += 1
    const tenants = [...this.#stalled].toSorted(([a], [b]) => this.#usedBy(a) - this.#usedBy(b))
    for (const [name, queues] of tenants) {
      // A queue may need none by now.
      for (const queue of queues) {
        if (!this.#canConnect(name)) break
        queues.delete(queue)
        queue.drain()
      }
      if (queues.size === 0) this.#stalled.delete(name)
    }
  }

  #usedBy (tenant: string): number {
    return this.#connections.get(tenant) ?? 0
  }

  #canConnect (tenant: string): boolean {
    return this.#usedBy(tenant) < SHARE_OF_FREE * this.#free
  }

  /** The turns of a party, which begin with the first queue that waits. */
  turnsOf ({ policy: { owner }, egress }: Party): Turns {
    const key = `${owner} ${egress}`
    const current = this.#turns.get(key)
    if (current !== undefined) return current
    const turns: Turns = new Turns(() => {
      if (this.#turns.get(key) === turns) this.#turns.delete(key)
    })
    this.#turns.set(key, turns)
    return turns
  }

  /** Lets a stop wait for work that nobody awaits. */
  track (work: Promise<void>): void {
    this.#running.add(work)
    work.finally(() => { this.#running.delete(work) }).catch(failLoudly)
  }

  #queueOf ({ host, policy, party }: Place, egress: Egress): ExchangeQueue {
    const key = `${host.name} ${party} ${egress.name} ${policy.acceptance}`
    const current = this.#queues.get(key)
    if (current !== undefined) return current
    const queue: ExchangeQueue = new ExchangeQueue(this, {
      host,
      policy: { ...policy, owner: party },
      egress,
      // One that still has a turn may find itself empty again, after another took its place.
      onEmpty: () => {
        if (this.#queues.get(key) === queue) this.#queues.delete(key)
      },
    })
    this.#queues.set(key, queue)
    return queue
  }

  #waiting () {
    // Without this series a panel would have no data while nothing waits.
    const counts = new Map([[OTHER_OWNERS, 0]])
    for (const { owner, size } of this.#queues.values()) {
      const label = ownerLabel(owner)
      counts.set(label, (counts.get(label) ?? 0) + size)
    }
    return [...counts].map(([owner, value]) => ({ labels: { owner }, value }))
  }
}

const domainKey = (exchange: string, domain: string, egress: string) =>
  `${exchange} ${domain} ${egress}`

/**
 * The queues that wait for a session at an owner, whose exchanges share its limits. One at a time
 * asks for a place, of the tenant that got the fewest: large hosts have an exchange for each
 * customer, so a list of thousands of domains would take all places by its number of queues.
 */
class Turns {
  readonly #shares = new FairShares()
  /** By the tenants with rows in them. */
  readonly #waiting = new Map<string, Set<ExchangeQueue>>()
  readonly #onEmpty: () => void
  #next: ExchangeQueue | undefined
  #timer: NodeJS.Timeout | undefined

  constructor (onEmpty: () => void) {
    this.#onEmpty = onEmpty
  }

  /** Whether a queue may ask for a session now: if not, it is called in its turn. */
  isOf (queue: ExchangeQueue): boolean {
    if (this.#isIdle || this.#next === queue) return true
    this.#add(queue)
    return false
  }

  /** A queue has a session, and waits behind the others for a further one. */
  grant (queue: ExchangeQueue, tenant: string): void {
    this.#shares.addUsage(tenant, 1)
    if (this.#next === queue) this.#next = undefined
  }

  /** There is no place for a session of the queue, and nobody asks for one for a while. */
  refuse (queue: ExchangeQueue, ms: number): void {
    this.#add(queue)
    this.#timer ??= setTimeout(() => this.retry(), ms).unref()
  }

  /** The queue has asked for all that it may. */
  finish (queue: ExchangeQueue): void {
    if (this.#next === queue) this.#next = undefined
    // Not at once: thousands of queues may have nothing to ask for any more.
    queueMicrotask(() => this.#call())
  }

  /** There may be a place now. */
  retry (): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#call()
  }

  get #isIdle (): boolean {
    return this.#waiting.size === 0 && this.#next === undefined && this.#timer === undefined
  }

  #add (queue: ExchangeQueue): void {
    for (const tenant of queue.tenants) {
      this.#waiting.set(tenant, (this.#waiting.get(tenant) ?? new Set()).add(queue))
    }
  }

  #call (): void {
    if (this.#next !== undefined || this.#timer !== undefined) return
    const tenant = this.#shares.next(this.#waiting.keys())
    if (tenant === undefined) return this.#onEmpty()
    const [queue] = this.#waiting.get(tenant) ?? []
    for (const [name, queues] of this.#waiting) {
      if (queue !== undefined) queues.delete(queue)
      if (queues.size === 0) this.#waiting.delete(name)
    }
    this.#next = queue
    queue?.drain()
  }
}

/** A further session is opened for so many waiting rows: a session is worth its greeting. */
const ROWS_A_SESSION = 20
const MAX_WITHDRAWN = 100
/** A server counts a session until it has seen its end. */
const COUNTED_MS = 250
const MAX_WAIT_MS = 5_000
const MIN_WAIT_MS = 20

type QueueOptions = {
  readonly host: MailServer
  readonly policy: OwnerPolicy
  readonly egress: Egress
  /** Called when there is neither a row nor a session. */
  readonly onEmpty: () => void
}

/** The rows that wait for an exchange to be asked from an egress, and its sessions. */
export class ExchangeQueue {
  readonly #hosts: MailHosts
  readonly #options: QueueOptions
  readonly #party: Party
  readonly #shares = new FairShares()
  readonly #rows = new FairQueue<MailboxRow>(this.#shares)
  /** Sessions that wait for a row. */
  readonly #idle = new Set<() => void>()
  #size = 0
  /** Rows in the queue that nobody waits for any more. */
  #withdrawn = 0
  #sessions = 0
  #isDraining = false
  #timer: NodeJS.Timeout | undefined

  constructor (hosts: MailHosts, options: QueueOptions) {
    this.#hosts = hosts
    this.#options = options
    this.#party = { policy: options.policy, egress: options.egress.name }
  }

  get owner (): string {
    return this.#options.policy.owner
  }

  get size (): number {
    return this.#size
  }

  get tenants (): readonly string[] {
    return this.#rows.heads().map(({ tenant }) => tenant)
  }

  add (row: MailboxRow): void {
    this.#rows.add(row.tenant, row)
    this.#size += 1
    row.queue = this
    const [wake] = this.#idle
    wake?.()
    if (wake === undefined || this.#size > ROWS_A_SESSION * this.#sessions) this.drain()
  }

  /** Sessions end with the row that they ask for. */
  stop (): void {
    clearTimeout(this.#timer)
    this.#leave()
    for (const wake of this.#idle) wake()
  }

  /** Rows that nobody waits for are skipped, and removed once they are the most. */
  withdraw (): void {
    this.#size -= 1
    this.#withdrawn += 1
    if (this.#withdrawn <= this.#size + MAX_WITHDRAWN) return
    const rows = this.#rows.clear().filter(({ isWithdrawn }) => !isWithdrawn)
    for (const row of rows) this.#rows.add(row.tenant, row)
    this.#withdrawn = 0
  }

  /** The next row, fairly between tenants. */
  take (): MailboxRow | undefined {
    for (;;) {
      const next = this.#rows.take()
      if (next === undefined) return undefined
      if (next.item.isWithdrawn) {
        this.#withdrawn -= 1
        continue
      }
      this.#shares.addUsage(next.name, 1)
      this.#size -= 1
      next.item.isBegun = true
      next.item.queue = undefined
      return next.item
    }
  }

  /** Resolves when there is a row, or after this time. */
  async untilRow (ms: number): Promise<void> {
    if (this.#size > 0) return
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, ms)
    this.#idle.add(resolve)
    await promise
    clearTimeout(timer)
    this.#idle.delete(resolve)
  }

  /** Opens sessions for the rows that wait, as far as the memory and this process allow it. */
  drain (): void {
    if (!this.#isDraining && !this.#hosts.isStopped) this.#hosts.track(this.#openSessions())
  }

  async #openSessions (): Promise<void> {
    this.#isDraining = true
    clearTimeout(this.#timer)
    const turns = this.#hosts.turnsOf(this.#party)
    try {
      while (this.#size > ROWS_A_SESSION * this.#sessions) {
        if (!turns.isOf(this)) return
        const tenant = this.#hosts.takeConnection(this)
        if (tenant === undefined) return
        const { memory } = this.#hosts.options
        const granted = await memory.begin(this.#party, Math.min(this.#size, ROWS_A_SESSION))
        if ('why' in granted) {
          this.#hosts.releaseConnection(tenant)
          this.#refused(granted)
          break
        }
        turns.grant(this, tenant)
        this.#sessions += 1
        this.#hosts.track(this.#converse(granted, tenant))
      }
      if (this.#size === 0 && this.#sessions === 0) this.#options.onEmpty()
    } finally {
      this.#isDraining = false
      turns.finish(this)
    }
  }

  #refused ({ why, waitMs }: Refused): void {
    if (why === 'limited' || why === 'blocked') {
      this.#hosts.rest(this.#party, why, waitMs)
      return this.#leave()
    }
    const ms = Math.min(Math.max(waitMs, MIN_WAIT_MS), MAX_WAIT_MS)
    this.#hosts.turnsOf(this.#party).refuse(this, ms)
  }

  /** The rows look for another host or egress, or learn why there is none. */
  #leave (): void {
    for (let row = this.take(); row !== undefined; row = this.take()) {
      this.#hosts.place(row).catch(failLoudly)
    }
  }

  async #converse (granted: Granted, tenant: string): Promise<void> {
    const { host, policy, egress } = this.#options
    const { memory, metrics } = this.#hosts.options
    const owner = ownerLabel(policy.owner)
    const startedMs = performance.now()
    const conversation = new Conversation(this.#hosts.conversation, {
      host, egress, party: this.#party, granted, rows: this,
    })
    const { report, exchange, refusing, unasked } = await conversation.run()
    if (!this.#hosts.isStopped) await delay(COUNTED_MS)
    const restMs = await memory.end(this.#party, granted.session, report)
    // An exchange that talks to another session of ours is there: one more was too many.
    const isOneTooMany = exchange !== undefined && this.#sessions > 1
    if (exchange !== undefined && !isOneTooMany) {
      await memory.rest(host, egress.name, exchange)
    }
    for (const [domain, ms] of refusing) {
      this.#hosts.restDomain(host.name, domain, egress.name, ms)
    }
    const { ending } = report
    if (restMs > 0 && (ending === 'limited' || ending === 'blocked')) {
      this.#hosts.rest(this.#party, ending, restMs)
    }
    metrics?.count('mailbox_sessions_total', { owner, ending })
    metrics?.observe('mailbox_session_seconds', { owner }, (performance.now() - startedMs) / 1_000)
    metrics?.count('mailbox_recipients_total', { owner, reply: 'verdict' }, report.verdicts)
    metrics?.count('mailbox_recipients_total', { owner, reply: 'blocked' }, report.blocked)
    metrics?.count('mailbox_recipients_total', { owner, reply: 'other' },
      report.asked - report.verdicts - report.blocked)
    this.#sessions -= 1
    this.#hosts.releaseConnection(tenant)
    for (const row of unasked) await this.#hosts.place(row)
    if (isOneTooMany) {
      this.#timer = setTimeout(() => this.drain(), MAX_WAIT_MS).unref()
    } else {
      if (ending !== 'well') this.#leave()
      this.drain()
    }
    this.#hosts.turnsOf(this.#party).retry()
  }
}
