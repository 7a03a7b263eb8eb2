import { Cluster, Command, type Redis } from 'ioredis'
import { InfrastructureError } from './errors.ts'
import { globalKey, type RedisClient, RUN_ID_LUA, script } from './redis.ts'
import { withTimeout } from './retry.ts'

/** A server that has keys: the only one, or a master of a cluster. */
export type RedisServer = {
  /** `host:port`; empty for a Redis that is no cluster. */
  readonly address: string
  /** The id of this start of the server. */
  readonly run: string
  /** A key of this name in a slot of the server. */
  readonly keyOf: (name: string) => string
  /** Whether the server has the slot of a key. */
  readonly has: (key: string) => boolean
}

/** A server that does not respond must not delay what concerns the others. */
const INFO_TIMEOUT_MS = 500
export const SLOTS = 16_384

/**
 * Connections to all servers that have keys: the Redis itself, or each master of a cluster as it is
 * known now.
 * @throws InfrastructureError when no node of the cluster says which ones there are.
 */
export async function mastersOf (redis: RedisClient): Promise<readonly Redis[]> {
  if (!(redis instanceof Cluster)) return [redis]
  // A connection that was lost is missing until the slots are read again.
  await new Promise<void>((resolve, reject) => {
    redis.refreshSlotsCache(cause => {
      if (cause == null) return resolve()
      reject(new InfrastructureError('no node of the Redis cluster names its masters', { cause }))
    })
  })
  return redis.nodes('master')
}

/** The address of a server as the cluster names it. */
export const addressOf = ({ options: { host, port } }: Redis): string => `${host}:${port}`

/** The address of the server of a key, as far as this process knows; empty without a cluster. */
export function homeOf (redis: RedisClient, key: string): string {
  return redis instanceof Cluster ? redis.slots[slotOf(key)]?.[0] ?? '' : ''
}

/** The slot of a key in a cluster. */
function slotOf (key: string): number {
  return new Command('exists', [key]).getSlot() ?? 0
}

/** The servers that respond; of a cluster those that have a slot. */
export async function serversOf (redis: RedisClient): Promise<readonly RedisServer[]> {
  if (!(redis instanceof Cluster)) {
    return [{ address: '', run: await runOf(redis), keyOf: globalKey, has: () => true }]
  }
  const nodes = redis.nodes('master').map(node => {
    const address = addressOf(node)
    return { node, address, tag: tagOf(redis, address) }
  })
  const cells = await Promise.all(nodes.map(async ({ node, address, tag }) => {
    const run = await quietly(runOf(node))
    return run === undefined || tag === undefined
      ? []
      : [{
          address,
          run,
          keyOf: (name: string) => `{${tag}}:${name}`,
          has: (key: string) => homeOf(redis, key) === address,
        }]
  }))
  return cells.flat()
}

async function runOf (redis: Redis): Promise<string> {
  return await script(redis, { name: 'run', source: `return ${RUN_ID_LUA}`, numberOfKeys: 0 })(
    [], []) as string
}

/** The answer; undefined after a failure or too long a wait. */
async function quietly<T> (answer: Promise<T>): Promise<T | undefined> {
  let result: T | undefined
  const settled = answer.then(value => { result = value }, () => {})
  await withTimeout(settled, INFO_TIMEOUT_MS)
  return result
}

/** The slots of the hash tags 0, 1, 2 and so on, as far as they were needed. */
const slotsOfTags: number[] = []

/** The first number that is a hash tag of a slot of the server. */
function tagOf ({ slots }: Cluster, address: string): string | undefined {
  if (!slots.some(servers => servers?.[0] === address)) return undefined
  for (let tag = 0; ; tag++) {
    const slot = slotsOfTags[tag] ??= slotOf(String(tag))
    if (slots[slot]?.[0] === address) return String(tag)
  }
}
