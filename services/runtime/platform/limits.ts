import { LRUCache } from 'lru-cache'
import type { Lane } from '../../topology.ts'

// What limits work in one process: how fast (token buckets), whose turn it is (fair shares, and the
// queues and slots that follow them), how much at a time (a capacity, a pool that names share), and
// how much of it is remembered (a bounded cache).

/** A token bucket of `capacity` tokens; an empty one is full again after `seconds`. */
export type Bucket = { readonly capacity: number, readonly seconds: number }

/** A bucket with its current number of tokens, fractions included; below 0 it is in debt. */
export type Level = { readonly bucket: Bucket, readonly tokens: number }

type Filled = { readonly atMs: number, readonly levels: readonly Level[] }

/** About 3 MB. The least recently used are forgotten, which refills them. */
const MAX_BUCKETS = 10_000

/**
 * Token buckets in the memory of this process, several for each name, with the algorithm of
 * `ingest/limits/buckets.lua`. `now` is a monotonic clock, in milliseconds.
 */
export class TokenBuckets {
  readonly #now: () => number
  readonly #filled: LRUCache<string, Filled>

  constructor (now: () => number = () => performance.now(), maxNames = MAX_BUCKETS) {
    this.#now = now
    this.#filled = new LRUCache({ max: maxNames })
  }

  /** Takes a token from every bucket of the name, or none if one of them is empty. */
  take (name: string, buckets: readonly Bucket[]) {
    const current = this.#fill(name, buckets)
    const isTaken = current.levels.every(({ tokens }) => tokens >= 1)
    return { isTaken, levels: this.#change(name, current, isTaken ? -1 : 0) }
  }

  /** Adds tokens to every bucket up to its capacity, or takes them, even more than there are. */
  add (name: string, buckets: readonly Bucket[], count: number): void {
    this.#change(name, this.#fill(name, buckets), count)
  }

  levels (name: string, buckets: readonly Bucket[]): readonly Level[] {
    return this.#fill(name, buckets).levels
  }

  #fill (name: string, buckets: readonly Bucket[]): Filled {
    const atMs = this.#now()
    const last = this.#filled.get(name)
    const elapsedMs = atMs - (last?.atMs ?? atMs)
    const levels = buckets.map((bucket, at) => {
      const { capacity, seconds } = bucket
      const { tokens = capacity } = last?.levels[at] ?? {}
      const perMicro = capacity / (seconds * 1_000_000)
      return { bucket, tokens: Math.min(tokens + elapsedMs * 1_000 * perMicro, capacity) }
    })
    return { atMs, levels }
  }

  #change (name: string, { atMs, levels }: Filled, count: number): readonly Level[] {
    const after = levels.map(({ bucket, tokens }) =>
      ({ bucket, tokens: Math.min(tokens + count, bucket.capacity) }))
    this.#filled.set(name, { atMs, levels: after })
    return after
  }
}

/** Seconds until a bucket has so many tokens. */
export function secondsUntil ({ bucket, tokens }: Level, wanted: number): number {
  return Math.max(0, wanted - tokens) * bucket.seconds / bucket.capacity
}

/** Seconds until every bucket has a token, an integer of at least 1. */
export function retryAfterSeconds (levels: readonly Level[]): number {
  return Math.max(1, ...levels.map(level => Math.ceil(secondsUntil(level, 1))))
}

const MAX_NAMES = 1_000

/**
 * Start-time fair queuing: all waiting names get the same share, whatever their slots cost. A name
 * that was idle has no debt. It has a credit of up to `maxCredit`, in the unit of the costs: until
 * that is spent it goes before busy names, so a large load hardly delays a small one.
 */
export class FairShares {
  readonly #maxCredit: number
  readonly #used = new LRUCache<string, number>({ max: MAX_NAMES })
  /** The highest use with which a name has had a slot: that of names that are always waiting. */
  #level = 0

  constructor (maxCredit = 0) {
    this.#maxCredit = maxCredit
  }

