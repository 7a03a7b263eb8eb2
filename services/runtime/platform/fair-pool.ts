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
