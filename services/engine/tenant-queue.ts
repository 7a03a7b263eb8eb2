import type { RawMessage } from '../kafka/bus.ts'
import { createFairQueue, createFairShares, type FairShares } from '../platform/fair-shares.ts'
import { createRowsInFlight, type RowsInFlight } from './rows-in-flight.ts'
import { rowCountOf } from './stage.ts'

/** The size of all messages that a process has read ahead, and its maximum, in bytes. */
export type ReadAhead = { readonly maxBytes: number, bytes: number }

/** The shares of tenants, common to all partitions of a consumer group in a process. */
export type TenantShares = {
  readonly shares: FairShares
  readonly rowsInFlight: RowsInFlight
  readonly weightOf: (tenant: string) => number
  readonly readAhead: ReadAhead
}

/** Messages of one partition, by tenant. */
export type TenantQueue = {
  readonly add: (messages: readonly RawMessage[]) => void
  /**
   * Takes up to `count` messages, each of the tenant with the fewest rows per weight so far. With
   * `isByTenant`, stops at MAX_BATCH_ROWS: messages of other tenants wait for the end of a batch.
   * Returns none while every queued tenant has its maximum of rows in flight (RowsInFlight).
   */
  readonly take: (count: number) => readonly RawMessage[]
  /** Ends the flight of messages that were taken, whether they are completed or not. */
  readonly release: (messages: readonly RawMessage[]) => void
  /** Resolves when messages of any partition are released, and `take` may return some again. */
  readonly released: () => Promise<void>
  /** When the oldest queued message was written. */
  readonly oldestWrittenMs: () => number | undefined
  /** The lowest queued offset, or the given one if that is lower. */
  readonly lowestOffset: (offset: bigint) => bigint
  readonly isEmpty: () => boolean
  /** Drops all queued messages. */
  readonly clear: () => void
}

/** Maximum size of messages read ahead to find those of other tenants. */
export const READ_AHEAD_BYTES = 64 * 1024 * 1024

/** The rows of two full chunks: some 20 ms of work. */
const MAX_BATCH_ROWS = 4_000

/** Rows by which a tenant that was idle goes before busy ones. */
const MAX_CREDIT_ROWS = 25_000

/** Shares without any use yet. The weight of a tenant is 1 by default. */
export function createTenantShares (
  readAhead: ReadAhead, weightOf: TenantShares['weightOf'] = () => 1
): TenantShares {
  const shares = createFairShares(MAX_CREDIT_ROWS)
  return { shares, rowsInFlight: createRowsInFlight(shares, weightOf), readAhead, weightOf }
}

/** An empty queue. It keeps the order of each tenant with `isByTenant`, of all messages without. */
export function createTenantQueue (
  { shares, rowsInFlight, weightOf, readAhead }: TenantShares, isByTenant: boolean
): TenantQueue {
  const queue = createFairQueue<RawMessage>(shares)
  return {
    add: messages => {
      for (const message of messages) {
        queue.add(isByTenant ? tenantOf(message) : '', message)
        if (isByTenant) rowsInFlight.addWaiting(tenantOf(message), 1)
        readAhead.bytes += bytesOf(message)
      }
    },
    take: count => {
      const taken: RawMessage[] = []
      const maxRows = isByTenant ? MAX_BATCH_ROWS : Infinity
      for (let rows = 0; taken.length < count && rows < maxRows;) {
        const next = queue.take(isByTenant ? rowsInFlight.mayStart : undefined)
        if (next === undefined) break
        const cost = costOf(next.item)
        shares.addUsage(next.name, cost / weightOf(next.name))
        if (isByTenant) rowsInFlight.start(next.name, cost)
        readAhead.bytes -= bytesOf(next.item)
        taken.push(next.item)
        rows += cost
      }
      return taken
    },
    release: messages => {
      if (!isByTenant) return
      for (const message of messages) rowsInFlight.end(tenantOf(message), costOf(message))
    },
    released: rowsInFlight.nextEnd,
    oldestWrittenMs: () => queue.isEmpty()
      ? undefined
      : Math.min(...queue.heads().map(({ timestampMs }) => timestampMs)),
    lowestOffset: offset => queue.heads().reduce(
      (known, one) => one.offset < known ? one.offset : known, offset),
    isEmpty: queue.isEmpty,
    clear: () => {
      for (const message of queue.clear()) {
        if (isByTenant) rowsInFlight.addWaiting(tenantOf(message), -1)
        readAhead.bytes -= bytesOf(message)
      }
    },
  }
}

/** The headers of a forged message are not trusted: all forged messages share one tenant. */
const tenantOf = ({ forged, headers }: RawMessage): string =>
  forged === true ? '' : headers['tenant'] ?? ''

const costOf = ({ forged, headers }: RawMessage): number =>
  forged === true ? 1 : Math.max(1, rowCountOf(headers))

const bytesOf = ({ key, value }: RawMessage): number => key.length + (value?.length ?? 0)