  /** The name with the least use, the first of equals; undefined without names. */
  next (names: Iterable<string>): string | undefined {
    let next: string | undefined
    let least = Infinity
    for (const name of names) {
      const used = this.#usedBy(name)
      if (next !== undefined && used >= least) continue
      next = name
      least = used
    }
    return next
  }

  /** Adds the cost of a slot, in any unit, once it is known. */
  addUsage (name: string, cost: number): void {
    const before = this.#usedBy(name)
    this.#level = Math.max(this.#level, before)
    this.#used.set(name, before + cost)
  }

  /** Whether a name was idle and goes before busy ones. */
  hasCredit (name: string): boolean {
    return this.#usedBy(name) < this.#level
  }

  clear (): void {
    this.#used.clear()
    this.#level = 0
  }

  #usedBy (name: string): number {
    return Math.max(this.#used.get(name) ?? -Infinity, this.#level - this.#maxCredit)
  }
}

/**
 * Items that wait by name, each name first come, first served. The caller adds the usage of what it
 * takes to the shares.
 */
export class FairQueue<T> {
  readonly #shares: FairShares
  readonly #queues = new Map<string, T[]>()

  constructor (shares: FairShares) {
    this.#shares = shares
  }

  add (name: string, item: T): void {
    const queue = this.#queues.get(name)
    if (queue === undefined) this.#queues.set(name, [item])
    else queue.push(item)
  }

  /** The first item of the allowed name with the least use; by default all are allowed. */
  peek (isAllowed?: (name: string) => boolean): T | undefined {
    return this.#next(isAllowed)?.queue[0]
  }

  /** Removes the item that `peek` returns. */
  take (
    isAllowed?: (name: string) => boolean
  ): { readonly name: string, readonly item: T } | undefined {
    const { name, queue } = this.#next(isAllowed) ?? {}
    const item = queue?.shift()
    if (name === undefined || queue === undefined || item === undefined) return undefined
    // Moves the name behind those with the same use.
    this.#queues.delete(name)
    if (queue.length > 0) this.#queues.set(name, queue)
    return { name, item }
  }

  /** Removes an item that no longer waits. */
  remove (name: string, item: T): void {
    const queue = this.#queues.get(name) ?? []
    const at = queue.indexOf(item)
    if (at >= 0) queue.splice(at, 1)
    if (queue.length === 0) this.#queues.delete(name)
  }

  /** The first item of each name. */
  heads (): readonly T[] {
    return [...this.#queues.values()].flatMap(([first]) => first === undefined ? [] : [first])
  }

  /** Removes all items. */
  clear (): readonly T[] {
    const items = [...this.#queues.values()].flat()
    this.#queues.clear()
    return items
  }

  isEmpty (): boolean {
    return this.#queues.size === 0
  }

  #next (isAllowed: (name: string) => boolean = () => true) {
    const name = this.#shares.next([...this.#queues.keys()].filter(isAllowed))
    const queue = name === undefined ? undefined : this.#queues.get(name)
    return name === undefined || queue === undefined ? undefined : { name, queue }
  }
}

/** Whom an action is for, and its cost in any unit. */
export type SlotRequest = { readonly name: string, readonly cost: number }

export type FairSlotsOptions = {
  /** Maximum total cost of the actions in progress, unless a single one costs more. */
  readonly capacity: number
  /** The cost by which a name that was idle goes before busy ones. */
  readonly maxCredit: number
  /** A name with so much in progress starts no further action; no limit if left out. */
  readonly maxPerName?: number | undefined
}

/** Limits the total cost of concurrent actions, and shares the capacity fairly between names. */
export class FairSlots {
  readonly #capacity: number
  readonly #maxPerName: number
  readonly #shares: FairShares
  readonly #waiting: FairQueue<{ readonly cost: number, readonly start: () => void }>
  /** The cost of the actions in progress. */
  readonly #usedByName = new Map<string, number>()
  #used = 0

  constructor ({ capacity, maxCredit, maxPerName = Infinity }: FairSlotsOptions) {
    this.#capacity = capacity
    this.#maxPerName = maxPerName
    this.#shares = new FairShares(maxCredit)
    this.#waiting = new FairQueue(this.#shares)
  }

