import type { RawMessage } from '../kafka/bus.ts'
import { createFairShares, type FairShares } from '../platform/fair-shares.ts'
import { rowsOf } from './row-headers.ts'

/** How many bytes of messages a process holds that it could have left with the broker. */
export type ReadAhead = { readonly mostBytes: number, bytes: number }

/** What decides between tenants: one for all partitions of a consumer group in a process. */
export type TenantShares = {
  readonly shares: FairShares
  /** How much of the whole a tenant gets, as a multiple of what others get; 1 when left out. */
  readonly weightOf?: ((tenant: string) => number) | undefined
  readonly ahead: ReadAhead
}

/** Messages of one partition, by tenant. */
export type TenantQueue = {
  readonly add: (messages: readonly RawMessage[]) => void
  /** At most so many, each of the tenant that has had the fewest rows for its weight. */
  readonly take: (count: number) => readonly RawMessage[]
  /** When the oldest message was written that is still here. */
  readonly oldestMs: () => number | undefined
  /** The lowest offset that is still here, or the given one if that is lower. */
  readonly lowest: (offset: bigint) => bigint
  readonly isEmpty: () => boolean
  /** Drops what is still here. */
  readonly clear: () => void
}

/** So much is read ahead to find messages of other tenants behind those of one. */
export const READ_AHEAD_BYTES = 64 * 1024 * 1024

/** What decides between tenants while nobody has had anything. */
export function createTenantShares (
  ahead: ReadAhead, weightOf?: TenantShares['weightOf']
): TenantShares {
  return { shares: createFairShares(), ahead, weightOf }
}

/**
 * An empty queue; the messages of a tenant stay in their order, and all do unless `isByTenant`.
 */
export function createTenantQueue (
  { shares, weightOf = () => 1, ahead }: TenantShares, isByTenant: boolean
): TenantQueue {
  const queues = new Map<string, RawMessage[]>()
  const heads = () => [...queues.values()].flatMap(([first]) => first ?? [])
  const takeOne = (): readonly RawMessage[] => {
    const tenant = shares.next(queues.keys())
    const queue = queues.get(tenant ?? '')
    const message = queue?.shift()
    if (tenant === undefined || queue === undefined || message === undefined) return []
    // Behind those that have had as much.
    queues.delete(tenant)
    if (queue.length > 0) queues.set(tenant, queue)
    shares.charge(tenant, costOf(message) / weightOf(tenant))
    ahead.bytes -= bytesOf(message)
    return [message]
  }
  return {
    add: messages => {
      for (const message of messages) {
        const tenant = isByTenant ? tenantOf(message) : ''
        const queue = queues.get(tenant)
        if (queue === undefined) queues.set(tenant, [message])
        else queue.push(message)
        ahead.bytes += bytesOf(message)
      }
    },
    take: count => Array.from({ length: count }, takeOne).flat(),
    oldestMs: () => queues.size === 0
      ? undefined
      : Math.min(...heads().map(({ timestampMs }) => timestampMs)),
    lowest: offset => heads().reduce(
      (known, one) => one.offset < known ? one.offset : known, offset),
    isEmpty: () => queues.size === 0,
    clear: () => {
      for (const message of [...queues.values()].flat()) ahead.bytes -= bytesOf(message)
      queues.clear()
    },
  }
}

/** Nothing of a forged message is believed: all of them are of one tenant without a name. */
const tenantOf = ({ forged, headers }: RawMessage): string =>
  forged === true ? '' : headers['tenant'] ?? ''

const costOf = ({ forged, headers }: RawMessage): number =>
  forged === true ? 1 : Math.max(1, rowsOf(headers))

const bytesOf = ({ key, value }: RawMessage): number => key.length + (value?.length ?? 0)
