// What the partitions of a consumer group have in work: which messages are pending, and whose turn
// it is.
import { measureMessage, type RawMessage } from '../kafka/bus.ts'
import { FairQueue, FairShares } from '../platform/limits.ts'
import { dueAtMs, readRowCount } from './stage.ts'

/**
 * The pending messages of a partition in one generation of its group. A held message keeps the
 * committed offset below itself.
 */
export class Offsets {
  /** Added in ascending order, so the first is always the lowest. */
  readonly #pending = new Set<bigint>()
  #next = 0n
  /** Undefined before the first message. */
  #committed: bigint | undefined

  /** Adds messages, in order, as pending. */
  add (messages: readonly RawMessage[]): void {
    for (const { offset } of messages) {
      this.#committed ??= offset
      this.#pending.add(offset)
      this.#next = offset + 1n
    }
  }

  complete (offset: bigint): void {
    this.#pending.delete(offset)
  }

  /** Removes messages from this offset on, which will be delivered again. */
  rewind (fromOffset: bigint): void {
    for (const offset of this.#pending) {
      if (offset >= fromOffset) this.#pending.delete(offset)
    }
    this.#next = fromOffset
  }

  /** The offset to commit, below which all messages are completed; undefined if unchanged. */
  committable (): bigint | undefined {
    const [lowest = this.#next] = this.#pending
    return this.#committed !== undefined && lowest > this.#committed ? lowest : undefined
  }

  committed (offset: bigint): void {
    this.#committed = offset
  }

  /** The number of messages that are held or in progress. */
  countPending (): number {
    return this.#pending.size
  }
}

/** The size of all messages that a process has read ahead, and its maximum, in bytes. */
export type ReadAhead = { readonly maxBytes: number, bytes: number }

/** The shares of tenants, common to all partitions of a consumer group in a process. */
export type TenantShares = {
  readonly shares: FairShares
  readonly rowsInFlight: RowsInFlight
  readonly weightOf: (tenant: string) => number
  readonly readAhead: ReadAhead
}

/** Maximum size of messages read ahead to find those of other tenants. */
export const READ_AHEAD_BYTES = 64 * 1024 * 1024

/** The rows of two full chunks: some 20 ms of work, for which another tenant waits. */
const MAX_ROWS = 4_000

/** Rows by which a tenant that was idle goes before busy ones. */
const MAX_CREDIT_ROWS = 25_000

/** Shares without any use yet. The weight of a tenant is 1 by default. */
export function createTenantShares (
  readAhead: ReadAhead, weightOf: TenantShares['weightOf'] = () => 1
): TenantShares {
  const shares = new FairShares(MAX_CREDIT_ROWS)
  return { shares, rowsInFlight: new RowsInFlight(shares, weightOf), readAhead, weightOf }
}

/**
 * Messages of one partition, by tenant. It keeps the order of each tenant with `isByTenant`, of all
 * messages without.
 */
export class TenantQueue {
  readonly #tenants: TenantShares
  readonly #isByTenant: boolean
  readonly #queue: FairQueue<RawMessage>

  constructor (tenants: TenantShares, isByTenant: boolean) {
    this.#tenants = tenants
    this.#isByTenant = isByTenant
    this.#queue = new FairQueue(tenants.shares)
  }

  add (messages: readonly RawMessage[]): void {
    const { rowsInFlight, readAhead } = this.#tenants
    for (const message of messages) {
      this.#queue.add(this.#isByTenant ? readTenant(message) : '', message)
      if (this.#isByTenant) rowsInFlight.addWaiting(readTenant(message), 1)
      readAhead.bytes += measureMessage(message)
    }
  }

  /** Whether messages of other tenants may be added that were fetched meanwhile. */
  mayReadAhead (): boolean {
    const { readAhead } = this.#tenants
    return this.#isByTenant && readAhead.bytes < readAhead.maxBytes
  }

  /**
   * Takes up to `count` messages, each of the tenant with the fewest rows per weight so far. With
   * `isByTenant`, stops at MAX_ROWS: messages of other tenants wait for the end of a batch.
   * Returns none while every queued tenant has its maximum of rows in flight (RowsInFlight).
   */
  take (count: number): readonly RawMessage[] {
    const { shares, rowsInFlight, weightOf, readAhead } = this.#tenants
    const taken: RawMessage[] = []
    const maxRows = this.#isByTenant ? MAX_ROWS : Infinity
    const mayStart = this.#isByTenant
      ? (tenant: string) => rowsInFlight.mayStart(tenant)
      : undefined
    for (let rows = 0; taken.length < count && rows < maxRows;) {
      const next = this.#queue.take(mayStart)
      if (next === undefined) break
      const cost = readCost(next.item)
      shares.addUsage(next.name, cost / weightOf(next.name))
      if (this.#isByTenant) rowsInFlight.start(next.name, cost)
      readAhead.bytes -= measureMessage(next.item)
      taken.push(next.item)
      rows += cost
    }
    return taken
  }

  /** Ends the flight of messages that were taken, whether they are completed or not. */
  release (messages: readonly RawMessage[]): void {
    if (!this.#isByTenant) return
    for (const message of messages) {
      this.#tenants.rowsInFlight.end(readTenant(message), readCost(message))
    }
  }

  /** Resolves when messages of any partition are released, and `take` may return some again. */
  released (): Promise<void> {
    return this.#tenants.rowsInFlight.nextEnd()
  }

  /** When the first of the queued messages could be processed. */
  oldestDueAtMs (): number | undefined {
    return this.isEmpty() ? undefined : Math.min(...this.#queue.heads().map(dueAtMs))
  }

  /** The lowest queued offset, or the given one if that is lower. */
  lowestOffset (offset: bigint): bigint {
    return this.#queue.heads().reduce(
      (lowest, head) => head.offset < lowest ? head.offset : lowest, offset)
  }

  isEmpty (): boolean {
    return this.#queue.isEmpty()
  }

  /** Drops all queued messages. */
  clear (): void {
    const { rowsInFlight, readAhead } = this.#tenants
    for (const message of this.#queue.clear()) {
      if (this.#isByTenant) rowsInFlight.addWaiting(readTenant(message), -1)
      readAhead.bytes -= measureMessage(message)
    }
  }
}

/** The headers of a forged message are not trusted: all forged messages share one tenant. */
const readTenant = ({ forged, headers }: RawMessage): string =>
  forged === true ? '' : headers['tenant'] ?? ''

const readCost = ({ forged, headers }: RawMessage): number =>
  forged === true ? 1 : Math.max(1, readRowCount(headers))

type Usage = { readonly waiting: number, readonly rows: number }

/**
 * What the partitions of a consumer group have of each tenant in this process. It limits the rows
 * in flight of a tenant without credit while several tenants are active: what has started cannot be
 * preempted. A message may start below the limit, so each tenant always has one in flight. A tenant
 * that is alone uses the whole process.
 */
class RowsInFlight {
  readonly #shares: Pick<FairShares, 'hasCredit'>
  readonly #weightOf: (tenant: string) => number
  /** The active tenants: those with messages that wait or are in flight. */
  readonly #active = new Map<string, Usage>()
  #ended = Promise.withResolvers<void>()

  constructor (shares: FairShares, weightOf: (tenant: string) => number) {
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
