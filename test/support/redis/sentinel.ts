import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePort } from '../../../deploy/local/ports.ts'
import { retry } from '../../../services/runtime/platform/retry.ts'
import { startRedis, startRedisServer, type RedisServer } from './server.ts'
import { newFolder } from '../folder.ts'

const GROUP = 'state'
/** Minutes: what is not so by then never will be. */
const UNTIL_TRIES = 2_000
const UNTIL_PAUSE_MS = 250
/** Its characters have meanings in addresses. */
const PASSWORD = 'a+b@c:d/e'

/** A master, its replica and the sentinel that watches them. The caller stops them. */
export async function startWatchedRedis () {
  const taken = new Set<number>()
  const port = async () => {
    const free = await freePort(taken)
    taken.add(free)
    return free
  }
  const [masterPort, replicaPort, sentinelPort] = [await port(), await port(), await port()]
  const opened: RedisServer[] = []
  const stop = async () => { await Promise.all(opened.splice(0).map(server => server.stop())) }
  const start = async (at: number, ...more: readonly string[]) => {
    const server = await startRedisServer([
      '--port', String(at), '--bind', '127.0.0.1', '--requirepass', PASSWORD,
      '--masterauth', PASSWORD, ...more,
    ])
    opened.push(server)
    return server
  }
  try {
    const master = await start(masterPort)
    await start(replicaPort, '--replicaof', '127.0.0.1', String(masterPort))
    await untilSays(replicaPort, ['INFO', 'replication'], 'master_link_status:up')
    opened.push(await startSentinel(sentinelPort, masterPort))
    await untilSays(sentinelPort, ['SENTINEL', 'replicas', GROUP], String(replicaPort))
    return {
      /** What services are given as the address of their state. */
      url: `redis-sentinel://:${encodeURIComponent(PASSWORD)}@127.0.0.1:${sentinelPort}/${GROUP}`,
      /** From now on the replica gets nothing more of what the master acknowledges. */
      cutReplica: () => {
        cli(replicaPort, ['CONFIG', 'SET', 'masterauth', 'wrong'])
        cli(masterPort, ['CLIENT', 'KILL', 'TYPE', 'replica'])
      },
      /** Whether the replica has a key. */
      isReplicated: (key: string) => cli(replicaPort, ['EXISTS', key]).startsWith('1'),
      /** Kills the master; resolves when the replica is the master. */
      loseMaster: async () => {
        await master.stop()
        await untilSays(replicaPort, ['INFO', 'replication'], 'role:master')
      },
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}

async function startSentinel (port: number, masterPort: number): Promise<RedisServer> {
  const folder = newFolder('sentinel-')
  const file = join(folder, 'sentinel.conf')
  writeFileSync(file, [
    `port ${port}`, 'bind 127.0.0.1', `requirepass ${PASSWORD}`,
    `sentinel monitor ${GROUP} 127.0.0.1 ${masterPort} 1`,
    `sentinel auth-pass ${GROUP} ${PASSWORD}`,
    // A master that is only slow keeps its place, and a replica that was cut off may follow it.
    `sentinel down-after-milliseconds ${GROUP} 10000`,
  ].join('\n'))
  const server = await startRedis(folder, [file, '--sentinel'])
  await untilSays(port, ['PING'], 'PONG')
  return server
}

function untilSays (port: number, command: readonly string[], words: string): Promise<void> {
  return retry(UNTIL_TRIES, async () => {
    const answer = cli(port, command)
    if (!answer.includes(words)) throw new Error(`${command.join(' ')} answers ${answer}`)
  }, { maxMs: UNTIL_PAUSE_MS })
}

function cli (port: number, command: readonly string[]): string {
  const env = { ...process.env, REDISCLI_AUTH: PASSWORD }
  return execFileSync('redis-cli', ['-p', String(port), ...command], { env, stdio: 'pipe' })
    .toString()
}
