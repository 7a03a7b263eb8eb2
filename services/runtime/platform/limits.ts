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
export function createTokenBuckets (
  now: () => number = () => performance.now(), maxNames = MAX_BUCKETS
) {
  const filled = new LRUCache<string, Filled>({ max: maxNames })
  const fill = (name: string, buckets: readonly Bucket[]): Filled => {
    const atMs = now()
    const last = filled.get(name)
    const elapsedMs = atMs - (last?.atMs ?? atMs)
    const levels = buckets.map((bucket, at) => {
      const { capacity, seconds } = bucket
      const { tokens = capacity } = last?.levels[at] ?? {}
      const perMicro = capacity / (seconds * 1_000_000)
      return { bucket, tokens: Math.min(tokens + elapsedMs * 1_000 * perMicro, capacity) }
    })
    return { atMs, levels }
  }
  const add = (name: string, { atMs, levels }: Filled, count: number): readonly Level[] => {
    const after = levels.map(({ bucket, tokens }) =>
      ({ bucket, tokens: Math.min(tokens + count, bucket.capacity) }))
    filled.set(name, { atMs, levels: after })
    return after
  }
  return {
    /** Takes a token from every bucket of the name, or none if one of them is empty. */
    take: (name: string, buckets: readonly Bucket[]) => {
      const current = fill(name, buckets)
      const isTaken = current.levels.every(({ tokens }) => tokens >= 1)
      return { isTaken, levels: add(name, current, isTaken ? -1 : 0) }
    },
    /** Adds tokens to every bucket up to its capacity, or takes them, even more than there are. */
    add: (name: string, buckets: readonly Bucket[], count: number): void => {
      add(name, fill(name, buckets), count)
    },
    levels: (name: string, buckets: readonly Bucket[]) => fill(name, buckets).levels,
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

export type FairShares = {
  /** The name with the least use, the first of equals; undefined without names. */
  readonly next: (names: Iterable<string>) => string | undefined
  /** Adds the cost of a slot, in any unit, once it is known. */
  readonly addUsage: (name: string, cost: number) => void
  /** Whether a name was idle and goes before busy ones. */
  readonly hasCredit: (name: string) => boolean
  readonly clear: () => void
}

/** Items that wait by name, each name first come, first served. */
export type FairQueue<T> = {
  readonly add: (name: string, item: T) => void
  /** The item that `take` would return. */
  readonly peek: () => T | undefined
  /** Removes the first item of the allowed name with the least use; by default all are allowed. */
  readonly take: (isAllowed?: (name: string) => boolean) =>
  { readonly name: string, readonly item: T } | undefined
  /** Removes an item that no longer waits. */
  readonly remove: (name: string, item: T) => void
  /** The first item of each name. */
  readonly heads: () => readonly T[]
  /** Removes all items. */
  readonly clear: () => readonly T[]
  readonly isEmpty: () => boolean
}

const MAX_NAMES = 1_000

/**
 * Start-time fair queuing: all waiting names get the same share, whatever their slots cost. A name
 * that was idle has no debt. It has a credit of up to `maxCredit`, in the unit of the costs: until
 * that is spent it goes before busy names, so a large load hardly delays a small one.
 */
export function createFairShares (maxCredit = 0): FairShares {
  const used = new LRUCache<string, number>({ max: MAX_NAMES })
  /** The highest use with which a name has had a slot: that of names that are always waiting. */
  let level = 0
  const usedBy = (name: string): number =>
    Math.max(used.get(name) ?? -Infinity, level - maxCredit)
  return {
    next: names => {
      const [first] = [...names].toSorted((one, other) => usedBy(one) - usedBy(other))
      return first
    },
    addUsage: (name, cost) => {
      const before = usedBy(name)
      level = Math.max(level, before)
      used.set(name, before + cost)
    },
    hasCredit: name => usedBy(name) < level,
    clear: () => {
      used.clear()
      level = 0
    },
  }
}

/** An empty queue. The caller adds the usage of what it takes to the shares. */
export function createFairQueue<T> (shares: FairShares): FairQueue<T> {
  const queues = new Map<string, T[]>()
  const heads = () => [...queues.values()].flatMap(([first]) => first === undefined ? [] : [first])
  return {
    add: (name, item) => {
      const queue = queues.get(name)
      if (queue === undefined) queues.set(name, [item])
      else queue.push(item)
    },
    peek: () => queues.get(shares.next(queues.keys()) ?? '')?.[0],
    take: (isAllowed = () => true) => {
      const name = shares.next([...queues.keys()].filter(isAllowed))
      const queue = queues.get(name ?? '')
      const item = queue?.shift()
      if (name === undefined || queue === undefined || item === undefined) return undefined
      // Moves the name behind those with the same use.
      queues.delete(name)
      if (queue.length > 0) queues.set(name, queue)
      return { name, item }
    },
    remove: (name, item) => {
      const queue = queues.get(name) ?? []
      const at = queue.indexOf(item)
      if (at >= 0) queue.splice(at, 1)
      if (queue.length === 0) queues.delete(name)
    },
    heads,
    clear: () => {
      const items = [...queues.values()].flat()
      queues.clear()
      return items
    },
    isEmpty: () => queues.size === 0,
  }
}

/** Whom an action is for, and its cost in any unit. */
export type SlotRequest = { readonly name: string, readonly cost: number }

export type FairSlots = {
  /**
   * Runs the action when its cost fits; waiting actions start in the order of fair shares. Rejects
   * with the reason of the signal if it is aborted before that.
   */
  readonly run: <T>(
    request: SlotRequest, action: () => Promise<T>, signal?: AbortSignal
  ) => Promise<T>
}

export type FairSlotsOptions = {
  /** Maximum total cost of the actions in progress, unless a single one costs more. */
  readonly capacity: number
  /** The cost by which a name that was idle goes before busy ones. */
  readonly maxCredit: number
}

type Waiting = { readonly cost: number, readonly start: () => void }

/** Limits the total cost of concurrent actions, and shares the capacity fairly between names. */
export function createFairSlots ({ capacity, maxCredit }: FairSlotsOptions): FairSlots {
  const shares = createFairShares(maxCredit)
  const waiting = createFairQueue<Waiting>(shares)
  let used = 0
  const startNext = () => {
    for (let next = waiting.peek(); next !== undefined; next = waiting.peek()) {
      if (used > 0 && used + next.cost > capacity) return
      const taken = waiting.take()
      if (taken === undefined) return
      used += taken.item.cost
      shares.addUsage(taken.name, taken.item.cost)
      taken.item.start()
    }
  }
  return {
    run: async ({ name, cost }, action, signal) => {
      signal?.throwIfAborted()
      await new Promise<void>((resolve, reject) => {
        const leave = () => {
          waiting.remove(name, request)
          reject(signal?.reason)
          startNext()
        }
        const start = () => {
          signal?.removeEventListener('abort', leave)
          resolve()
        }
        const request = { cost, start }
        signal?.addEventListener('abort', leave, { once: true })
        waiting.add(name, request)
        startNext()
      })
      try {
        return await action()
      } finally {
        used -= cost
        startNext()
      }
    },
  }
}

/** Runs actions of the same name one at a time, in order. */
export function createSerialQueues () {
  const last = new Map<string, Promise<unknown>>()
  const take = async <T>(name: string, action: () => Promise<T>): Promise<T> => {
    const before = last.get(name) ?? Promise.resolve()
    // A failure rejects only the caller of that action.
    const mine = before.catch(() => {}).then(action)
    last.set(name, mine)
    try {
      return await mine
    } finally {
      if (last.get(name) === mine) last.delete(name)
    }
  }
  return { take }
}

/** A counting semaphore for what is in memory. */
export type Capacity = {
  readonly take: (count: number) => void
  readonly release: (count: number) => void
  readonly used: () => number
  /**
   * Resolves once the use is below the limit by more than `margin`, which is 0 by default, or the
   * signal is aborted.
   */
  readonly untilFree: (signal: AbortSignal, margin?: () => number) => Promise<void>
}

/** Capacity for this many. `take` may exceed it, because messages arrive in batches. */
export function createCapacity (limit: number): Capacity {
  const waiting = new Set<() => void>()
  let used = 0
  return {
    take: count => { used += count },
    release: count => {
      used -= count
      for (const proceed of [...waiting]) proceed()
    },
    used: () => used,
    untilFree: async (signal, margin = () => 0) => {
      while (used + margin() >= limit && !signal.aborted) {
        await new Promise<void>(resolve => {
          const proceed = () => {
            waiting.delete(proceed)
            signal.removeEventListener('abort', proceed)
            resolve()
          }
          waiting.add(proceed)
          signal.addEventListener('abort', proceed, { once: true })
        })
      }
    },
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
  readonly #shares = createFairShares(MAX_CREDIT_MS)
  /** The waiting callers by tenant. */
  readonly #waiting = {
    small: createFairQueue<Resolve>(this.#shares), bulk: createFairQueue<Resolve>(this.#shares),
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
