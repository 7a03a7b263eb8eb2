import type { FairShares } from '../platform/fair-shares.ts'

/** The rows of two full chunks: some 20 ms of work, for which another tenant waits. */
const MAX_ROWS = 4_000

type Usage = { readonly waiting: number, readonly rows: number }

/**
 * What the partitions of a consumer group have of each tenant in this process. It limits the rows
 * in flight of a tenant without credit while several tenants are active: what has started cannot be
 * preempted. A message may start below the limit, so each tenant always has one in flight. A tenant
 * that is alone uses the whole process.
 */
export class RowsInFlight {
  readonly #shares: Pick<FairShares, 'hasCredit'>
  readonly #weightOf: (tenant: string) => number
  /** The active tenants: those with messages that wait or are in flight. */
  readonly #active = new Map<string, Usage>()
  #ended = Promise.withResolvers<void>()

  constructor (shares: Pick<FairShares, 'hasCredit'>, weightOf: (tenant: string) => number) {
    this.#shares = shares
    this.#weightOf = weightOf
  }

  /** Adds messages of a tenant that wait to be decided; a negative number drops some. */
  addWaiting (tenant: string, messages: number): void {
    this.#change(tenant, messages, 0)
  }

  /** Whether the next message of a tenant may start. */
  mayStart (tenant: string): boolean {
    const { rows } = this.#active.get(tenant) ?? { rows: 0 }
    return this.#active.size < 2 || rows < MAX_ROWS * this.#weightOf(tenant) ||
      this.#shares.hasCredit(tenant)
  }

  /** A waiting message with so many rows starts. */
  start (tenant: string, rows: number): void {
    this.#change(tenant, -1, rows)
  }

  /** A started message is completed, or is delivered again. */
  end (tenant: string, rows: number): void {
    this.#change(tenant, 0, -rows)
    this.#ended.resolve()
    this.#ended = Promise.withResolvers()
  }

  /** Resolves at the next `end`. */
  nextEnd (): Promise<void> {
    return this.#ended.promise
  }

  #change (tenant: string, waiting: number, rows: number): void {
    const before = this.#active.get(tenant) ?? { waiting: 0, rows: 0 }
    const after = { waiting: before.waiting + waiting, rows: before.rows + rows }
    if (after.waiting === 0 && after.rows === 0) this.#active.delete(tenant)
    else this.#active.set(tenant, after)
  }
}
