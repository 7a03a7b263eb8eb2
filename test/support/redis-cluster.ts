import { execFileSync } from 'node:child_process'
import { Cluster } from 'ioredis'
import { freePort } from '../../deploy/local/ports.ts'
import { connectRedisOrCluster } from '../../services/platform/redis.ts'
import { eventually } from './eventually.ts'
import { startRedisServer } from './redis-server.ts'

export type RedisCluster = {
  /**
   * A connection as services make it, given two of the three nodes; closed by `stop`. `account`
   * is user and password as in an address, the default user's when left out.
   */
  readonly connect: (account?: string) => Promise<Cluster>
  /** Ends one of the nodes for good. */
  readonly loseNode: () => Promise<void>
  readonly stop: () => Promise<void>
}

const NODES = 3
/** Its characters have meanings in addresses. */
const PASSWORD = 'a+b@c:d/e'

/** Three servers that share the slots of one cluster, without replicas; the caller stops it. */
export async function startRedisCluster (): Promise<RedisCluster> {
  const ports = await freePorts(2 * NODES)
  const own = ports.slice(0, NODES)
  const nodes = await Promise.all(own.map((port, index) => startRedisServer([
    '--port', String(port), '--bind', '127.0.0.1', '--requirepass', PASSWORD,
    '--cluster-enabled', 'yes', '--cluster-port', String(ports[NODES + index]),
    // One that is gone takes away what it had and nothing else.
    '--cluster-require-full-coverage', 'no', '--cluster-node-timeout', '1000',
  ])))
  const opened: Cluster[] = []
  const stop = async () => {
    for (const one of opened) one.disconnect()
    await Promise.all(nodes.splice(0).map(node => node.stop()))
  }
  try {
    cli(['--cluster', 'create', ...own.map(port => `127.0.0.1:${port}`), '--cluster-yes'])
    for (const port of own) await untilAgreed(port)
  } catch (error) {
    await stop()
    throw error
  }
  const loseNode = async () => { await nodes.pop()?.stop() }
  const some = own.slice(0, 2).map(port => `127.0.0.1:${port}`).join(',')
  const connect = async (account = `:${encodeURIComponent(PASSWORD)}`) => {
    const connected = await connectRedisOrCluster(`redis-cluster://${account}@${some}`)
    if (!(connected instanceof Cluster)) throw new Error('the connection is to no cluster')
    opened.push(connected)
    return connected
  }
  return { connect, loseNode, stop }
}

function cli (args: readonly string[]): string {
  const env = { ...process.env, REDISCLI_AUTH: PASSWORD }
  return execFileSync('redis-cli', args, { env, stdio: 'pipe', timeout: 240_000 }).toString()
}

/** A node serves once it knows of all others. */
async function untilAgreed (port: number): Promise<void> {
  await eventually(() => {
    if (cli(['-p', String(port), 'CLUSTER', 'INFO']).includes('cluster_state:ok')) return
    throw new Error(`the node at ${port} does not know the others`)
  })
}

async function freePorts (count: number): Promise<readonly number[]> {
  const taken = new Set<number>()
  while (taken.size < count) taken.add(await freePort(taken))
  return [...taken]
}
