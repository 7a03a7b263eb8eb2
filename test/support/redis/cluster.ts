import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Cluster, Redis } from 'ioredis'
import { freePort } from '../../../deploy/local/ports.ts'
import { connectRedis } from '../../../services/runtime/platform/redis.ts'
import { retry } from '../../../services/runtime/platform/retry.ts'
import { startRedisServer, type RedisServer } from './server.ts'
import { newFolder } from '../folder.ts'

export type RedisCluster = Awaited<ReturnType<typeof startRedisCluster>>

const MASTERS = 3
const AGREEMENT_TRIES = 600
/** Its characters have meanings in addresses. */
const PASSWORD = 'a+b@c:d/e'
const ACCOUNT = `:${encodeURIComponent(PASSWORD)}`

const EVERY_NODE = [
  '--bind', '127.0.0.1', '--requirepass', PASSWORD, '--masterauth', PASSWORD,
  // One that is gone takes away what it had and nothing else.
  '--cluster-enabled', 'yes', '--cluster-require-full-coverage', 'no',
  '--cluster-node-timeout', '1000',
]

/**
 * Three masters that share the slots of one cluster, each with this many replicas; the caller stops
 * it. `settings` are further ones of each server, those of a certificate for TLS among them.
 */
export async function startRedisCluster (
  settings: readonly string[] = [], replicas = 0
) {
  const count = MASTERS * (1 + replicas)
  const isSecure = settings.includes('--tls-cert-file')
  const all = await freePorts((isSecure ? 3 : 2) * count)
  const ports = all.slice(0, count)
  const folder = newFolder('redis-cluster-')
  const folderOf = (port: number) => join(folder, String(port))
  const nodes = new Map<number, RedisServer>()
  const start = async (port: number) => {
    mkdirSync(folderOf(port), { recursive: true })
    const index = ports.indexOf(port)
    nodes.set(port, await startRedisServer([
      ...isSecure ? ['--tls-port', String(all[2 * count + index]), '--tls-cluster', 'yes'] : [],
      '--port', String(port), '--dir', folderOf(port),
      '--cluster-port', String(all[count + index]), ...EVERY_NODE, ...settings,
    ]))
  }
  const opened: Cluster[] = []
  const stop = async () => {
    for (const one of opened) one.disconnect()
    await Promise.all([...nodes.values()].map(node => node.stop()))
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    await Promise.all(ports.map(start))
    await cli('--cluster', 'create', ...ports.map(port => `127.0.0.1:${port}`), '--cluster-yes',
      '--cluster-replicas', String(replicas))
    for (const port of ports) await untilAgreed(port)
  } catch (error) {
    await stop()
    throw error
  }
  const addressFor = (account = ACCOUNT) => `redis-cluster://${account}@` +
    ports.slice(0, 2).map(port => `127.0.0.1:${port}`).join(',')
  /** Kills a node; the returned function starts it on its files. */
  const killNode = async (port: number) => {
    await nodes.get(port)?.stop()
    nodes.delete(port)
    return async (change?: (folder: string) => void) => {
      change?.(folderOf(port))
      await start(port)
    }
  }
  return {
    /** The address of two of the three nodes, as services get it. */
    url: addressFor(),
    /** Where the first node listens with TLS, if it does. */
    securePort: all[2 * count] ?? 0,
    ports,
    stop,
    killNode,
    moveSlot,
    /** Ends one of the nodes for good. */
    loseNode: async () => { await killNode(ports.at(-1) ?? 0) },
    /** Kills a node, does something to its folder, and starts it on what is left of it. */
    restartNode: async (port: number, change?: (folder: string) => void) =>
      await (await killNode(port))(change),
    /** A connection as services make it, by default as the default user; closed by `stop`. */
    connect: async (account?: string) => {
      const connected = await connectRedis(addressFor(account))
      if (!(connected instanceof Cluster)) throw new Error('the connection is to no cluster')
      opened.push(connected)
      return connected
    },
  }
}

/** Tenants on all nodes; names that differ by a digit alone may all be of one. */
export function scatteredTenants (count: number): readonly string[] {
  return Array.from({ length: count }, (_, number) =>
    `org_${createHash('sha256').update(String(number)).digest('hex').slice(0, 26)}.live`)
}

/** Moves the slot of a key to another master, as deploy/docs/scaling.md says. */
async function moveSlot (
  key: string, { from, to }: { readonly from: number, readonly to: number }
): Promise<void> {
  const at = (port: number, ...words: readonly string[]) => cli('-p', String(port), ...words)
  const slot = await at(to, 'CLUSTER', 'KEYSLOT', key)
  const [source, target] = [await at(from, 'CLUSTER', 'MYID'), await at(to, 'CLUSTER', 'MYID')]
  await at(to, 'CLUSTER', 'SETSLOT', slot, 'IMPORTING', source)
  await at(from, 'CLUSTER', 'SETSLOT', slot, 'MIGRATING', target)
  await cli('--cluster', 'fix', `127.0.0.1:${to}`)
}

/** What redis-cli prints, without the last line end. */
async function cli (...args: readonly string[]): Promise<string> {
  const env = { ...process.env, REDISCLI_AUTH: PASSWORD }
  const { stdout } = await promisify(execFile)('redis-cli', args, { env, timeout: 240_000 })
  return stdout.trim()
}

/** A node serves once it knows of all others. */
async function untilAgreed (port: number): Promise<void> {
  const node = new Redis({ port, password: PASSWORD })
  try {
    await retry(AGREEMENT_TRIES, async () => {
      if ((await node.cluster('INFO')).includes('cluster_state:ok')) return
      throw new Error(`the node at ${port} does not know the others`)
    }, { maxMs: 200 })
  } finally {
    node.disconnect()
  }
}

async function freePorts (count: number): Promise<readonly number[]> {
  const taken = new Set<number>()
  while (taken.size < count) taken.add(await freePort(taken))
  return [...taken]
}