  /**
   * Runs the action when its cost fits; waiting actions start in the order of fair shares. Rejects
   * with the reason of the signal if it is aborted before that.
   */
  async run<T> (
    { name, cost }: SlotRequest, action: () => Promise<T>, signal?: AbortSignal
  ): Promise<T> {
    signal?.throwIfAborted()
    await new Promise<void>((resolve, reject) => {
      const leave = () => {
        this.#waiting.remove(name, request)
        reject(signal?.reason)
        this.#startNext()
      }
      const start = () => {
        signal?.removeEventListener('abort', leave)
        resolve()
      }
      const request = { cost, start }
      signal?.addEventListener('abort', leave, { once: true })
      this.#waiting.add(name, request)
      this.#startNext()
    })
    try {
      return await action()
    } finally {
      this.#addUse(name, -cost)
      this.#startNext()
    }
  }

  #addUse (name: string, cost: number): void {
    const ofName = (this.#usedByName.get(name) ?? 0) + cost
    if (ofName > 0) this.#usedByName.set(name, ofName)
    else this.#usedByName.delete(name)
    this.#used += cost
  }

  #startNext (): void {
    const isAllowed = (name: string) => (this.#usedByName.get(name) ?? 0) < this.#maxPerName
    for (;;) {
      const next = this.#waiting.peek(isAllowed)
      if (next === undefined) return
      if (this.#used > 0 && this.#used + next.cost > this.#capacity) return
      const taken = this.#waiting.take(isAllowed)
      if (taken === undefined) return
      this.#addUse(taken.name, taken.item.cost)
      this.#shares.addUsage(taken.name, taken.item.cost)
      taken.item.start()
    }
  }
}

/** Runs actions of the same name one at a time, in order. */
export class SerialQueues {
  readonly #last = new Map<string, Promise<unknown>>()

  async take<T> (name: string, action: () => Promise<T>): Promise<T> {
    const before = this.#last.get(name) ?? Promise.resolve()
    // A failure rejects only the caller of that action.
    const mine = before.catch(() => {}).then(action)
    this.#last.set(name, mine)
    try {
      return await mine
    } finally {
      if (this.#last.get(name) === mine) this.#last.delete(name)
    }
  }
}

/** A counting semaphore for what is in memory. */
export class Capacity {
  readonly #limit: number
  readonly #waiting = new Set<() => void>()
  #used = 0

  constructor (limit: number) {
    this.#limit = limit
  }

  /** It may exceed the limit, because messages arrive in batches. */
  take (count: number): void {
    this.#used += count
  }

