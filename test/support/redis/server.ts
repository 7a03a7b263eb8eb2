import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { endingWithParent } from '../../../deploy/local/process.ts'
import { newFolder } from '../folder.ts'

export type RedisServer = {
  /** The unix socket it listens on. */
  readonly socket: string
  readonly stop: () => Promise<void>
  /** For a process that is about to end. */
  readonly kill: () => void
}

/**
 * A redis-server of one's own on a unix socket in a temporary folder: no port to collide, nothing
 * kept. The caller stops it.
 */
export async function startRedisServer (settings: readonly string[] = []): Promise<RedisServer> {
  const folder = newFolder('redis-')
  const socket = join(folder, 's')
  const server = spawn(...endingWithParent('redis-server', [
    '--port', '0', '--unixsocket', socket, '--dir', folder, '--save', '', '--appendonly', 'no',
    '--maxmemory-policy', 'noeviction', ...settings,
  ]), { stdio: ['ignore', 'pipe', 'inherit'] })
  const kill = () => {
    server.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  }
  const stop = async () => {
    if (server.exitCode === null && server.signalCode === null) {
      const gone = once(server, 'exit')
      server.kill('SIGKILL')
      await gone
    }
    rmSync(folder, { recursive: true, force: true })
  }
  await accepting(server)
  return { socket, stop, kill }
}

async function accepting (server: ChildProcess): Promise<void> {
  for await (const text of server.stdout!) {
    if (String(text).includes('ready to accept connections')) break
  }
  // Its output from now on is not read, but must not fill the pipe either.
  server.stdout!.resume()
}
