import type { RawMessage } from '../kafka/bus.ts'
import { createFairShares, type FairShares } from '../platform/fair-shares.ts'
import { rowCountOf } from './stage.ts'

/** The size of all messages that a process has read ahead, and its maximum, in bytes. */
export type ReadAhead = { readonly maxBytes: number, bytes: number }

/** The shares of tenants, common to all partitions of a consumer group in a process. */
export type TenantShares = {
  readonly shares: FairShares
  /** The weight of a tenant; 1 by default. */
  readonly weightOf?: ((tenant: string) => number) | undefined
  readonly readAhead: ReadAhead
}

/** Messages of one partition, by tenant. */
export type TenantQueue = {
  readonly add: (messages: readonly RawMessage[]) => void
  /** Takes up to `count` messages, each of the tenant with the fewest rows per weight so far. */
  readonly take: (count: number) => readonly RawMessage[]
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

/** Shares without any use yet. */
export function createTenantShares (
  readAhead: ReadAhead, weightOf?: TenantShares['weightOf']
): TenantShares {
  return { shares: createFairShares(), readAhead, weightOf }
}

/** An empty queue. It keeps the order of each tenant with `isByTenant`, of all messages without. */
export function createTenantQueue (
  { shares, weightOf = () => 1, readAhead }: TenantShares, isByTenant: boolean
): TenantQueue {
  const queues = new Map<string, RawMessage[]>()
  const heads = () => [...queues.values()].flatMap(([first]) => first ?? [])
  const takeOne = (): readonly RawMessage[] => {
    const tenant = shares.next(queues.keys())
    const queue = queues.get(tenant ?? '')
    const message = queue?.shift()
    if (tenant === undefined || queue === undefined || message === undefined) return []
    // Moves the tenant behind those with the same use.
    queues.delete(tenant)
    if (queue.length > 0) queues.set(tenant, queue)
    shares.addUsage(tenant, costOf(message) / weightOf(tenant))
    readAhead.bytes -= bytesOf(message)
    return [message]
  }
  return {
    add: messages => {
      for (const message of messages) {
        const tenant = isByTenant ? tenantOf(message) : ''
        const queue = queues.get(tenant)
        if (queue === undefined) queues.set(tenant, [message])
        else queue.push(message)
        readAhead.bytes += bytesOf(message)
      }
    },
    take: count => Array.from({ length: count }, takeOne).flat(),
    oldestWrittenMs: () => queues.size === 0
      ? undefined
      : Math.min(...heads().map(({ timestampMs }) => timestampMs)),
    lowestOffset: offset => heads().reduce(
      (known, one) => one.offset < known ? one.offset : known, offset),
    isEmpty: () => queues.size === 0,
    clear: () => {
      for (const message of [...queues.values()].flat()) readAhead.bytes -= bytesOf(message)
      queues.clear()
    },
  }
}

/** The headers of a forged message are not trusted: all forged messages share one tenant. */
const tenantOf = ({ forged, headers }: RawMessage): string =>
  forged === true ? '' : headers['tenant'] ?? ''

const costOf = ({ forged, headers }: RawMessage): number =>
  forged === true ? 1 : Math.max(1, rowCountOf(headers))

const bytesOf = ({ key, value }: RawMessage): number => key.length + (value?.length ?? 0)