  release (count: number): void {
    this.#used -= count
    for (const proceed of [...this.#waiting]) proceed()
  }

  used (): number {
    return this.#used
  }

  /**
   * Resolves once the use is below the limit by more than `margin`, which is 0 by default, or the
   * signal is aborted.
   */
  async untilFree (signal: AbortSignal, margin: () => number = () => 0): Promise<void> {
    while (this.#used + margin() >= this.#limit && !signal.aborted) {
      await new Promise<void>(resolve => {
        const proceed = () => {
          this.#waiting.delete(proceed)
          signal.removeEventListener('abort', proceed)
          resolve()
        }
        this.#waiting.add(proceed)
        signal.addEventListener('abort', proceed, { once: true })
      })
    }
  }
}

type PoolOptions = {
  readonly capacity: number
  /** Maximum of one name. */
  readonly maxPerName?: number
  /** Every name may have this much in an exhausted pool, until that has twice its capacity. */
  readonly guaranteed?: number
}

/** The reservations of a name, the oldest first, and their sum. */
type Use = { readonly amount: number, readonly reservations: Set<PoolReservation> }

/** A name that may give to others: what it has left, and what can be evicted. */
type Giver = { left: number, readonly newest: PoolReservation[] }

/**
 * A capacity that names share fairly, in any unit: memory, places, requests that wait. A name may
 * use all of it while others leave it. When it is exhausted, a name with less takes from the name
 * with most, whose newest reservations are evicted, so a name that asks for no more than an equal
 * share is refused only because of reservations that are kept. A reservation above the capacity is
 * admitted while it is the only one.
 */
export class FairPool {
  readonly #options: Required<PoolOptions>
  readonly #uses = new Map<string, Use>()
  #total = 0

  constructor ({ capacity, maxPerName = Infinity, guaranteed = 0 }: PoolOptions) {
    this.#options = { capacity, maxPerName, guaranteed }
  }

  /** The sum of all reservations. */
  get total (): number {
    return this.#total
  }

  /**
   * An empty reservation of a name. It may be evicted for a name that uses less: then it is
   * released and `onEvicted` is called. Without `onEvicted` it is kept.
   */
  open (name: string, onEvicted?: () => void): PoolReservation {
    return new PoolReservation(this, name, onEvicted)
  }

  /**
   * The reservations to evict so that one can grow to this amount; undefined if that cannot be. A
   * name gives only as long as it has more than the growing one would have.
   */
  findVictims (
    reservation: PoolReservation, amount: number
  ): readonly PoolReservation[] | undefined {
    const { capacity, maxPerName, guaranteed } = this.#options
    const { more, use } = this.#change(reservation, amount)
    if (more <= 0) return []
    if (use > maxPerName) return undefined
    const isGuaranteed = use <= guaranteed && this.#total + more <= 2 * capacity
    if (isGuaranteed || this.#total === reservation.amount) return []
    let missing = this.#total + more - capacity
    const givers = missing <= 0 ? [] : this.#giversAbove(use)
    const victims: PoolReservation[] = []
    while (missing > 0) {
      const [giver] = givers.filter(({ left, newest }) => left > use && newest.length > 0)
        .toSorted((a, b) => b.left - a.left)
      const victim = giver?.newest.shift()
      if (giver === undefined || victim === undefined) return undefined
      giver.left -= victim.amount
      missing -= victim.amount
      victims.push(victim)
    }
    return victims
  }

  /** Changes the amount of a reservation. */
  resize (reservation: PoolReservation, amount: number): void {
    const { more, use } = this.#change(reservation, amount)
    const { name } = reservation
    const { reservations } = this.#uses.get(name) ?? { reservations: new Set<PoolReservation>() }
    if (amount > 0) reservations.add(reservation)
    else reservations.delete(reservation)
    if (reservations.size === 0) this.#uses.delete(name)
    else this.#uses.set(name, { amount: use, reservations })
    this.#total += more
  }

  /** What a reservation would add, and what its name would use then. */
  #change ({ name, amount: before }: PoolReservation, amount: number) {
    const more = amount - before
    return { more, use: (this.#uses.get(name)?.amount ?? 0) + more }
  }

  #giversAbove (amount: number): readonly Giver[] {
    return [...this.#uses.values()].filter(use => use.amount > amount).map(use => ({
      left: use.amount,
      newest: [...use.reservations].filter(({ isEvictable }) => isEvictable).reverse(),
    }))
  }
}

/** What one holder has of a pool. */
export class PoolReservation {
  readonly name: string
  readonly #pool: FairPool
  #onEvicted: (() => void) | undefined
  #amount = 0
  #isReleased = false

  constructor (pool: FairPool, name: string, onEvicted?: () => void) {
    this.#pool = pool
    this.name = name
    this.#onEvicted = onEvicted
  }

  get amount (): number {
    return this.#amount
  }

  get isEvictable (): boolean {
    return this.#onEvicted !== undefined
  }

  /** Whether `grow` would succeed now. */
  canGrow (amount: number): boolean {
    return !this.#isReleased && this.#pool.findVictims(this, amount) !== undefined
  }

