import { LRUCache } from 'lru-cache'
import type { MailHost } from '../providers/mail-domains.ts'
import { createFairQueue, createFairShares } from '../../runtime/platform/limits.ts'
import type { Metrics } from '../../runtime/platform/metrics.ts'
import { unlessAborted } from '../../runtime/platform/retry.ts'
import {
  CatchAllTests, Conversation, type ConversationOptions, failLoudly,
} from './conversation.ts'
import type { Egress, EgressPool } from './egress.ts'
import type { HostMemory, Party, Refused } from './memory.ts'
import { ownerLabel, type OwnerPolicy, policyOf, type PolicyLimits } from './policies.ts'
import { MailboxRow } from './mailbox-row.ts'
import type { Probed } from './probed.ts'

type SharedByHosts = 'memory' | 'catchAlls' | 'unencrypted' | 'drops'

export type MailHostsOptions = Omit<ConversationOptions, SharedByHosts> & {
  readonly memory: HostMemory
  readonly pool: EgressPool
  readonly limits: PolicyLimits
  /** Maximum concurrent sessions of this process. */
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
/** A row that many sessions gave back waits for the next check of its batch. */
const MAX_ROUNDS = 20
const CONTROL = /\p{Cc}/u
/** Answers that nobody waited for are kept for the next question. */
const ANSWERS_KEPT_MS = 600_000
const MAX_ANSWERS = 100_000

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
  readonly #answers = new LRUCache<string, Probed>({ max: MAX_ANSWERS, ttl: ANSWERS_KEPT_MS })
  /** What rows get while an egress rests at an owner. */
  readonly #resting = new LRUCache<string, Probed>({ max: MAX_ANSWERS })
  /** Queues that wait for a connection of this process. */
  readonly #stalled = new Set<ExchangeQueue>()
  #connections = 0

  constructor (options: MailHostsOptions) {
    this.options = options
    this.conversation = {
      ...options,
      catchAlls: new CatchAllTests(options.memory),
      unencrypted: new LRUCache({ max: MAX_ANSWERS, ttl: 24 * 3_600_000 }),
      drops: new LRUCache({ max: MAX_ANSWERS, ttl: 3_600_000 }),
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
    const row = this.#rows.get(key) ?? this.#add(key, new MailboxRow(address, request))
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

  #add (key: string, row: MailboxRow): MailboxRow {
    this.#rows.set(key, row)
    row.answer.then(probed => {
      this.#rows.delete(key)
      if (!row.isWithdrawn) this.#answers.set(key, probed)
    }).catch(failLoudly)
    this.place(row).catch(failLoudly)
    return row
  }

  /** Puts a row into the queue of the first of its hosts that can be asked now. */
  async place (row: MailboxRow): Promise<void> {
    row.isBegun = false
    row.rounds += 1
    if (row.rounds > MAX_ROUNDS) return row.settle(LATE)
    for (; row.at < row.hosts.length; row.at++) {
      const host = row.hosts[row.at] as MailHost
      const state = await this.options.memory.exchange(host.name)
      if (row.isWithdrawn) return
      if (state === undefined) return row.settle(LATE)
      if (state.isUntruthful) return row.settle({ mailbox: 'accepted', acceptance: 'accepts_any' })
      if (state.why !== undefined) {
        // A host that may answer later counts more than one that cannot be reached.
        const isSoon = state.why === 'greylisted'
        if (row.last.mailbox === 'unreachable') {
          row.last = { mailbox: state.why, retry: isSoon ? { afterMs: state.restMs } : true }
        }
        continue
      }
      const policy = policyOf(row.domain, host.name, this.options.limits)
      const egress = this.options.pool.choose(policy.owner, row.address, name =>
        this.#resting.has(`${policy.owner} ${name}`))
      if (egress === undefined) return row.settle(this.#afterRest(policy.owner))
      // Ours does not work, which says nothing about the host.
      if (egress.isDown?.() === true) return row.settle(LATE)
      return this.#queueOf(host, policy, egress).add(row)
    }
    row.settle(row.last)
  }

  /** An egress is not used at an owner for a while. */
  rest ({ policy: { owner }, egress }: Party, why: 'limited' | 'blocked', restMs: number): void {
    const probed: Probed = { mailbox: why === 'blocked' ? why : 'greylisted', retry: true }
    this.#resting.set(`${owner} ${egress}`, probed, { ttl: Math.max(1, restMs) })
  }

  /** What a row gets while every egress rests at the owner. */
  #afterRest (owner: string): Probed {
    const rests = this.options.pool.all.flatMap(({ name }) => {
      const key = `${owner} ${name}`
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

  /** A connection of this process; without one, the queue is called once there is one. */
  takeConnection (queue: ExchangeQueue): boolean {
    if (this.#connections >= this.options.connections) {
      this.#stalled.add(queue)
      return false
    }
    this.#connections += 1
    return true
  }

  releaseConnection (): void {
    this.#connections -= 1
    // A queue may need none by now.
    for (const next of this.#stalled) {
      if (this.#connections >= this.options.connections) return
      this.#stalled.delete(next)
      next.drain().catch(failLoudly)
    }
  }

  #queueOf (host: MailHost, policy: OwnerPolicy, egress: Egress): ExchangeQueue {
    const key = `${host.name} ${policy.owner} ${egress.name} ${policy.acceptance}`
    const queue = this.#queues.get(key) ??
      new ExchangeQueue(this, { host, policy, egress, onEmpty: () => this.#queues.delete(key) })
    this.#queues.set(key, queue)
    return queue
  }

  #waiting () {
    const counts = new Map<string, number>()
    for (const { owner, size } of this.#queues.values()) {
      const label = ownerLabel(owner)
      counts.set(label, (counts.get(label) ?? 0) + size)
    }
    return [...counts].map(([owner, value]) => ({ labels: { owner }, value }))
  }
}

/** A further session is opened for so many waiting rows: a session is worth its greeting. */
const ROWS_A_SESSION = 20
const MAX_WITHDRAWN = 100
const MAX_WAIT_MS = 5_000
const MIN_WAIT_MS = 20

type QueueOptions = {
  readonly host: MailHost
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
  readonly #shares = createFairShares()
  readonly #rows = createFairQueue<MailboxRow>(this.#shares)
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

  add (row: MailboxRow): void {
    this.#rows.add(row.tenant, row)
    this.#size += 1
    row.queue = this
    const [wake] = this.#idle
    wake?.()
    if (wake === undefined || this.#size > ROWS_A_SESSION * this.#sessions) {
      this.drain().catch(failLoudly)
    }
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
  async drain (): Promise<void> {
    if (this.#isDraining) return
    this.#isDraining = true
    clearTimeout(this.#timer)
    try {
      while (this.#size > ROWS_A_SESSION * this.#sessions) {
        if (!this.#hosts.takeConnection(this)) return
        const { memory } = this.#hosts.options
        const granted = await memory.begin(this.#party, Math.min(this.#size, ROWS_A_SESSION))
        if ('why' in granted) {
          this.#hosts.releaseConnection()
          this.#wait(granted)
          break
        }
        this.#sessions += 1
        this.#converse(granted).catch(failLoudly)
      }
      if (this.#size === 0 && this.#sessions === 0) this.#options.onEmpty()
    } finally {
      this.#isDraining = false
    }
  }

  #wait ({ why, waitMs }: Refused): void {
    if (why === 'limited' || why === 'blocked') {
      this.#hosts.rest(this.#party, why, waitMs)
      return this.#leave()
    }
    const ms = Math.min(Math.max(waitMs, MIN_WAIT_MS), MAX_WAIT_MS)
    this.#timer = setTimeout(() => { this.drain().catch(failLoudly) }, ms)
    this.#timer.unref()
  }

  /** The rows look for another host or egress, or learn why there is none. */
  #leave (): void {
    for (let row = this.take(); row !== undefined; row = this.take()) {
      this.#hosts.place(row).catch(failLoudly)
    }
  }

  async #converse (granted: { readonly session: string, readonly recipients: number }) {
    const { host, policy, egress } = this.#options
    const { memory, metrics } = this.#hosts.options
    const owner = ownerLabel(policy.owner)
    const startedMs = performance.now()
    const conversation = new Conversation(this.#hosts.conversation, {
      host, egress, party: this.#party, granted, rows: this,
    })
    const { report, exchange, unasked } = await conversation.run()
    const restMs = await memory.end(this.#party, granted.session, report)
    // An exchange that talks to another session of ours is there: one more was too many.
    const isOneTooMany = exchange !== undefined && this.#sessions > 1
    if (exchange !== undefined && !isOneTooMany) {
      await memory.rest(host.name, exchange.why, exchange.restMs)
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
    this.#hosts.releaseConnection()
    for (const row of unasked) await this.#hosts.place(row)
    if (isOneTooMany) return this.#wait({ why: 'sessions', waitMs: MAX_WAIT_MS })
    if (ending !== 'well') this.#leave()
    await this.drain()
  }
}
