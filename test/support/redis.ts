import { execFileSync, spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { afterAll } from 'vitest'

export type PrivateRedis = {
  readonly redis: Redis
  /** A further connection to the same server, closed along with it. */
  readonly connect: () => Redis
  readonly stop: () => Promise<void>
}

/** Whether this machine has a redis-server to run. */
export function hasRedisServer (): boolean {
  try {
    execFileSync('redis-server', ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/**
 * A redis-server of one's own on a unix socket in a temporary folder: no port to collide, nothing
 * kept. It ends with the test file.
 */
export async function startRedis (): Promise<PrivateRedis> {
  const folder = mkdtempSync(join(tmpdir(), 'redis-'))
  const socket = join(folder, 's')
  const server = spawn('redis-server', [
    '--port', '0', '--unixsocket', socket, '--dir', folder, '--save', '', '--appendonly', 'no',
    '--maxmemory-policy', 'noeviction',
  ], { stdio: ['ignore', 'pipe', 'inherit'] })
  const connections: Redis[] = []
  const stop = async () => {
    for (const connection of connections) connection.disconnect()
    await ended(server)
    rmSync(folder, { recursive: true, force: true })
  }
  afterAll(stop)
  await accepting(server)
  const connect = () => {
    const connection = new Redis({ path: socket, maxRetriesPerRequest: 1 })
    connections.push(connection)
    return connection
  }
  return { redis: connect(), connect, stop }
}

async function accepting (server: ChildProcess): Promise<void> {
  for await (const text of server.stdout!) {
    if (String(text).includes('ready to accept connections')) break
  }
  // Whatever it says from now on is not read, but must not fill the pipe either.
  server.stdout!.resume()
}

async function ended (server: ChildProcess): Promise<void> {
  if (server.exitCode !== null) return
  const gone = once(server, 'exit')
  server.kill('SIGKILL')
  await gone
}