  /**
   * Grows to this amount in total, never shrinks. False, with the reservation unchanged, if the
   * name has its share of an exhausted pool, and after the release.
   */
  grow (amount: number): boolean {
    const victims = this.#isReleased ? undefined : this.#pool.findVictims(this, amount)
    if (victims === undefined) return false
    for (const victim of victims) victim.evict()
    if (amount > this.#amount) this.#resize(amount)
    return true
  }

  /** From now on it is not evicted. */
  keep (): void {
    this.#onEvicted = undefined
  }

  /** Releases the whole reservation. Idempotent. */
  release (): void {
    this.#isReleased = true
    this.#resize(0)
  }

  evict (): void {
    this.release()
    this.#onEvicted?.()
  }

  #resize (amount: number): void {
    this.#pool.resize(this, amount)
    this.#amount = amount
  }
}

type CacheLimits = {
  /** The most entries; the least recently used one goes first. */
  readonly entries: number
  /** Milliseconds for which an entry is kept; without it none expires. */
  readonly ttl?: number | undefined
  /** Another clock for expiry than that of the process. */
  readonly now?: (() => number) | undefined
}

/**
 * A cache that takes memory for the entries that it has: by `max`, `lru-cache` reserves some 44
 * bytes for each possible one at once, 4 MB for 100,000.
 */
export function boundedCache<V extends {}> (
  { entries, ttl, now }: CacheLimits
): LRUCache<string, V> {
  return new LRUCache<string, V>({
    maxSize: entries,
    sizeCalculation: () => 1,
    ...ttl !== undefined && { ttl },
    ...now !== undefined && { perf: { now }, ttlResolution: 0 },
  })
}

type Resolve = () => void

/** Maximum number of slots in a row for the lane `small` while `bulk` waits. */
const MAX_SMALL = 4

/** Thread time of a job of some 20,000 rows in most stages. */
const MAX_CREDIT_MS = 250

/**
 * A scheduler for CPU work. The process grants one slot per iteration of the event loop, so
 * messages, heartbeats and responses wait for at most one slot, however many jobs are in progress.
 */
class EventLoop {
  /** In milliseconds of this thread. */
  readonly #shares = new FairShares(MAX_CREDIT_MS)
  /** The waiting callers by tenant. */
  readonly #waiting = {
    small: new FairQueue<Resolve>(this.#shares), bulk: new FairQueue<Resolve>(this.#shares),
  }

  /** The tenant that runs in the current slot. */
  #last: { readonly tenant: string, readonly startedMs: number } | undefined
  #isScheduled = false
  #smallInARow = 0

  /**
   * Resolves when the caller may do a few milliseconds of work. The lane `small` goes first, but
   * `bulk` gets every fifth slot. Within a lane the tenant with the least CPU time goes first, so
   * expensive inputs delay only their sender.
   */
  yield (lane: Lane, tenant = ''): Promise<void> {
    return new Promise(resolve => {
      this.#waiting[lane].add(tenant, resolve)
      this.#schedule()
    })
  }

  /** Drops all waiting callers, for example between two simulated runs of one process. */
  clear (): void {
    this.#waiting.small.clear()
    this.#waiting.bulk.clear()
    this.#shares.clear()
    this.#last = undefined
    this.#isScheduled = false
    this.#smallInARow = 0
  }

  #schedule (): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    setImmediate(() => this.#grantSlot())
    // The work of a slot runs in the microtasks between these two immediates.
    setImmediate(() => {
      if (this.#last === undefined) return
      this.#shares.addUsage(this.#last.tenant, performance.now() - this.#last.startedMs)
      this.#last = undefined
    })
  }

  #grantSlot (): void {
    this.#isScheduled = false
    const { small, bulk } = this.#waiting
    const isSmall = !small.isEmpty() && (bulk.isEmpty() || this.#smallInARow < MAX_SMALL)
    this.#smallInARow = isSmall ? this.#smallInARow + 1 : 0
    const taken = (isSmall ? small : bulk).take()
    if (taken !== undefined) {
      this.#last = { tenant: taken.name, startedMs: performance.now() }
      taken.item()
    }
    if (!small.isEmpty() || !bulk.isEmpty()) this.#schedule()
  }
}

/** The scheduler of this process. */
export const eventLoop = new EventLoop()
