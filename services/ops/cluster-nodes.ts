import type { Redis } from 'ioredis'
import { UsageError } from '../platform/run-command.ts'

/** A node of a Redis cluster, as one of them sees it. */
export type ClusterNode = {
  readonly id: string
  /** `host:port`. */
  readonly address: string
  readonly isMaster: boolean
  readonly isFailed: boolean
  /** True for the node that was asked. */
  readonly isMyself: boolean
  readonly hasSlot: (slot: number) => boolean
  readonly slots: number
  /** Slots on their way to another node, with its id; known for the node that was asked. */
  readonly migrating: ReadonlyMap<number, string>
}

/** The nodes of the cluster as this node sees them. */
export async function readNodes (redis: Redis): Promise<readonly ClusterNode[]> {
  return parseNodes(String(await redis.call('CLUSTER', 'NODES')))
}

/** Parses the answer of CLUSTER NODES. */
export function parseNodes (text: string): readonly ClusterNode[] {
  return text.split('\n').filter(line => line !== '').map(line => {
    const [id = '', endpoint = '', flags = '', , , , , , ...rest] = line.trim().split(' ')
    const [address = ''] = endpoint.split('@')
    const kinds = flags.split(',')
    const ranges = rest.filter(one => !one.startsWith('[')).map(rangeOf)
    return {
      id,
      address,
      isMaster: kinds.includes('master'),
      isFailed: kinds.includes('fail'),
      isMyself: kinds.includes('myself'),
      hasSlot: slot => ranges.some(([first, last]) => slot >= first && slot <= last),
      slots: ranges.reduce((sum, [first, last]) => sum + last - first + 1, 0),
      migrating: new Map(rest.flatMap(one => {
        const [, slot, target] = /^\[(\d+)->-(\w+)\]$/.exec(one) ?? []
        return target === undefined ? [] : [[Number(slot), target] as const]
      })),
    }
  })
}

function rangeOf (text: string): readonly [first: number, last: number] {
  const [first, last = first] = text.split('-').map(Number)
  return [first ?? 0, last ?? 0]
}

/** Connections to nodes by address, with the access of a known one; `close` ends them. */
export function createNodeConnections (known: Redis) {
  const opened = new Map<string, Redis>()
  return {
    to: (address: string): Redis => {
      const at = address.lastIndexOf(':')
      const connection = opened.get(address) ?? known.duplicate({
        host: address.slice(0, at),
        port: Number(address.slice(at + 1)),
        lazyConnect: true,
        enableOfflineQueue: true,
      })
      connection.on('error', () => {})
      opened.set(address, connection)
      return connection
    },
    close: () => { for (const one of opened.values()) one.disconnect() },
  }
}

export type NodeConnections = ReturnType<typeof createNodeConnections>

/**
 * The master with this address.
 * @throws UsageError with all masters if there is none.
 */
export function masterAt (nodes: readonly ClusterNode[], address: string): ClusterNode {
  const masters = nodes.filter(({ isMaster, isFailed }) => isMaster && !isFailed)
  const found = masters.find(one => one.address === address)
  if (found !== undefined) return found
  throw new UsageError(`${address} is not the address of a master that responds. The masters ` +
    `are: ${masters.map(one => one.address).join(', ')}.`)
}
